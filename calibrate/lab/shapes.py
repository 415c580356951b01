"""What a dense decoder of today needs to be told apart from another: the shape of a real checkpoint."""

from dataclasses import dataclass
from typing import Literal

from calibrate.shapes import DecoderShape

Activation = Literal["gelu_tanh", "silu"]


@dataclass(frozen=True, slots=True)
class LayerKind:
    """How one layer attends: over everything or over the last `window_tokens`, rotated with `rope_base`."""

    rope_base: float
    window_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class LmShape:
    """A dense decoder: Gemma 3, Llama, Mistral, Qwen 2 and 3 differ in these fields alone.

    Attributes
    ----------
    sizes
        Widths and counts, as the measuring engine names them.
    kinds
        One per layer.
    normalises_heads
        RMSNorm over each query and key head (Gemma 3, Qwen 3).
    normalises_outputs
        RMSNorm after attention and after the feed-forward too (Gemma 3).
    has_qkv_bias
        Biases on query, key and value (Qwen 2).
    ties_embedding
        The LM head is the embedding table.
    embedding_scale
        Factor on embedded tokens: `sqrt(hidden)` for Gemma, 1 elsewhere.
    """

    sizes: DecoderShape
    kinds: tuple[LayerKind, ...]
    norm_eps: float
    activation: Activation
    normalises_heads: bool = False
    normalises_outputs: bool = False
    has_qkv_bias: bool = False
    ties_embedding: bool = True
    embedding_scale: float = 1.0

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every tensor the model is made of, by our name, with the shape it must have."""
        sizes = self.sizes
        shapes: dict[str, tuple[int, ...]] = {"embedding": (sizes.vocab, sizes.hidden), "final_norm": (sizes.hidden,)}
        if not self.ties_embedding:
            shapes["lm_head"] = (sizes.vocab, sizes.hidden)
        for index in range(sizes.layers):
            shapes |= {f"layers.{index}.{name}": shape for name, shape in self._layer_shapes().items()}
        return shapes

    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        sizes = self.sizes
        queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "attention_norm": (sizes.hidden,),
            "q": (queries, sizes.hidden),
            "k": (keys, sizes.hidden),
            "v": (keys, sizes.hidden),
            "o": (sizes.hidden, queries),
            "ffn_norm": (sizes.hidden,),
            "gate": (sizes.ffn, sizes.hidden),
            "up": (sizes.ffn, sizes.hidden),
            "down": (sizes.hidden, sizes.ffn),
        }
        if self.normalises_heads:
            shapes |= {"q_norm": (sizes.head_dim,), "k_norm": (sizes.head_dim,)}
        if self.normalises_outputs:
            shapes |= {"post_attention_norm": (sizes.hidden,), "post_ffn_norm": (sizes.hidden,)}
        if self.has_qkv_bias:
            shapes |= {"q_bias": (queries,), "k_bias": (keys,), "v_bias": (keys,)}
        return shapes
