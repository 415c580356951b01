"""A real language model on the engine's cache and attention, so that the engine's loops run it unchanged."""

from collections.abc import Mapping, Sequence

import torch

from calibrate.engine.linear import Multiply, multiply_for
from calibrate.engine.model import TORCH_DTYPES, KvCache
from calibrate.lab.decoder_layer import Layer, Places, normed, run_layer
from calibrate.lab.shapes import LmShape
from calibrate.shapes import DecoderShape, EngineDType

Weights = Mapping[str, torch.Tensor]
"""Tensors by the names of `LmShape.tensor_shapes`."""


class LanguageModel:
    """A decoder with a checkpoint's weights.

    Parameters
    ----------
    weights
        Every tensor of `shape.tensor_shapes()`, in any float format; converted once.

    Attributes
    ----------
    last_layer
        Plain tensors of the last layer by name: what a head starts from.
    """

    def __init__(self, shape: LmShape, weights: Weights, *, dtype: EngineDType, device: str = "cpu") -> None:
        """Prepare matrices in the device's fastest form."""
        self.dtype: EngineDType = dtype
        self.lm_shape, self.device = shape, device
        self.torch_dtype = TORCH_DTYPES[dtype]
        self.kinds = shape.kinds
        self.embedding = self._placed(weights["embedding"])
        layers = range(shape.sizes.layers)
        self.layers = [self._layer(_of_layer(weights, index)) for index in layers]
        self.last_layer = {name: self._placed(part) for name, part in _of_layer(weights, layers[-1]).items()}
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
        return self.through(x, positions, cache=cache, span=span)

    def through(self, x: torch.Tensor, positions: torch.Tensor, *, cache: KvCache, span: int) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)` that go into the first layer, through all that run; fills the cache."""
        places = Places.of(self.lm_shape, positions, kinds=self.kinds, span=span, dtype=self.torch_dtype)
        for index, (layer, kind) in enumerate(zip(self.layers, self.kinds, strict=True)):
            own = (cache.keys[index], cache.values[index])
            x = run_layer(self.lm_shape, layer, x, cache=own, kind=kind, at=places)
        return x

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., vocab)`."""
        flat = self.lm_head(self.normed(hidden).reshape(-1, self.shape.hidden))
        return flat.view(*hidden.shape[:-1], self.shape.vocab)

    def lm_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows `(len(ids), hidden)` of the LM head."""
        return self._head_rows[ids]

    def normed(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the LM head multiplies."""
        return normed(hidden, self.final_norm, self.lm_shape.norm_eps)

    def _layer(self, own: Weights) -> Layer:
        vectors = {name: self._placed(tensor) for name, tensor in own.items() if name.endswith("norm")}
        if self.lm_shape.has_qkv_bias:
            vectors["qkv_bias"] = self._placed(torch.cat([own["q_bias"], own["k_bias"], own["v_bias"]]))
        return Layer(
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


def _of_layer(weights: Weights, index: int) -> Weights:
    start = f"layers.{index}."
    return {name.removeprefix(start): tensor for name, tensor in weights.items() if name.startswith(start)}
