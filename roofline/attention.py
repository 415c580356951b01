"""Attention of a pass: what depends on contexts. Cache bytes per sequence, arithmetic per (row, token) pair."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.calibration import Calibration, OperatorFit
from roofline.operators import Shard
from roofline.specs import Attention, Model
from roofline.units import BITS_PER_BYTE

FloatArray = NDArray[np.float64]
UNLIMITED = 0
"""Window of an attention class that sees the whole context."""


@dataclass(frozen=True, slots=True)
class AttentionClass:
    """All layers of a model that share one window, on one GPU.

    `kv_bytes_per_token`: cache read per token of context; `flops_per_pair` (and in prefill): arithmetic of one
    query row against one cached token, over all layers of the class.
    """

    window_tokens: int
    layers: int
    kv_bytes_per_token: float
    flops_per_pair: float
    prefill_flops_per_pair: float


def kv_format(kv_bits: float) -> str:
    """Name under which a calibration lists attention over a cache of that width."""
    return {16: "bf16", 8: "fp8", 4: "fp4", 32: "fp32"}.get(int(kv_bits), "any")


def attention_classes(model: Model, tensor: int = 1) -> tuple[AttentionClass, ...]:
    """Attention of one GPU's part of the model, by window; the cache is cut into at most `kv_shards` parts."""
    groups: dict[int, list[tuple[int, Attention]]] = {}
    for layer in model.layers:
        if layer.attention is not None:
            window = layer.attention.window_tokens or UNLIMITED
            groups.setdefault(window, []).append((layer.count, layer.attention))
    return tuple(
        AttentionClass(
            window_tokens=window,
            layers=sum(count for count, _ in members),
            kv_bytes_per_token=sum(
                count * spec.kv_elements_per_token / min(tensor, spec.kv_shards) for count, spec in members
            )
            * model.precision.kv_bits
            / BITS_PER_BYTE,
            flops_per_pair=sum(count * spec.flops_per_pair for count, spec in members) / tensor,
            prefill_flops_per_pair=sum(count * spec.prefill_flops_per_pair for count, spec in members) / tensor,
        )
        for window, members in sorted(groups.items())
    )


def seen_tokens(context_tokens: ArrayLike, new_tokens: ArrayLike, window_tokens: int) -> NDArray[np.int64]:
    """Cached tokens a sequence's rows read: context and the rows' own, at most the window plus the other rows."""
    context, new = np.asarray(context_tokens, np.int64), np.asarray(new_tokens, np.int64)
    total = context + new
    return total if window_tokens == UNLIMITED else np.minimum(total, window_tokens + new - 1)


def seen_pairs(context_tokens: ArrayLike, new_tokens: ArrayLike, window_tokens: int) -> NDArray[np.int64]:
    """(row, token) pairs of a causal pass: sum over j = 1..q of min(context + j, window)."""
    context, new = np.asarray(context_tokens, np.int64), np.asarray(new_tokens, np.int64)
    causal = new * context + new * (new + 1) // 2
    if window_tokens == UNLIMITED:
        return causal
    open_rows = np.clip(window_tokens - context, 0, new)
    return open_rows * context + open_rows * (open_rows + 1) // 2 + (new - open_rows) * window_tokens


def state_bytes_per_sequence(model: Model, tensor: int = 1) -> float:
    """Fixed state of recurrent layers on one GPU: read and written once per pass."""
    return sum(
        2.0 * layer.count * layer.recurrence.state_elements * layer.recurrence.state_bits / BITS_PER_BYTE / tensor
        for layer in model.layers
        if layer.recurrence is not None
    )


def _cached_heads(model: Model, tensor: int) -> float:
    """Heads of the cache on one GPU, over all layers: what each sequence occupies a block of the kernel for."""
    return sum(
        layer.count * layer.attention.kv_heads / min(tensor, layer.attention.kv_shards)
        for layer in model.layers
        if layer.attention is not None
    )


def _decode_tile_rows(model: Model, fit: OperatorFit) -> float:
    """Rows of one query head that a tile of the kernel for ragged batches takes at least, a mean over layers."""
    specs = [(layer.count, layer.attention) for layer in model.layers if layer.attention is not None]
    if not specs:
        return 1.0
    rows = [
        count * max(1.0, fit.row_tile / (spec.heads / spec.kv_heads if fit.packs_group else 1.0))
        for count, spec in specs
    ]
    return sum(rows) / sum(count for count, _ in specs)


def _recurrence_fit(calibration: Calibration) -> OperatorFit:
    """Constants of recurrent layers: measured ones, else those of elementwise kernels (whose launches are counted)."""
    for fit in calibration.operators:
        if fit.operator == "recurrence":
            return fit
    return calibration.operator("elementwise", "any")


def attention_coefficients(model: Model, shard: Shard) -> dict[str, Any]:
    """Fields of `ForwardCosts` that price attention: seconds per cached token and per pair, launches, exponents."""
    fmt = kv_format(model.precision.kv_bits)
    classes = attention_classes(model, shard.tensor)
    latent = any(layer.attention is not None and layer.attention.kind == "mla" for layer in model.layers)
    decode = shard.calibration.operator("mla_decode" if latent else "attention_decode", fmt)
    prefill = shard.calibration.operator("mla_prefill" if latent else "attention_prefill", fmt)
    recurrence = _recurrence_fit(shard.calibration)
    kv_bytes = np.array([group.kv_bytes_per_token for group in classes])
    layers = sum(group.layers for group in classes)
    recurrent_layers = sum(layer.count for layer in model.layers if layer.recurrence is not None)
    recurrent_launch_s = recurrence.overhead_s if recurrence.operator == "recurrence" else 0.0
    return {
        "window_tokens": np.array([group.window_tokens for group in classes], dtype=np.int64),
        "kv_s_per_token": kv_bytes / decode.bytes_per_s,
        "decode_s_per_pair": np.array([group.flops_per_pair for group in classes]) / decode.flops_per_s,
        "prefill_kv_s_per_token": kv_bytes / prefill.bytes_per_s,
        "prefill_s_per_pair": np.array([group.prefill_flops_per_pair for group in classes]) / prefill.flops_per_s,
        "state_s_per_sequence": state_bytes_per_sequence(model, shard.tensor) / recurrence.bytes_per_s
        + _cached_heads(model, shard.tensor) * decode.per_sequence_s
        + recurrent_layers * recurrence.per_sequence_s,
        "decode_base_s": layers * decode.overhead_s + recurrent_layers * recurrent_launch_s,
        "prefill_base_s": layers * prefill.overhead_s + recurrent_layers * recurrent_launch_s,
        "decode_p": decode.p_norm or 0.0,
        "prefill_p": prefill.p_norm or 0.0,
        "kv_bytes_per_token": kv_bytes,
        "flops_per_pair": np.array([group.flops_per_pair for group in classes]),
        "prefill_flops_per_pair": np.array([group.prefill_flops_per_pair for group in classes]),
        "decode_tile_rows": _decode_tile_rows(model, decode),
    }
