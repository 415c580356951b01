"""Draft heads: what each method's network really holds, given the config of the head and the target it
serves.

A config does not say that it is a head; the method does (`method=`). Tables shared with the target
(embedding, and the LM head where the method shares it) are not held but are read and multiplied all the same.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_defaults import FAMILIES, HEAD_ARCHITECTURES
from roofline.hf_families import layer_windows, mixer_of
from roofline.hf_fields import Config, Fields, object_of
from roofline.hf_layers import decoder_layer, dense, grouped, heads_of
from roofline.hf_quantization import precision_of
from roofline.specs import Layer, Linear, Model

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "eagle": "eagle",
        "eagle3": "eagle3",
        "p_eagle": "p_eagle",
        "peagle": "p_eagle",
        "dflash": "dflash",
        "dspark": "dspark",
        "domino": "domino",
        "mtp": "mtp",
        "deepseek_mtp": "mtp",
        "mimo_mtp": "mtp",
        "qwen3_next_mtp": "mtp",
        "qwen3_5_mtp": "mtp",
        "nextn": "mtp",
    }
)
"""Names of methods in engines' options, to the head they mean."""

EAGLE3_STATES = 3
"""Layers of the target whose hidden states EAGLE-3 fuses, where a config does not list them."""


def head_method(method: str | None, config: Config, *, name: str) -> str:
    """The method asked for, checked against what the config's architecture can only be."""
    if method is None:
        raise InvalidInput(
            f"{name}: `method` must be given for a draft head, one of {', '.join(METHODS)}; a config cannot tell it"
        )
    if method not in METHODS:
        raise InvalidInput(f"{name}: `method` must be one of {', '.join(METHODS)}, got {method!r}; name one of these")
    asked = METHODS[method]
    only = own_method(config)
    if only is not None and {only, asked} == {"eagle3", "p_eagle"}:
        return only
    if only not in (None, asked):
        raise InvalidInput(
            f"{name}: `method` must be {only!r} for this architecture, got {method!r}; correct the method or the file"
        )
    return asked


def own_method(config: Config) -> str | None:
    """Method of a config whose architecture only a head has, else None."""
    architectures = config.get("architectures")
    if isinstance(architectures, list):
        for architecture in cast("list[object]", architectures):
            if architecture in HEAD_ARCHITECTURES:
                return HEAD_ARCHITECTURES[str(architecture)]
    if config.get("draft_vocab_size") is not None:
        return "eagle3"
    return None


def head_from_config(
    config: Config,
    name: str,
    *,
    method: str | None,
    target: Model | None,
    quantization: str | None = None,
    kv_cache_dtype: str | None = None,
) -> Model:
    """Draft head of a config; `method="mtp"` takes the head out of the target and ignores the rest.

    As in serving engines, a head follows its target where nothing else is asked: 32-bit weights with a 32-bit
    target, and the width of the target's cache.
    """
    asked = head_method(method, config, name=name)
    if asked == "mtp":
        if target is None:
            raise InvalidInput(
                f"{name}: `method` 'mtp' needs `target`, whose own layers are the head; pass the target model"
            )
        return mtp_head(target)
    fields = _head_fields(config, name)
    builders = {"eagle": _eagle, "eagle3": _eagle3, "p_eagle": _eagle3}
    head = builders.get(asked, _block_drafter)(fields, asked, target)
    if quantization is None and target is not None and target.precision.embedding.name == "fp32":
        quantization = "fp32"
    precision = precision_of(
        fields,
        head.layers,
        tied=False,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        side_file=None,
    )
    if target is not None and kv_cache_dtype in (None, "auto"):
        precision = precision.model_copy(update={"kv_bits": target.precision.kv_bits})
    return head.model_copy(update={"precision": precision})


def mtp_head(target: Model) -> Model:
    """The multi-token-prediction layer of a target as a head; embedding and LM head are the target's."""
    count = sum(layer.count for layer in target.mtp_layers)
    if not count:
        raise InvalidInput(
            f"{target.name}: `method` 'mtp' needs a model shipped with MTP layers, which its config.json "
            "does not name; "
            "choose another method"
        )
    if count > 1:
        raise UnsupportedModel(f"{target.name}: {count} different MTP layers used in turn are not computed")
    return Model(
        name=f"{target.name} (MTP)",
        model_type=f"{target.model_type}_mtp",
        role="head",
        hidden_size=target.hidden_size,
        vocab_size=target.vocab_size,
        max_context_tokens=target.max_context_tokens,
        inputs=target.mtp_inputs,
        layers=target.mtp_layers,
        embedding_rows=0,
        lm_head=target.lm_head,
        owns_lm_head=False,
        other_parameters=target.mtp_other_parameters,
        precision=target.precision,
        notes=("embedding and LM head are the target's",),
        source=target.source,
    )


def _head_fields(config: Config, name: str) -> Fields:
    """Fields of a head; the layer shape of a speculators file lies in `transformer_layer_config`."""
    if "transformer_layer_config" in config:
        inner = object_of(config["transformer_layer_config"], f"{name}: `transformer_layer_config`")
        config = {
            **inner,
            **{key: value for key, value in config.items() if value is not None and key != "model_type"},
        }
    return Fields(config, name, {})


def _eagle(fields: Fields, method: str, target: Model | None) -> Model:
    """EAGLE-1 (arXiv 2401.15077): `fc` 2h -> h, Llama layers, no norm before the first; embedding and LM head
    shared.
    """
    hidden = fields.size("hidden_size")
    _same_hidden(fields, hidden, target)
    bias = fields.flag("bias", default=True)
    fuse = Linear(name="fc", inputs=2 * hidden, outputs=hidden, bias=bias, shard="replicated", quantised=False)
    mixer = heads_of(fields, FAMILIES["llama"])
    feed = dense(hidden, fields.size("intermediate_size"))
    count = fields.size("num_hidden_layers")
    first = decoder_layer(mixer, feed, norms=1)
    others = decoder_layer(mixer, feed)
    layers = grouped([first, *[others] * (count - 1)])
    return _model(fields, method, target, inputs=(fuse,), layers=layers, other_parameters=0)


def _eagle3(fields: Fields, method: str, target: Model | None) -> Model:
    """EAGLE-3 (arXiv 2503.01840): `fc` 3h -> h over the target's hidden states, first layer fed with
    embedding and state (2h).

    Its LM head is its own, over the reduced vocabulary where the config names one. P-EAGLE holds a learnt
    state for masked positions besides, and further plain layers.
    """
    hidden, vocab = fields.size("hidden_size"), fields.size("vocab_size")
    target_hidden = _target_hidden(fields, hidden, target)
    states = _fused_states(fields)
    fuse = Linear(name="fc", inputs=states * target_hidden, outputs=hidden, shard="replicated", quantised=False)
    family = FAMILIES["llama"]
    feed = dense(hidden, fields.size("intermediate_size"))
    mixers = [mixer_of(fields, family, inputs=2 * hidden if index == 0 else hidden) for index in (0, 1)]
    layers = grouped(
        decoder_layer(mixers[min(index, 1)], feed, window_tokens=window, norms=2 if index else 3)
        for index, window in enumerate(layer_windows(fields, family))
    )
    small = hidden + (states * target_hidden if fields.flag("fc_norm") else 0)
    small += states * target_hidden if method == "p_eagle" else 0
    rows = fields.size_or(vocab, "draft_vocab_size")
    return _model(
        fields,
        method,
        target,
        inputs=(fuse,),
        layers=layers,
        other_parameters=small,
    ).model_copy(
        update={
            "lm_head": Linear(name="lm_head", inputs=hidden, outputs=rows),
            "owns_lm_head": True,
            "embedding_rows": 0 if hidden == target_hidden else vocab,
        }
    )


def _block_drafter(fields: Fields, method: str, target: Model | None) -> Model:
    """DFlash and its kin: Qwen3 layers over a block of masked tokens, which read projected hidden states of
    the target.

    `fc` joins the listed target layers. DSpark adds a low-rank bigram bias (embedding and matrix, rank x
    vocabulary) and a confidence head; Domino a GRU and a low-rank correction of the logits. Both stand among
    `inputs`: one more matrix read per pass. Embedding and LM head are the target's.
    """
    hidden = fields.size("hidden_size")
    _same_hidden(fields, hidden, target)
    options = Fields(fields.section("dflash_config"), fields.name, {})
    mode = str(options.value("attention_mode") or "gqa")
    if mode not in ("gqa", "mha") or options.value("attention_modes"):
        raise UnsupportedModel(f"{fields.name}: `attention_mode` {mode!r} of a block drafter is not computed")
    sources = options.numbers("target_layer_ids") or fields.numbers("target_layer_ids")
    if not sources:
        raise InvalidInput(
            f"{fields.name}: `dflash_config.target_layer_ids` is missing; take config.json as published, complete"
        )
    family = FAMILIES["qwen3"]
    mixer = heads_of(fields, family)
    feed = dense(hidden, fields.size("intermediate_size"))
    layers = grouped(decoder_layer(mixer, feed, window_tokens=window) for window in layer_windows(fields, family))
    fuse = Linear(name="fc", inputs=len(sources) * hidden, outputs=hidden, shard="replicated", quantised=False)
    vocab = _vocab(fields, target)
    extra, small = _draft_logits(options, method, hidden=hidden, vocab=vocab, name=fields.name)
    head = _model(fields, method, target, inputs=(fuse, *extra), layers=layers, other_parameters=2 * hidden + small)
    note = "flops that project accepted tokens' keys and values from the target's states are not counted"
    return head.model_copy(update={"block_size": fields.size("block_size"), "notes": (*head.notes, note)})


def _draft_logits(
    options: Fields, method: str, *, hidden: int, vocab: int, name: str
) -> tuple[tuple[Linear, ...], int]:
    """Matrices and small weights of what corrects a block drafter's logits."""
    if method == "dspark":
        rank = options.count("markov_rank")
        kind = str(options.value("markov_head_type") or "vanilla")
        if kind != "vanilla":
            raise UnsupportedModel(f"{name}: `markov_head_type` {kind!r} is not computed")
        confident = options.flag("enable_confidence_head")
        confidence = hidden + (rank if options.flag("confidence_head_with_markov", default=True) else 0) + 1
        matrix = (_plain("markov", rank, vocab),) if rank else ()
        return matrix, rank * vocab + (confidence if confident else 0)
    if method == "domino":
        width, rank = options.size("gru_hidden_dim"), options.size("emb_dim")
        return (
            _plain("gru_in", hidden, 3 * width),
            _plain("gru_state", width, 3 * width),
            _plain("correction_in", hidden + width, rank),
            _plain("correction_out", rank, vocab),
        ), 0
    return (), 0


def _plain(name: str, inputs: int, outputs: int) -> Linear:
    return Linear(name=name, inputs=inputs, outputs=outputs, kind="ffn", shard="replicated", quantised=False)


def _model(
    fields: Fields,
    method: str,
    target: Model | None,
    *,
    inputs: tuple[Linear, ...],
    layers: tuple[Layer, ...],
    other_parameters: int,
) -> Model:
    """A head that shares the target's embedding and LM head; its precision is filled in afterwards."""
    hidden, vocab = fields.size("hidden_size"), _vocab(fields, target)
    return Model(
        name=fields.name,
        model_type=method,
        role="head",
        hidden_size=hidden,
        vocab_size=vocab,
        max_context_tokens=fields.size_or_none("max_position_embeddings"),
        inputs=inputs,
        layers=layers,
        embedding_rows=0,
        lm_head=Linear(name="lm_head", inputs=hidden, outputs=vocab),
        owns_lm_head=False,
        other_parameters=other_parameters,
        precision=precision_of(fields, layers, tied=False, quantization="bf16", kv_cache_dtype=None, side_file=None),
        notes=("embedding shared with the target",),
    )


def _vocab(fields: Fields, target: Model | None) -> int:
    return target.vocab_size if target is not None else fields.size("vocab_size")


def _same_hidden(fields: Fields, hidden: int, target: Model | None) -> None:
    if target is not None and target.hidden_size != hidden:
        raise InvalidInput(
            f"{fields.name}: `hidden_size` must equal the target's {target.hidden_size} ({target.name}), "
            f"got {hidden}; "
            "pair the head with the model it was trained for"
        )


def _target_hidden(fields: Fields, hidden: int, target: Model | None) -> int:
    """Width of the fused hidden states: the config's `target_hidden_size`, else the target's, else the head's
    own.
    """
    named = fields.size_or_none("target_hidden_size")
    if target is None:
        return named or hidden
    if (named or hidden) != target.hidden_size:
        raise InvalidInput(
            f"{fields.name}: `{'target_hidden_size' if named else 'hidden_size'}` must equal the target's "
            "hidden size "
            f"{target.hidden_size} ({target.name}), got {named or hidden}; pair the head with the model it "
            "was trained for"
        )
    return target.hidden_size


def _fused_states(fields: Fields) -> int:
    """How many hidden states of the target an EAGLE-3 head fuses."""
    key = "eagle_aux_hidden_state_layer_ids"
    listed = Fields(fields.section("eagle_config"), fields.name, {}).numbers(key) or fields.numbers(key)
    return len(listed) or EAGLE3_STATES
