"""Dense decoders as Hugging Face folders: config.json, tokenizer.json and safetensors.

Tensors are read with `safetensors` and checked one by one; a loader that fills what is missing with random numbers
would give an acceptance of nothing.
"""

import json
from pathlib import Path
from typing import Any

from calibrate.lab.shapes import LayerKind, LmShape
from calibrate.shapes import DecoderShape
from roofline.errors import InvalidInput

LAYER_NAMES = {
    "input_layernorm.weight": "attention_norm",
    "self_attn.q_proj.weight": "q",
    "self_attn.k_proj.weight": "k",
    "self_attn.v_proj.weight": "v",
    "self_attn.q_proj.bias": "q_bias",
    "self_attn.k_proj.bias": "k_bias",
    "self_attn.v_proj.bias": "v_bias",
    "self_attn.q_norm.weight": "q_norm",
    "self_attn.k_norm.weight": "k_norm",
    "self_attn.o_proj.weight": "o",
    "mlp.gate_proj.weight": "gate",
    "mlp.up_proj.weight": "up",
    "mlp.down_proj.weight": "down",
}
NORMS_BEFORE_FFN = {"gemma3_text": "pre_feedforward_layernorm.weight"}
DEFAULT_NORM_BEFORE_FFN = "post_attention_layernorm.weight"
GEMMA_NORMS_AFTER = {
    "post_attention_layernorm.weight": "post_attention_norm",
    "post_feedforward_layernorm.weight": "post_ffn_norm",
}
MODEL_TYPES = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")


def shape_of(config: dict[str, Any], path: Path) -> LmShape:
    """The shape a config.json describes.

    Raises
    ------
    InvalidInput
        Another model type, a rotary embedding that is stretched, or a field is missing.
    """
    kind = config.get("model_type")
    if kind not in MODEL_TYPES:
        raise InvalidInput(f"{path}: model_type {kind!r} cannot be run; these can: {', '.join(MODEL_TYPES)}")
    if _stretched(config):
        raise InvalidInput(
            f"{path}: a stretched rotary embedding (rope_scaling) cannot be run; give a model without one"
        )
    layers, hidden, heads = (
        _field(config, name, path) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")
    )
    sizes = DecoderShape(
        name=path.parent.name,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        ffn=_field(config, "intermediate_size", path),
        vocab=_field(config, "vocab_size", path),
    )
    gemma = kind == "gemma3_text"
    return LmShape(
        sizes=sizes,
        kinds=_layer_kinds(config, layers),
        norm_eps=config.get("rms_norm_eps", 1e-6),
        activation="gelu_tanh" if gemma else "silu",
        normalises_heads=kind in ("gemma3_text", "qwen3"),
        normalises_outputs=gemma,
        has_qkv_bias=kind == "qwen2",
        ties_embedding=bool(config.get("tie_word_embeddings", gemma)),
        embedding_scale=hidden**0.5 if gemma else 1.0,
    )


def _field(config: dict[str, Any], name: str, path: Path) -> int:
    if not isinstance(config.get(name), int):
        raise InvalidInput(
            f"{path}: {name} is {config.get(name)!r}; a whole number is needed, give the config as published"
        )
    return config[name]


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """`rope_parameters` of newer configs, which may be one per kind of layer."""
    return config.get("rope_parameters") or {}


def _stretched(config: dict[str, Any]) -> bool:
    parts = [
        config.get("rope_scaling") or {},
        _rope(config),
        *(v for v in _rope(config).values() if isinstance(v, dict)),
    ]
    return any(part.get("rope_type", part.get("type", "default")) != "default" for part in parts)


def _layer_kinds(config: dict[str, Any], layers: int) -> tuple[LayerKind, ...]:
    rope = _rope(config)
    whole = rope.get("full_attention", rope).get("rope_theta", config.get("rope_theta", 10_000.0))
    if config["model_type"] != "gemma3_text":
        window = config.get("sliding_window") if config["model_type"] == "mistral" else None
        return (LayerKind(rope_base=float(whole), window_tokens=window),) * layers
    local = rope.get("sliding_attention", {}).get("rope_theta", config.get("rope_local_base_freq", 10_000.0))
    pattern = config.get("sliding_window_pattern", config.get("_sliding_window_pattern", 6))
    kinds = config.get("layer_types") or [
        "full_attention" if (index + 1) % pattern == 0 else "sliding_attention" for index in range(layers)
    ]
    return tuple(
        LayerKind(float(whole)) if kind == "full_attention" else LayerKind(float(local), config.get("sliding_window"))
        for kind in kinds
    )


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a folder; of a model with vision, its text part."""
    path = folder / "config.json"
    if not path.is_file():
        raise InvalidInput(f"{folder} has no config.json; give the folder of a Hugging Face model")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON ({error}); give the file as published") from error
    return config.get("text_config") or config


def read_folder(folder: Path) -> tuple[LmShape, dict[str, Any]]:
    """Shape and tensors (torch) of a folder.

    Raises
    ------
    InvalidInput
        The config cannot be run, or the safetensors are missing, cut short or of another shape.
    """
    config = read_config(folder)
    shape = shape_of(config, folder / "config.json")
    renamed = {_our_name(name, config["model_type"]): tensor for name, tensor in _tensors(folder).items()}
    if config["model_type"] == "gemma3_text":
        # Gemma stores its norms without the 1 they are taken with.
        renamed = {name: tensor + 1.0 if name.endswith("norm") else tensor for name, tensor in renamed.items()}
    wanted = set(shape.tensor_shapes())
    return shape, {name: tensor for name, tensor in renamed.items() if name in wanted}


def _tensors(folder: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InvalidInput(
            f"{folder} has no *.safetensors; other weight formats are not read, convert it with its publisher's tool"
        )
    tensors: dict[str, Any] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise InvalidInput(f"{file} cannot be read ({error}); download it again") from error
    return tensors


def _our_name(name: str, model_type: str) -> str:
    name = name.removeprefix("language_model.").removeprefix("model.").removeprefix("language_model.")
    known = {"embed_tokens.weight": "embedding", "norm.weight": "final_norm", "lm_head.weight": "lm_head"}
    if name in known:
        return known[name]
    if not name.startswith("layers."):
        return name
    _, index, rest = name.split(".", 2)
    if rest == NORMS_BEFORE_FFN.get(model_type, DEFAULT_NORM_BEFORE_FFN):
        return f"layers.{index}.ffn_norm"
    if model_type in NORMS_BEFORE_FFN and rest in GEMMA_NORMS_AFTER:
        return f"layers.{index}.{GEMMA_NORMS_AFTER[rest]}"
    return f"layers.{index}.{LAYER_NAMES.get(rest, rest)}"
