"""Layers of hybrids: most layers keep a fixed state per sequence, a few attend and grow a cache.

Gated delta rule (Qwen3-Next, Qwen3.5): per value head a state of key size x value size; a token decays it,
reads it with the key, adds an outer product and reads it with the query: 7 flops per entry. Mamba-2
(Nemotron-H): a state of head size x state size per head; a token decays it, adds an outer product and reads
it: 5 flops per entry. A causal convolution over the last few tokens comes before either; its window of inputs
is part of the state.
"""

from dataclasses import replace

from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_defaults import Family
from roofline.hf_families import has_experts, layer_windows, mtp_projection
from roofline.hf_fields import Fields
from roofline.hf_layers import FeedForward, Heads, decoder_layer, dense, grouped, heads_of, routed, routing_of
from roofline.specs import Layer, Linear, Recurrence

STATE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16}
CONVOLUTION_BITS = 16
DELTA_FLOPS_PER_ENTRY = 7
MAMBA_FLOPS_PER_ENTRY = 5


def delta_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Qwen3-Next and Qwen3.5: gated delta rule, and gated attention in every n-th layer."""
    feed = _delta_feed(fields)
    return grouped(
        _gated_attention_layer(fields, family, feed) if kind == "full_attention" else _delta_layer(fields, feed)
        for kind in _delta_kinds(fields)
    )


def delta_mtp(fields: Fields, family: Family) -> tuple[tuple[Layer, ...], tuple[Linear, ...], int]:
    """MTP layers of Qwen3-Next and Qwen3.5: full attention and the model's own kind of feed-forward part."""
    count = fields.count("mtp_num_hidden_layers", "num_nextn_predict_layers")
    if not count:
        return (), (), 0
    if fields.flag("mtp_use_dedicated_embeddings"):
        raise UnsupportedModel(f"{fields.name}: MTP layers with embeddings of their own are not computed")
    hidden = fields.size("hidden_size")
    layer = _gated_attention_layer(fields, family, _delta_feed(fields))
    return (layer.model_copy(update={"count": count}),), (mtp_projection(hidden),), 3 * hidden


def _delta_kinds(fields: Fields) -> tuple[str, ...]:
    layers = fields.size("num_hidden_layers")
    kinds = fields.texts("layer_types")
    if not kinds:
        interval = fields.size("full_attention_interval")
        return tuple("linear_attention" if (index + 1) % interval else "full_attention" for index in range(layers))
    if len(kinds) != layers:
        raise InvalidInput(
            f"{fields.name}: `layer_types` must have num_hidden_layers {layers} entries, got {len(kinds)}; "
            "correct config.json"
        )
    unknown = sorted(set(kinds) - {"linear_attention", "full_attention"})
    if unknown:
        raise UnsupportedModel(f"{fields.name}: layers of type {unknown[0]!r} (`layer_types`) are not computed")
    return kinds


def _delta_feed(fields: Fields) -> FeedForward:
    hidden = fields.size("hidden_size")
    if not has_experts(fields):
        return dense(hidden, fields.size("intermediate_size"))
    if fields.size_or(1, "decoder_sparse_step") != 1 or fields.numbers("mlp_only_layers"):
        raise UnsupportedModel(
            f"{fields.name}: dense layers between expert layers of a linear-attention model are not computed"
        )
    shared = dense(hidden, fields.size("shared_expert_intermediate_size"), name="shared_")
    gate = Linear(name="shared_gate", inputs=hidden, outputs=1, kind="ffn", shard="replicated", quantised=False)
    shared = replace(shared, linears=(*shared.linears, gate), elementwise=shared.elementwise + 2 * hidden)
    return routed(hidden, fields.size("moe_intermediate_size"), routing=routing_of(fields), shared=shared)


def _gated_attention_layer(fields: Fields, family: Family, feed: FeedForward) -> Layer:
    gated = fields.flag("attn_output_gate", default=True)
    return decoder_layer(replace(heads_of(fields, family), gated=gated), feed)


def _delta_layer(fields: Fields, feed: FeedForward) -> Layer:
    hidden = fields.size("hidden_size")
    key_heads, value_heads = fields.size("linear_num_key_heads"), fields.size("linear_num_value_heads")
    key_dim, value_dim = fields.size("linear_key_head_dim"), fields.size("linear_value_head_dim")
    if value_heads % key_heads:
        raise InvalidInput(
            f"{fields.name}: `linear_num_key_heads` must divide linear_num_value_heads {value_heads}, got "
            f"{key_heads}; "
            "correct config.json"
        )
    keys, values = key_heads * key_dim, value_heads * value_dim
    channels, kernel = 2 * keys + values, fields.size("linear_conv_kernel_dim")
    entries = value_heads * key_dim * value_dim
    return Layer(
        count=1,
        linears=(
            Linear(name="delta_in", inputs=hidden, outputs=channels + values),
            Linear(name="delta_rates", inputs=hidden, outputs=2 * value_heads, quantised=False),
            Linear(name="delta_out", inputs=values, outputs=hidden, shard="row"),
            *feed.linears,
        ),
        recurrence=_recurrence(
            entries,
            channels * (kernel - 1),
            bits=_state_bits(fields, "mamba_ssm_dtype"),
            flops=DELTA_FLOPS_PER_ENTRY * entries + 2 * kernel * channels,
        ),
        experts=feed.experts,
        other_parameters=2 * hidden + channels * kernel + 2 * value_heads + value_dim + feed.other_parameters,
        elementwise_elements=8 * hidden + 2 * channels + 3 * values + feed.elementwise,
    )


def nemotron_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Nemotron-H: one mixer a layer, as `hybrid_override_pattern` spells it: M Mamba-2, * attention, E
    experts, - dense.
    """
    pattern = fields.value("hybrid_override_pattern")
    layers = fields.size("num_hidden_layers")
    if not isinstance(pattern, str) or len(pattern) != layers:
        raise InvalidInput(
            f"{fields.name}: `hybrid_override_pattern` must spell one letter for each of {layers} layers, "
            f"got {pattern!r}; "
            "correct config.json"
        )
    unknown = sorted(set(pattern) - set("M*E-"))
    if unknown:
        raise UnsupportedModel(
            f"{fields.name}: layers spelt {unknown[0]!r} in `hybrid_override_pattern` are not computed"
        )
    window = layer_windows(fields, family)[0]
    return grouped(_nemotron_layer(fields, family, kind, window) for kind in pattern)


def _nemotron_layer(fields: Fields, family: Family, kind: str, window: int | None) -> Layer:
    hidden = fields.size("hidden_size")
    if kind == "M":
        return _mamba_layer(fields, hidden)
    if kind == "*":
        mixer: Heads = heads_of(fields, family)
        return Layer(
            count=1,
            linears=mixer.linears(),
            attention=mixer.attention(window),
            other_parameters=hidden,
            elementwise_elements=4 * hidden + mixer.elementwise,
        )
    feed = (
        _nemotron_experts(fields, hidden) if kind == "E" else _ungated(fields, hidden, fields.size("intermediate_size"))
    )
    return Layer(
        count=1,
        linears=feed.linears,
        experts=feed.experts,
        other_parameters=hidden + feed.other_parameters,
        elementwise_elements=4 * hidden + feed.elementwise,
    )


def _ungated(fields: Fields, hidden: int, intermediate: int, name: str = "") -> FeedForward:
    return dense(hidden, intermediate, bias=fields.flag("mlp_bias"), gated=False, name=name)


def _nemotron_experts(fields: Fields, hidden: int) -> FeedForward:
    if fields.count("moe_latent_size"):
        raise UnsupportedModel(f"{fields.name}: experts in a latent space (`moe_latent_size`) are not computed")
    shared_width = fields.count("n_shared_experts") * fields.count("moe_shared_expert_intermediate_size")
    shared = _ungated(fields, hidden, shared_width, "shared_") if shared_width else None
    routing = routing_of(fields, correction=True, gated=False)
    return routed(hidden, fields.size("moe_intermediate_size"), routing=routing, shared=shared)


def _mamba_layer(fields: Fields, hidden: int) -> Layer:
    heads, head_dim = fields.size("mamba_num_heads"), fields.size("mamba_head_dim")
    inner, state = heads * head_dim, fields.size("ssm_state_size")
    channels, kernel = inner + 2 * fields.size("n_groups") * state, fields.size("conv_kernel")
    bias = fields.flag("use_bias") or fields.flag("mamba_proj_bias")
    convolution = channels * (kernel + (1 if fields.flag("use_conv_bias", default=True) else 0))
    return Layer(
        count=1,
        linears=(
            Linear(name="mamba_in", inputs=hidden, outputs=inner + channels + heads, bias=bias),
            Linear(name="mamba_out", inputs=inner, outputs=hidden, bias=bias, shard="row"),
        ),
        recurrence=_recurrence(
            inner * state,
            channels * (kernel - 1),
            bits=_state_bits(fields, "mamba_ssm_cache_dtype"),
            flops=MAMBA_FLOPS_PER_ENTRY * inner * state + 2 * kernel * channels,
        ),
        other_parameters=hidden + convolution + 3 * heads + inner,
        elementwise_elements=4 * hidden + 2 * channels + 3 * inner,
    )


def _recurrence(entries: int, window: int, *, bits: int, flops: int) -> Recurrence:
    """State of one layer and sequence; `state_bits` is the mean over recurrent entries and convolution
    inputs.
    """
    mean_bits = (entries * bits + window * CONVOLUTION_BITS) / (entries + window)
    return Recurrence(state_elements=entries + window, state_bits=mean_bits, flops_per_token=flops)


def _state_bits(fields: Fields, key: str) -> int:
    """Width of the recurrent state; where the file is silent, engines keep it in the model's 16 bits."""
    found = fields.value(key)
    if found is None:
        return 16
    if found not in STATE_BITS:
        raise InvalidInput(
            f"{fields.name}: `{key}` must be one of {', '.join(STATE_BITS)}, got {found!r}; correct config.json"
        )
    return STATE_BITS[str(found)]
