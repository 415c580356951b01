"""What a config.json says that rules turn on, read without the arithmetic: models it refuses are checked too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from roofline.errors import UnknownName, UnsupportedModel
from roofline.hf_catalogue import catalogue_file
from roofline.hf_config import read_config

_MTP_KEYS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "n_predict", "num_mtp_layers")
_ROTATED = ("quarot", "spinquant", "hadamard", "rotation", "rotated", "flatquant", "ostquant")
_MTP_IN_CHECKPOINT = ("qwen3_next",)
"""Model types whose config names no MTP layer although every checkpoint has one."""


_FAMILIES = {"mixtral": "mistral", "codellama": "llama"}
"""Model types that share another's tokenizer under a name of their own."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of one config. `source` is what to load for the arithmetic; None where the config does not say."""

    name: str
    source: str
    model_type: str
    vocab_size: int | None
    draft_vocab_size: int | None
    hidden_size: int | None
    heads: int | None
    target_hidden_size: int | None
    max_context_tokens: int | None
    mtp_layers: int
    block_size: int | None
    window_tokens: int | None
    latent_attention: bool
    rotated: str | None
    quantization: str | None
    special_ids: tuple[object, object]

    @property
    def family(self) -> str:
        """The letters a model type begins with: qwen for qwen2 and qwen3_moe."""
        found = re.match(r"[a-z]+", self.model_type)
        letters = found[0] if found else ""
        return _FAMILIES.get(letters, letters)


def model_facts(name: str | None) -> ModelFacts | None:
    """Facts of a config file, a folder with one, or a catalogue name; None for a name that is neither."""
    if not name:
        return None
    path = Path(name).expanduser()
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    shown = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
    if not (path.is_file() and path.suffix == ".json"):
        if name.endswith(".json"):
            path, shown = catalogue_file(name)
        else:
            try:
                path, shown = catalogue_file(name)
            except (UnknownName, UnsupportedModel):
                return None
    return facts_of(dict(read_config(path)), name=shown, source=str(path))


def facts_of(config: Mapping[str, Any], *, name: str, source: str) -> ModelFacts:
    """Facts of a config as it stands; a nested text model counts."""
    inner = config.get("text_config")
    layered = config.get("transformer_layer_config")
    text: dict[str, Any] = {
        **config,
        **(cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}),
        **(cast("dict[str, Any]", layered) if isinstance(layered, dict) else {}),
    }
    model_type = str(text.get("model_type") or config.get("model_type") or "")
    quantization = config.get("quantization_config") or text.get("quantization_config")
    method = cast("dict[str, Any]", quantization).get("quant_method") if isinstance(quantization, dict) else None
    mtp = next((value for key in _MTP_KEYS if (value := _whole(text.get(key)))), 0)
    window = _whole(text.get("sliding_window")) if text.get("use_sliding_window") is not False else None
    return ModelFacts(
        name=name,
        source=source,
        model_type=model_type,
        vocab_size=_whole(text.get("vocab_size")),
        draft_vocab_size=_whole(config.get("draft_vocab_size")),
        hidden_size=_whole(text.get("hidden_size")),
        heads=_whole(text.get("num_attention_heads")),
        target_hidden_size=_whole(config.get("target_hidden_size")),
        max_context_tokens=_whole(text.get("max_position_embeddings")),
        mtp_layers=mtp or (1 if model_type in _MTP_IN_CHECKPOINT else 0),
        block_size=_whole(config.get("block_size")),
        window_tokens=window,
        latent_attention=_whole(text.get("kv_lora_rank")) is not None,
        rotated=_rotation(name, cast("object", quantization)),
        quantization=None if method is None else str(method),
        special_ids=(text.get("bos_token_id"), text.get("eos_token_id")),
    )


def rotation_in(text: str) -> str | None:
    """The rotation method that a name or a quantisation section speaks of."""
    lowered = text.lower()
    named = next((word for word in _ROTATED if word in lowered), None)
    return named or ("rot" if re.search(r"(?<![a-z])rot(?![a-z])", lowered) else None)


def _rotation(name: str, quantization: object) -> str | None:
    section = cast("dict[str, Any]", quantization) if isinstance(quantization, dict) else {}
    if section.get("transform_config"):
        return "transform_config"
    return rotation_in(name) or rotation_in(str(section))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
