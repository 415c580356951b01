"""From a Hugging Face `config.json` to a `Model`: what it holds, what a token passes, what it caches.

Every config is computed or refused by `UnsupportedModel` naming the feature; nothing is guessed. Class
defaults are in `roofline.hf_defaults`, layers in `roofline.hf_families` and `roofline.hf_hybrid`, draft heads
in `roofline.hf_heads`, number formats in `roofline.hf_quantization`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_catalogue import catalogue_file, catalogue_source
from roofline.hf_defaults import FAMILIES, GUARDED, REFUSED, TEXT_TYPES, WRAPPERS, Family
from roofline.hf_families import decoder_layers, gemma4_layers, latent_layers, llama4_layers, mtp_parts
from roofline.hf_fields import Config, Fields, object_of
from roofline.hf_heads import METHODS, head_from_config, mtp_head, own_method
from roofline.hf_hybrid import delta_layers, delta_mtp, nemotron_layers
from roofline.hf_inkling import inkling_layers, inkling_mtp
from roofline.hf_quantization import precision_of
from roofline.specs import Layer, Linear, Model, Precision, Role, Source

__all__ = ["load_model", "model_from_config", "mtp_head", "read_config"]

SIDE_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
_BUILDERS = {
    "decoder": decoder_layers,
    "mla": latent_layers,
    "llama4": llama4_layers,
    "gemma4": gemma4_layers,
    "delta": delta_layers,
    "nemotron": nemotron_layers,
    "inkling": inkling_layers,
}
_OUTER_KEYS = ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype", "architectures")


def load_model(
    path_or_catalogue_name: str,
    *,
    role: Role = "target",
    quantization: str | None = None,
    kv_cache_dtype: str | None = None,
    target: Model | None = None,
    method: str | None = None,
) -> Model:
    """The model of a `config.json` (or of a folder that holds one), or of a catalogue name such as
    `Qwen/Qwen3-8B`.

    A quantisation side file next to the config (`hf_quant_config.json`, `quantize_config.json`,
    `quant_config.json`) is read too. Other arguments as for `model_from_config`.

    Raises
    ------
    UnknownName
        Neither a file nor a catalogue name; the nearest names are listed.
    """
    path = Path(path_or_catalogue_name)
    source: Source | None = None
    if path.is_dir():
        path, name = path / "config.json", path.name
    elif path.is_file():
        name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    else:
        path, name = catalogue_file(path_or_catalogue_name)
        source = catalogue_source(path.stem)
    model = model_from_config(
        read_config(path),
        name=name,
        role=role,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        target=target,
        method=method,
        quant_side_file=_side_file(path),
    )
    return model.model_copy(update={"source": source}) if source is not None else model


def read_config(path: Path) -> Config:
    """The JSON object of a file; raises `InvalidInput` for what is no such thing."""
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{path.name}: not valid JSON at line {error.lineno}, column {error.colno} ({error.msg}); "
            "download the file again, whole"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: cannot be read as text ({error}); give the path of a config.json") from error
    return object_of(found, path.name)


def _side_file(path: Path) -> Config | None:
    stem = "" if path.name == "config.json" else f"{path.stem}."
    for side in SIDE_FILES:
        candidate = path.with_name(stem + side)
        if candidate.is_file():
            return read_config(candidate)
    return None


def model_from_config(
    config: Mapping[str, object],
    *,
    name: str,
    role: Role = "target",
    quantization: str | None = None,
    kv_cache_dtype: str | None = None,
    target: Model | None = None,
    method: str | None = None,
    quant_side_file: Config | None = None,
) -> Model:
    """A `Model` from a config as it stands in `config.json`.

    `role` is what the model is served as. A config cannot tell: "head" needs `method`, and takes its shared
    tables from `target`. `quantization` and `kv_cache_dtype` are as the options of serving engines; None and
    "auto" follow the checkpoint. `quant_side_file` is the content of a quantisation file beside the config;
    it comes before the config's own section.

    Raises
    ------
    UnsupportedModel
        The config has a feature whose cost is not computed; the message names it.
    InvalidInput
        A field is missing, of the wrong type, or out of range.
    """
    if role == "head":
        if target is None and METHODS.get(method or "") == "mtp":
            target = model_from_config(config, name=name, quantization=quantization, kv_cache_dtype=kv_cache_dtype)
        return head_from_config(
            config,
            name,
            method=method,
            target=target,
            quantization=quantization,
            kv_cache_dtype=kv_cache_dtype,
        )
    _refuse_heads(config, name, role)
    fields, family, notes = _text_fields(config, name)
    layers = _BUILDERS[family.blocks](fields, family)
    tied = fields.flag("tie_word_embeddings", default=family.tied)
    precision = precision_of(
        fields,
        layers,
        tied=tied,
        quantization=quantization,
        kv_cache_dtype=kv_cache_dtype,
        side_file=quant_side_file,
    )
    return _decoder(fields, family, layers=layers, tied=tied, precision=precision).model_copy(
        update={"role": role, "notes": notes}
    )


def _decoder(fields: Fields, family: Family, *, layers: tuple[Layer, ...], tied: bool, precision: Precision) -> Model:
    """Layers, tables and MTP layers put together."""
    hidden, vocab = fields.size("hidden_size"), fields.size("vocab_size")
    mtp_layers, mtp_inputs, mtp_other = _mtp(fields, family)
    return Model(
        name=fields.name,
        model_type=str(fields.value("model_type")),
        hidden_size=hidden,
        vocab_size=vocab,
        max_context_tokens=fields.size_or_none("max_position_embeddings"),
        layers=layers,
        embedding_rows=vocab,
        lm_head=Linear(name="lm_head", inputs=hidden, outputs=vocab, bias=fields.flag("lm_head_bias")),
        owns_lm_head=not tied,
        other_parameters=hidden,
        mtp_layers=mtp_layers,
        mtp_inputs=mtp_inputs,
        mtp_other_parameters=mtp_other,
        precision=precision,
    )


def _refuse_heads(config: Config, name: str, role: Role) -> None:
    method = own_method(config)
    if method is not None or "transformer_layer_config" in config:
        raise InvalidInput(
            f"{name}: a {method or 'speculators'} draft head cannot be loaded as {role!r}; "
            f"pass it as the draft with its method, one of {', '.join(METHODS)}"
        )


def _text_fields(config: Config, name: str) -> tuple[Fields, Family, tuple[str, ...]]:
    """Fields of the language model, its family, and notes on what is left out."""
    model_type = config.get("model_type")
    notes: list[str] = []
    if "text_config" in config:
        if model_type not in WRAPPERS:
            raise UnsupportedModel(f"{name}: multimodal `model_type` {model_type!r} is not computed")
        outer = {key: config[key] for key in _OUTER_KEYS if key in config}
        inner = object_of(config["text_config"], f"{name}: `text_config`")
        wrapped = model_type
        config = {**outer, **inner}
        model_type = config.get("model_type") or TEXT_TYPES.get(str(wrapped))
        config = {**config, "model_type": model_type}
        notes.append("vision and audio towers are not counted")
    if model_type is None:
        raise InvalidInput(
            f"{name}: `model_type` is missing; take config.json as published by the model's authors, complete"
        )
    if model_type in REFUSED:
        raise UnsupportedModel(f"{name}: {REFUSED[str(model_type)]} (`model_type` {model_type!r}) is not computed")
    family = FAMILIES.get(str(model_type))
    if family is None:
        raise UnsupportedModel(
            f"{name}: `model_type` {model_type!r} is not computed; known are "
            f"{', '.join(sorted({*FAMILIES, *WRAPPERS}))}"
        )
    fields = Fields(config, name, family.defaults)
    _refuse_features(fields, family)
    return fields, family, (*notes, *_notes(fields, family))


def _refuse_features(fields: Fields, family: Family) -> None:
    for key, feature in GUARDED.items():
        if key not in family.handles and fields.config.get(key):
            raise UnsupportedModel(
                f"{fields.name}: {feature} (`{key}`) is not computed for `model_type` {fields.value('model_type')!r}"
            )


def _notes(fields: Fields, family: Family) -> tuple[str, ...]:
    notes: list[str] = []
    if family.windows == "chunks" and fields.value("attention_chunk_size"):
        notes.append(
            "chunked attention is counted as a window of one chunk: exact up to one chunk of context, an "
            "upper bound beyond"
        )
    if fields.flag("use_mtp"):
        notes.append("MTP modules the config announces (`use_mtp`) are not counted: their shape is not in it")
    if fields.value("torch_dtype", "dtype") == "float32":
        notes.append("a float32 checkpoint is counted as served in 16 bits; ask for quantization 'fp32' to keep it")
    if fields.flag("attention_k_eq_v"):
        notes.append("keys reused as values are stored once and cached twice, once as key and once as value")
    return tuple(notes)


def _mtp(fields: Fields, family: Family) -> tuple[tuple[Layer, ...], tuple[Linear, ...], int]:
    if family.blocks == "inkling":
        return inkling_mtp(fields)
    return delta_mtp(fields, family) if family.blocks == "delta" else mtp_parts(fields, family)
