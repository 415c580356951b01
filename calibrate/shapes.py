"""Shapes of the small real decoders that are measured, and the `roofline.Model` each of them is."""

from dataclasses import dataclass
from typing import Literal

from roofline.specs import Attention, Layer, Linear, Model, Precision, WeightFormat

EngineDType = Literal["bf16", "fp32", "int8"]

WEIGHT_FORMATS: dict[EngineDType, WeightFormat] = {
    "bf16": WeightFormat(name="bf16", bits_per_weight=16, math="bf16"),
    "fp32": WeightFormat(name="fp32", bits_per_weight=32, math="fp32"),
    "int8": WeightFormat(name="int8", bits_per_weight=8, math="int8"),
}
ACTIVATION_BYTES: dict[EngineDType, int] = {"bf16": 2, "fp32": 4, "int8": 4}
"""int8 multiplies quantise activations on the fly from fp32, so what lies between operators is fp32."""


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """A Llama-style decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU, own LM head.

    `fused_hidden` counts the hidden states a head joins with the token embedding before its first layer
    (0: an ordinary decoder, 1: an EAGLE-like head over the target's last hidden state).
    `shares_vocabulary`: embedding and LM head are the target's, so no extra bytes are held.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    fused_hidden: int = 0
    shares_vocabulary: bool = False

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.heads // self.kv_heads

    @property
    def qkv_outputs(self) -> int:
        """Columns of the fused query, key and value matrix."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


def linears_of(shape: DecoderShape) -> tuple[Linear, ...]:
    """The four matrices of a layer as the engine multiplies them: fused qkv, o, fused gate and up, down."""
    return (
        Linear(name="qkv", inputs=shape.hidden, outputs=shape.qkv_outputs, kind="attention"),
        Linear(name="o", inputs=shape.heads * shape.head_dim, outputs=shape.hidden, kind="attention", shard="row"),
        Linear(name="gate_up", inputs=shape.hidden, outputs=2 * shape.ffn, kind="ffn"),
        Linear(name="down", inputs=shape.ffn, outputs=shape.hidden, kind="ffn", shard="row"),
    )


def as_model(
    shape: DecoderShape, dtype: EngineDType, *, role: Literal["target", "draft_model", "head"] = "target"
) -> Model:
    """The `roofline.Model` of a shape: the fit and the simulator compute from the same object."""
    weights = WEIGHT_FORMATS[dtype]
    layer = Layer(
        count=shape.layers,
        linears=linears_of(shape),
        attention=_attention_of(shape),
        other_parameters=2 * shape.hidden,
        elementwise_elements=_elementwise_elements(shape),
    )
    fused = (shape.fused_hidden + 1) * shape.hidden
    return Model(
        name=shape.name,
        model_type="llama",
        role=role,
        hidden_size=shape.hidden,
        vocab_size=shape.vocab,
        inputs=(Linear(name="fc", inputs=fused, outputs=shape.hidden),) if shape.fused_hidden else (),
        layers=(layer,),
        embedding_rows=0 if shape.shares_vocabulary else shape.vocab,
        lm_head=Linear(name="lm_head", inputs=shape.hidden, outputs=shape.vocab, kind="ffn"),
        owns_lm_head=not shape.shares_vocabulary,
        other_parameters=shape.hidden,
        precision=Precision(
            attention=weights,
            ffn=weights,
            experts=weights,
            lm_head=weights,
            embedding=weights,
            kv_bits=8 * ACTIVATION_BYTES[dtype],
            activation_bytes=ACTIVATION_BYTES[dtype],
        ),
    )


def _attention_of(shape: DecoderShape) -> Attention:
    width = shape.heads * shape.head_dim
    return Attention(
        kind="gqa",
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        kv_elements_per_token=2 * shape.kv_heads * shape.head_dim,
        flops_per_pair=4 * width,
        prefill_flops_per_pair=4 * width,
        kv_shards=shape.kv_heads,
    )


def gemm_parameters(shape: DecoderShape) -> int:
    """Weights that every pass streams: all matrices and the LM head, the embedding table left out."""
    per_layer = sum(linear.weights for linear in linears_of(shape))
    return shape.layers * per_layer + shape.hidden * shape.vocab


def kv_bytes(shape: DecoderShape, dtype: EngineDType, *, batch: int, capacity_tokens: int) -> int:
    """Bytes of a cache of `capacity_tokens` for each of `batch` sequences."""
    per_token = 2 * shape.layers * shape.kv_heads * shape.head_dim * ACTIVATION_BYTES[dtype]
    return per_token * batch * capacity_tokens


def _elementwise_elements(shape: DecoderShape) -> int:
    """Numbers read or written per token and layer by norms, rotary embedding, activation, residuals, cache."""
    norms_and_residuals = 8 * shape.hidden
    rotary_and_cache = 4 * shape.qkv_outputs
    activation = 4 * shape.ffn
    return norms_and_residuals + rotary_and_cache + activation
