"""Gemma 3 checkpoints as GGUF files, read with `gguf` and dequantised.

Names and fields after llama.cpp's converter: norms already hold the `1 +` of Gemma's definition, and every sixth layer
attends to everything with the long rotary base while the others see a window with base 10,000 (Gemma 3 report, arXiv
2503.19786, section 2; `sliding_window_pattern` 6 and `rope_local_base_freq` of the published config.json).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrate.lab.shapes import LayerKind, LmShape
from calibrate.shapes import DecoderShape
from roofline.errors import InvalidInput

WHOLE_EVERY_LAYERS = 6
LOCAL_ROPE_BASE = 10_000.0
TENSOR_NAMES = {
    "attn_norm": "attention_norm",
    "attn_q": "q",
    "attn_k": "k",
    "attn_v": "v",
    "attn_q_norm": "q_norm",
    "attn_k_norm": "k_norm",
    "attn_output": "o",
    "post_attention_norm": "post_attention_norm",
    "ffn_norm": "ffn_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
    "post_ffw_norm": "post_ffn_norm",
}
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
"""Values of `tokenizer.ggml.token_type` (llama.cpp, `llama.h`): only normal pieces take part in merges."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """A SentencePiece vocabulary as GGUF stores it: pieces, their scores and types, ids of special ones."""

    pieces: list[str]
    scores: list[float]
    types: list[int]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None


@dataclass(frozen=True, slots=True)
class GgufCheckpoint:
    """Shape, tensors (numpy, fp32) and vocabulary of one file."""

    shape: LmShape
    tensors: dict[str, Any]
    pieces: Pieces


def read_gguf(path: Path) -> GgufCheckpoint:
    """Read and dequantise a Gemma 3 file; half a minute for a vocabulary of 262,144, all in `gguf`.

    Raises
    ------
    InvalidInput
        The file is no GGUF file, is cut short, or holds another architecture or quantisation than can be read.
    """
    # An extra: not installed where the types are checked.
    from gguf import GGUFReader  # pyright: ignore[reportMissingImports]
    from gguf.quants import dequantize  # pyright: ignore[reportMissingImports]

    try:
        reader = GGUFReader(str(path))
    except (ValueError, IndexError, OSError) as error:
        raise InvalidInput(f"{path} cannot be read as GGUF ({error}); give a whole, unchanged file") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    architecture = fields.get("general.architecture")
    if architecture != "gemma3":
        raise InvalidInput(
            f"{path}: general.architecture is {architecture!r}; GGUF files of gemma3 can be read, "
            "other models as a Hugging Face folder with config.json and safetensors"
        )
    tensors: dict[str, Any] = {}
    for tensor in reader.tensors:
        try:
            tensors[_our_name(tensor.name)] = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise InvalidInput(
                f"{path}: tensor {tensor.name} cannot be dequantised ({error}); give another quantisation"
            ) from error
    return GgufCheckpoint(shape=_shape_of(fields, path), tensors=tensors, pieces=_pieces_of(fields, path))


def _our_name(name: str) -> str:
    known = {"token_embd.weight": "embedding", "output_norm.weight": "final_norm", "output.weight": "lm_head"}
    if name in known:
        return known[name]
    if name.startswith("blk."):
        _, index, rest = name.split(".", 2)
        return f"layers.{index}.{TENSOR_NAMES.get(rest.removesuffix('.weight'), rest)}"
    return name


def _shape_of(fields: dict[str, Any], path: Path) -> LmShape:
    def field(name: str) -> Any:
        if f"gemma3.{name}" not in fields:
            raise InvalidInput(f"{path}: field gemma3.{name} is missing; give a whole, unchanged file")
        return fields[f"gemma3.{name}"]

    layers, hidden = field("block_count"), field("embedding_length")
    whole = LayerKind(rope_base=float(field("rope.freq_base")))
    local = LayerKind(rope_base=LOCAL_ROPE_BASE, window_tokens=field("attention.sliding_window"))
    sizes = DecoderShape(
        name=str(fields.get("general.name", path.stem)),
        hidden=hidden,
        layers=layers,
        heads=field("attention.head_count"),
        kv_heads=field("attention.head_count_kv"),
        head_dim=field("attention.key_length"),
        ffn=field("feed_forward_length"),
        vocab=len(fields["tokenizer.ggml.tokens"]),
    )
    return LmShape(
        sizes=sizes,
        kinds=tuple(whole if (index + 1) % WHOLE_EVERY_LAYERS == 0 else local for index in range(layers)),
        norm_eps=float(field("attention.layer_norm_rms_epsilon")),
        activation="gelu_tanh",
        normalises_heads=True,
        normalises_outputs=True,
        embedding_scale=hidden**0.5,
    )


def _pieces_of(fields: dict[str, Any], path: Path) -> Pieces:
    kind = fields.get("tokenizer.ggml.model")
    if kind != "llama":
        raise InvalidInput(
            f"{path}: tokenizer.ggml.model is {kind!r}; SentencePiece vocabularies ('llama') can be read"
        )
    return Pieces(
        pieces=fields["tokenizer.ggml.tokens"],
        scores=fields["tokenizer.ggml.scores"],
        types=fields["tokenizer.ggml.token_type"],
        bos_id=fields.get("tokenizer.ggml.bos_token_id"),
        eos_id=fields.get("tokenizer.ggml.eos_token_id"),
        unknown_id=fields.get("tokenizer.ggml.unknown_token_id"),
    )
