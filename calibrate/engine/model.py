"""A small real decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, KV cache, ragged lengths."""

from dataclasses import dataclass
from typing import Protocol

import torch

from calibrate.engine.attention import attend, causal_mask
from calibrate.engine.linear import Multiply, multiply_for
from calibrate.shapes import DecoderShape, EngineDType

TORCH_DTYPES: dict[EngineDType, torch.dtype] = {"bf16": torch.bfloat16, "fp32": torch.float32, "int8": torch.float32}
ROPE_BASE = 10000.0
NORM_EPS = 1e-5


@dataclass(slots=True)
class KvCache:
    """Keys and values of every layer, `(layers, batch, kv_heads, capacity, head_dim)`.

    It has no length of its own: a pass is told the positions of its rows, so rolling back is forgetting.
    """

    keys: torch.Tensor
    values: torch.Tensor

    @property
    def capacity_tokens(self) -> int:
        """Slots per sequence."""
        return self.keys.shape[3]

    @classmethod
    def empty(
        cls, shape: DecoderShape, dtype: EngineDType, *, batch: int, capacity_tokens: int, device: str
    ) -> "KvCache":
        """A cache of small random numbers: measured attention must not stream zeros."""
        size = (shape.layers, batch, shape.kv_heads, capacity_tokens, shape.head_dim)
        generator = torch.Generator(device=device).manual_seed(1)
        halves = [
            torch.randn(size, dtype=TORCH_DTYPES[dtype], device=device, generator=generator) for _ in ("keys", "values")
        ]
        return cls(*halves)


class Runs(Protocol):
    """What the loops ask of a model: a pass over new rows that fills a cache, and logits of its hidden states."""

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: KvCache,
        span: int,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)` of new tokens `(batch, q)`; see `Decoder.forward`."""
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., vocab)`."""
        ...


@dataclass(slots=True)
class _Layer:
    attention_norm: torch.Tensor
    qkv: Multiply
    o: Multiply
    ffn_norm: torch.Tensor
    gate_up: Multiply
    down: Multiply


@dataclass(slots=True)
class _Places:
    """Where the new rows of a pass stand; the same for all its layers."""

    rows: torch.Tensor
    positions: torch.Tensor
    span: int
    cosine: torch.Tensor
    sine: torch.Tensor
    mask: torch.Tensor


class Decoder:
    """Weights of one model on one device.

    Parameters
    ----------
    seed
        Weights are random and depend on shape and seed alone.
    scale
        Standard deviation of weights times sqrt(inputs); larger makes sharper distributions.
    """

    def __init__(self, shape: DecoderShape, dtype: EngineDType, *, device: str, seed: int, scale: float = 1.0) -> None:
        """Draw and prepare the weights."""
        self.dtype: EngineDType = dtype
        self.shape, self.device = shape, device
        self.torch_dtype = TORCH_DTYPES[dtype]
        self._generator = torch.Generator(device=device).manual_seed(seed)
        self._scale = scale
        self.embedding = self._random(shape.vocab, shape.hidden) * shape.hidden**0.5
        self.layers = [self._layer() for _ in range(shape.layers)]
        self.final_norm = self._ones()
        self.lm_head = multiply_for(self._random(shape.vocab, shape.hidden), dtype)
        self.fuse: Multiply | None = None
        if shape.fused_hidden:
            fused = (shape.fused_hidden + 1) * shape.hidden
            self.fuse = multiply_for(self._random(shape.hidden, fused), dtype)
        self._rotary: tuple[torch.Tensor, torch.Tensor] = self._rotary_tables(16)

    def share_vocabulary(self, target: "Decoder") -> None:
        """Use the target's embedding and LM head, as trained heads do."""
        self.embedding, self.lm_head = target.embedding, target.lm_head

    def truncated(self, layers: int) -> "Decoder":
        """The same weights cut to the first layers: free second model size for the fit, or an early-exit draft."""
        other = object.__new__(Decoder)
        other.__dict__.update(self.__dict__)
        other.layers = self.layers[:layers]
        return other

    def reserve(self, capacity_tokens: int) -> None:
        """Make rotary tables for that many positions; once, before anything is timed."""
        if self._rotary[0].shape[0] < capacity_tokens:
            self._rotary = self._rotary_tables(capacity_tokens)

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: KvCache,
        span: int,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)` of new tokens `(batch, q)` at `positions`; writes their keys and values.

        Parameters
        ----------
        span
            Cache slots that attention reads, at least the largest position + 1; the batch is padded to it.
        features
            Hidden states joined with the embeddings (heads only).
        """
        x = self.embedding[tokens]
        if self.fuse is not None:
            assert features is not None
            x = self.fuse(torch.cat((x, features), dim=-1))
        cosine, sine = self._rotary[0][positions], self._rotary[1][positions]
        mask = causal_mask(positions, span=span, group=self.shape.group, dtype=self.torch_dtype)
        rows = torch.arange(tokens.shape[0], device=tokens.device)[:, None]
        places = _Places(rows, positions, span, cosine, sine, mask)
        for index, layer in enumerate(self.layers):
            keys, values = cache.keys[index], cache.values[index]
            x = x + self._attention(layer, x, keys=keys, values=values, places=places)
            x = x + self._feed_forward(layer, x)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., vocab)`."""
        normed = torch.nn.functional.rms_norm(hidden, (self.shape.hidden,), self.final_norm, NORM_EPS)
        flat = self.lm_head(normed.reshape(-1, self.shape.hidden))
        return flat.view(*hidden.shape[:-1], self.shape.vocab)

    def _attention(
        self, layer: _Layer, x: torch.Tensor, *, keys: torch.Tensor, values: torch.Tensor, places: _Places
    ) -> torch.Tensor:
        shape, (batch, new) = self.shape, x.shape[:2]
        normed = torch.nn.functional.rms_norm(x, (shape.hidden,), layer.attention_norm, NORM_EPS)
        qkv = layer.qkv(normed.view(batch * new, shape.hidden)).view(batch, new, -1, shape.head_dim)
        turned = _rotate(qkv[:, :, : shape.heads + shape.kv_heads], places.cosine, sine=places.sine)
        keys[places.rows, :, places.positions] = turned[:, :, shape.heads :]
        values[places.rows, :, places.positions] = qkv[:, :, shape.heads + shape.kv_heads :]
        seen = slice(0, places.span)
        out = attend(turned[:, :, : shape.heads], keys[:, :, seen], values=values[:, :, seen], mask=places.mask)
        return layer.o(out.view(batch * new, -1)).view(batch, new, -1)

    def _feed_forward(self, layer: _Layer, x: torch.Tensor) -> torch.Tensor:
        normed = torch.nn.functional.rms_norm(x, (self.shape.hidden,), layer.ffn_norm, NORM_EPS)
        both = layer.gate_up(normed.view(-1, self.shape.hidden))
        gate, up = both[:, : self.shape.ffn], both[:, self.shape.ffn :]
        return layer.down(torch.nn.functional.silu(gate).mul_(up)).view(x.shape)

    def _layer(self) -> _Layer:
        shape = self.shape
        return _Layer(
            attention_norm=self._ones(),
            qkv=multiply_for(self._random(shape.qkv_outputs, shape.hidden), self.dtype),
            o=multiply_for(self._random(shape.hidden, shape.heads * shape.head_dim), self.dtype),
            ffn_norm=self._ones(),
            gate_up=multiply_for(self._random(2 * shape.ffn, shape.hidden), self.dtype),
            down=multiply_for(self._random(shape.hidden, shape.ffn), self.dtype),
        )

    def _random(self, outputs: int, inputs: int) -> torch.Tensor:
        weight = torch.empty(outputs, inputs, dtype=self.torch_dtype, device=self.device)
        return weight.normal_(0.0, self._scale * inputs**-0.5, generator=self._generator)

    def _ones(self) -> torch.Tensor:
        return torch.ones(self.shape.hidden, dtype=self.torch_dtype, device=self.device)

    def _rotary_tables(self, capacity_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        half = self.shape.head_dim // 2
        inverse = ROPE_BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(capacity_tokens, dtype=torch.float64)[:, None] * inverse
        return angles.cos().to(self.device, self.torch_dtype), angles.sin().to(self.device, self.torch_dtype)


def _rotate(x: torch.Tensor, cosine: torch.Tensor, *, sine: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of `(batch, q, heads, head_dim)`; tables `(batch, q, head_dim / 2)`."""
    cosine, sine = cosine[:, :, None], sine[:, :, None]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
