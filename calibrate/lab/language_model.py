"""A real language model on the engine's cache and attention, so that the engine's loops run it unchanged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from calibrate.engine.attention import attend, causal_mask
from calibrate.engine.linear import Multiply, multiply_for
from calibrate.engine.model import TORCH_DTYPES, KvCache
from calibrate.lab.shapes import LayerKind, LmShape
from calibrate.shapes import DecoderShape, EngineDType

Weights = Mapping[str, torch.Tensor]
"""Tensors by the names of `LmShape.tensor_shapes`."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """Prepared matrices of one layer; `vectors` holds its norms and biases."""

    qkv: Multiply
    o: Multiply
    gate_up: Multiply
    down: Multiply
    vectors: dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Rotary:
    """Cosines and sines of the rows of a pass, `(batch, q, head_dim / 2)`."""

    cosine: torch.Tensor
    sine: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Pass:
    """What all layers of a pass share."""

    rows: torch.Tensor
    positions: torch.Tensor
    span: int
    masks: dict[LayerKind, torch.Tensor]
    rotary: dict[float, Rotary]


class LanguageModel:
    """A decoder with a checkpoint's weights.

    Parameters
    ----------
    weights
        Every tensor of `shape.tensor_shapes()`, in any float format; converted once.
    """

    def __init__(self, shape: LmShape, weights: Weights, *, dtype: EngineDType, device: str = "cpu") -> None:
        """Prepare matrices in the device's fastest form."""
        self.dtype: EngineDType = dtype
        self.lm_shape, self.device = shape, device
        self.torch_dtype = TORCH_DTYPES[dtype]
        self.kinds = shape.kinds
        self.embedding = self._placed(weights["embedding"])
        self.layers = [self._layer(weights, index) for index in range(shape.sizes.layers)]
        self.final_norm = self._placed(weights["final_norm"])
        self._head_rows = self.embedding if shape.ties_embedding else self._placed(weights["lm_head"])
        self.lm_head = multiply_for(self._head_rows, dtype)

    @property
    def shape(self) -> DecoderShape:
        """Sizes as the engine reads them."""
        return self.lm_shape.sizes

    def with_layers(self, kept: Sequence[int]) -> "LanguageModel":
        """The same weights running only the layers named: a draft that costs no training."""
        other = object.__new__(LanguageModel)
        other.__dict__.update(self.__dict__)
        other.layers = [self.layers[index] for index in kept]
        other.kinds = tuple(self.kinds[index] for index in kept)
        return other

    def empty_cache(self, *, batch: int, capacity_tokens: int) -> KvCache:
        """Room for `batch` sequences in the layers that run."""
        sizes = self.shape
        size = (len(self.layers), batch, sizes.kv_heads, capacity_tokens, sizes.head_dim)
        return KvCache(*(torch.zeros(size, dtype=self.torch_dtype, device=self.device) for _ in ("keys", "values")))

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: KvCache,
        span: int,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)` before the last norm, of new tokens `(batch, q)`; fills the cache."""
        assert features is None, "only heads join features"
        x = self.embedding[tokens] * self.lm_shape.embedding_scale
        places = self._places(positions, span=span)
        for index, (layer, kind) in enumerate(zip(self.layers, self.kinds, strict=True)):
            attended = self._attention(layer, x, cache=(cache.keys[index], cache.values[index]), kind=kind, at=places)
            x = x + self._after(layer, attended, "post_attention_norm")
            x = x + self._after(layer, self._feed_forward(layer, x), "post_ffn_norm")
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., vocab)`."""
        normed = self.normed(hidden)
        flat = self.lm_head(normed.reshape(-1, self.shape.hidden))
        return flat.view(*hidden.shape[:-1], self.shape.vocab)

    def lm_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows `(len(ids), hidden)` of the LM head."""
        return self._head_rows[ids]

    def normed(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the LM head multiplies."""
        return self._norm(hidden, self.final_norm)

    def _attention(
        self,
        layer: _Layer,
        x: torch.Tensor,
        *,
        cache: tuple[torch.Tensor, torch.Tensor],
        kind: LayerKind,
        at: _Pass,
    ) -> torch.Tensor:
        sizes, (batch, new) = self.shape, x.shape[:2]
        keys, values = cache
        normed = self._norm(x, layer.vectors["attention_norm"])
        qkv = layer.qkv(normed.reshape(batch * new, -1))
        if "qkv_bias" in layer.vectors:
            qkv = qkv + layer.vectors["qkv_bias"]
        qkv = qkv.view(batch, new, -1, sizes.head_dim)
        query, key, value = qkv.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), dim=2)
        if self.lm_shape.normalises_heads:
            query, key = self._norm(query, layer.vectors["q_norm"]), self._norm(key, layer.vectors["k_norm"])
        rotary = at.rotary[kind.rope_base]
        keys[at.rows, :, at.positions] = rotated(key, rotary)
        values[at.rows, :, at.positions] = value
        seen = slice(0, at.span)
        out = attend(rotated(query, rotary), keys[:, :, seen], values=values[:, :, seen], mask=at.masks[kind])
        return layer.o(out.view(batch * new, -1)).view(batch, new, -1)

    def _feed_forward(self, layer: _Layer, x: torch.Tensor) -> torch.Tensor:
        both = layer.gate_up(self._norm(x, layer.vectors["ffn_norm"]).reshape(-1, self.shape.hidden))
        gate, up = both.chunk(2, dim=-1)
        return layer.down(activated(gate, self.lm_shape.activation) * up).view(x.shape)

    def _after(self, layer: _Layer, x: torch.Tensor, name: str) -> torch.Tensor:
        return self._norm(x, layer.vectors[name]) if self.lm_shape.normalises_outputs else x

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, self.lm_shape.norm_eps)

    def _places(self, positions: torch.Tensor, *, span: int) -> _Pass:
        masks: dict[LayerKind, torch.Tensor] = {}
        rotary: dict[float, Rotary] = {}
        for kind in set(self.kinds):
            masks[kind] = causal_mask(
                positions,
                span=span,
                group=self.shape.group,
                dtype=self.torch_dtype,
                window_tokens=kind.window_tokens,
            )
            rotary[kind.rope_base] = rotary_at(positions, kind.rope_base, head_dim=self.shape.head_dim)
        rows = torch.arange(positions.shape[0], device=positions.device)[:, None]
        return _Pass(rows, positions, span, masks, rotary)

    def _layer(self, weights: Weights, index: int) -> _Layer:
        own = {
            name.removeprefix(f"layers.{index}."): tensor
            for name, tensor in weights.items()
            if name.startswith(f"layers.{index}.")
        }
        vectors = {name: self._placed(tensor) for name, tensor in own.items() if name.endswith("norm")}
        if self.lm_shape.has_qkv_bias:
            vectors["qkv_bias"] = self._placed(torch.cat([own["q_bias"], own["k_bias"], own["v_bias"]]))
        return _Layer(
            qkv=self._matrix(own["q"], own["k"], own["v"]),
            o=self._matrix(own["o"]),
            gate_up=self._matrix(own["gate"], own["up"]),
            down=self._matrix(own["down"]),
            vectors=vectors,
        )

    def _matrix(self, *parts: torch.Tensor) -> Multiply:
        return multiply_for(self._placed(torch.cat(parts)), self.dtype)

    def _placed(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device, self.torch_dtype)


def activated(x: torch.Tensor, activation: str) -> torch.Tensor:
    """The gate's nonlinearity."""
    if activation == "silu":
        return torch.nn.functional.silu(x)
    return torch.nn.functional.gelu(x, approximate="tanh")


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
