"""One decoder layer as a real checkpoint has it: the same arithmetic for frozen and for trainable weights."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch

from calibrate.engine.attention import additive_mask, attend, causal_mask
from calibrate.lab.shapes import LayerKind, LmShape


@dataclass(frozen=True, slots=True)
class Layer:
    """Matrices of one layer as products `(rows, inputs) -> (rows, outputs)`; `vectors` holds its norms and biases."""

    qkv: Callable[[torch.Tensor], torch.Tensor]
    o: Callable[[torch.Tensor], torch.Tensor]
    gate_up: Callable[[torch.Tensor], torch.Tensor]
    down: Callable[[torch.Tensor], torch.Tensor]
    vectors: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Rotary:
    """Cosines and sines of the rows of a pass, `(batch, q, head_dim / 2)`."""

    cosine: torch.Tensor
    sine: torch.Tensor


@dataclass(frozen=True, slots=True)
class Places:
    """Where the rows of a pass stand, and what all layers of one kind share.

    Attributes
    ----------
    slots
        `(batch, q)` cache slots that the rows fill: their positions, but where a cache holds several passes.
    span
        Cache slots that are read.
    masks
        Additive, `(batch, 1, group * q, span)`.
    """

    rows: torch.Tensor
    slots: torch.Tensor
    span: int
    masks: dict[LayerKind, torch.Tensor]
    rotary: dict[float, Rotary]

    @classmethod
    def of(
        cls,
        shape: LmShape,
        positions: torch.Tensor,
        *,
        kinds: Collection[LayerKind],
        span: int,
        dtype: torch.dtype,
    ) -> "Places":
        """Masks and rotations of the kinds of layer that run; `span` cache slots are read."""
        sizes = shape.sizes
        masks = {
            kind: causal_mask(positions, span=span, group=sizes.group, dtype=dtype, window_tokens=kind.window_tokens)
            for kind in set(kinds)
        }
        bases = {kind.rope_base for kind in kinds}
        rotary = {base: rotary_at(positions, base, head_dim=sizes.head_dim) for base in bases}
        return cls(_rows(positions), positions, span, masks, rotary)

    @classmethod
    def of_unrolled(
        cls, shape: LmShape, positions: torch.Tensor, *, kind: LayerKind, index: int, span: int, dtype: torch.dtype
    ) -> "Places":
        """Rows of unrolled pass `index`, over a cache that holds the passes one after the other, `span` slots each.

        A row at place p sees what it would see at work after `index` drafts: pass 0 up to p - index, then one entry of
        each later pass, its own last.
        """
        slots = torch.arange((index + 1) * span, device=positions.device)
        of_pass, place = slots // span, slots % span
        newest = positions[:, :, None] - index
        seen = torch.where(of_pass == 0, place <= newest, place == newest + of_pass)
        if kind.window_tokens is not None:
            seen &= place > positions[:, :, None] - kind.window_tokens
        masks = {kind: additive_mask(~seen, group=shape.sizes.group, dtype=dtype)}
        rotary = {kind.rope_base: rotary_at(positions, kind.rope_base, head_dim=shape.sizes.head_dim)}
        return cls(_rows(positions), positions + index * span, len(slots), masks, rotary)


def run_layer(
    shape: LmShape,
    layer: Layer,
    x: torch.Tensor,
    *,
    cache: tuple[torch.Tensor, torch.Tensor],
    kind: LayerKind,
    at: Places,
) -> torch.Tensor:
    """`(batch, q, hidden)` through one layer; its keys and values `(batch, kv_heads, span, head_dim)` are filled in."""
    attended = _attention(shape, layer, x, cache=cache, kind=kind, at=at)
    x = x + _after(shape, layer, attended, "post_attention_norm")
    return x + _after(shape, layer, _feed_forward(shape, layer, x), "post_ffn_norm")


def normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """RMSNorm in the format of `x`."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight.to(x.dtype), eps)


def rotary_at(positions: torch.Tensor, base: float, *, head_dim: int) -> Rotary:
    """Cosines and sines of `positions` `(batch, q)`, in fp32."""
    half = head_dim // 2
    inverse = base ** (-torch.arange(half, dtype=torch.float64, device=positions.device) / half)
    angles = positions[..., None] * inverse
    return Rotary(angles.cos().float(), angles.sin().float())


def rotated(x: torch.Tensor, rotary: Rotary) -> torch.Tensor:
    """Rotary embedding of `(batch, q, heads, head_dim)`, first half against second half."""
    cosine, sine = rotary.cosine[:, :, None], rotary.sine[:, :, None]
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)


def _rows(positions: torch.Tensor) -> torch.Tensor:
    return torch.arange(positions.shape[0], device=positions.device)[:, None]


def _attention(
    shape: LmShape,
    layer: Layer,
    x: torch.Tensor,
    *,
    cache: tuple[torch.Tensor, torch.Tensor],
    kind: LayerKind,
    at: Places,
) -> torch.Tensor:
    sizes, (batch, new) = shape.sizes, x.shape[:2]
    keys, values = cache
    qkv = layer.qkv(normed(x, layer.vectors["attention_norm"], shape.norm_eps).reshape(batch * new, -1))
    if shape.has_qkv_bias:
        qkv = qkv + layer.vectors["qkv_bias"].to(qkv.dtype)
    query, key, value = qkv.view(batch, new, -1, sizes.head_dim).split(
        (sizes.heads, sizes.kv_heads, sizes.kv_heads), dim=2
    )
    if shape.normalises_heads:
        query = normed(query, layer.vectors["q_norm"], shape.norm_eps)
        key = normed(key, layer.vectors["k_norm"], shape.norm_eps)
    rotary = at.rotary[kind.rope_base]
    keys[at.rows, :, at.slots] = rotated(key, rotary)
    values[at.rows, :, at.slots] = value
    seen = slice(0, at.span)
    out = attend(rotated(query, rotary), keys[:, :, seen], values=values[:, :, seen], mask=at.masks[kind])
    return layer.o(out.view(batch * new, -1)).view(batch, new, -1)


def _feed_forward(shape: LmShape, layer: Layer, x: torch.Tensor) -> torch.Tensor:
    both = layer.gate_up(normed(x, layer.vectors["ffn_norm"], shape.norm_eps).reshape(-1, shape.sizes.hidden))
    gate, up = both.chunk(2, dim=-1)
    return layer.down(_activated(gate, shape.activation) * up).view(x.shape)


def _after(shape: LmShape, layer: Layer, x: torch.Tensor, name: str) -> torch.Tensor:
    return normed(x, layer.vectors[name], shape.norm_eps) if shape.normalises_outputs else x


def _activated(x: torch.Tensor, activation: str) -> torch.Tensor:
    """The gate's nonlinearity."""
    if activation == "silu":
        return torch.nn.functional.silu(x)
    return torch.nn.functional.gelu(x, approximate="tanh")
