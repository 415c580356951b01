"""What is computed about: a GPU, a model, its number formats, and how it is spread over GPUs.

All classes are frozen pydantic models that refuse unknown fields; they are validated once, at the border,
and used as they are everywhere else.
"""

from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

DType = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4"]
Role = Literal["target", "draft_model", "head"]


class Frozen(BaseModel):
    """Base: immutable, unknown fields refused, NaN and infinity refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Source(Frozen):
    """Where a number comes from. A catalogue row without one does not load."""

    title: str = Field(min_length=3)
    url: str = Field(pattern=r"^https?://")
    retrieved: date


class Gpu(Frozen):
    """One accelerator. Dense rates only; `peak_flops_per_s["bf16"]` is with fp32 accumulation.

    `link_bytes_per_s` is the unidirectional bandwidth of one GPU to its peers (NVLink where there is one,
    else PCIe): what the vendor prints as 900 GB/s is 450e9 here. `link` "none": host and GPU share one memory.
    """

    name: str
    vendor: str
    architecture: str
    memory_bytes: PositiveFloat
    hbm_bytes_per_s: PositiveFloat
    peak_flops_per_s: dict[DType, PositiveFloat]
    link_bytes_per_s: PositiveFloat
    link: Literal["nvlink", "xgmi", "ici", "pcie", "none"]
    l2_bytes: PositiveFloat | None = None
    confidence: str = ""
    notes: str = ""
    source: Source


class WeightFormat(Frozen):
    """How a weight matrix is stored and multiplied.

    `bits_per_weight` includes scales and zero points (4.125 for int4 with one 16-bit scale per 128).
    `math` is the type of the multiply: int4 weights are `dequantised` to bf16 first.
    """

    name: str
    bits_per_weight: PositiveFloat
    math: DType
    dequantised: bool = False


class Precision(Frozen):
    """Number formats of one model as served.

    Activations between operators are 16-bit (`activation_bytes` = 2) unless the model runs in fp32.
    """

    attention: WeightFormat
    ffn: WeightFormat
    experts: WeightFormat
    lm_head: WeightFormat
    embedding: WeightFormat
    kv_bits: PositiveFloat = 16
    activation_bytes: PositiveFloat = 2


class Linear(Frozen):
    """One weight matrix `(inputs, outputs)`. `shard` says how tensor parallelism cuts it.

    `quantised` is False for what engines keep in 16 bits whatever the model's format (routers, `fc` of heads);
    `roofline.counts.linear_format` gives the format that holds.
    """

    name: str
    inputs: PositiveInt
    outputs: PositiveInt
    bias: bool = False
    kind: Literal["attention", "ffn"] = "attention"
    shard: Literal["column", "row", "replicated"] = "column"
    quantised: bool = True

    @property
    def weights(self) -> int:
        """Entries of the matrix, bias left out."""
        return self.inputs * self.outputs


class Attention(Frozen):
    """What one layer's attention keeps and reads per token of context.

    `kv_elements_per_token`: numbers cached per token (2 * kv_heads * head_dim; MLA: kv_lora_rank + rope dim).
    `flops_per_pair`: multiply-adds times two for one query row against one cached token, all heads
    (2 * heads * (key dim + value dim); MLA in its absorbed form).
    `prefill_flops_per_pair`: the same during prefill (MLA runs its unabsorbed form there).
    `window_tokens`: a row sees at most that many tokens; None is the whole context.
    `kv_shards`: into how many parts tensor parallelism can cut the cache (kv_heads; 1 for MLA: replicated).
    """

    kind: Literal["gqa", "mla"]
    heads: PositiveInt
    kv_heads: PositiveInt
    kv_elements_per_token: PositiveInt
    flops_per_pair: PositiveInt
    prefill_flops_per_pair: PositiveInt
    kv_shards: PositiveInt
    window_tokens: PositiveInt | None = None


class Recurrence(Frozen):
    """A linear-attention or state-space mixer: a fixed state per sequence instead of a growing cache."""

    state_elements: PositiveInt
    state_bits: PositiveFloat = 32
    flops_per_token: PositiveInt


class Experts(Frozen):
    """Routed experts of one layer; shared experts are ordinary `linears` of the layer."""

    count: PositiveInt
    per_token: PositiveInt
    linears: tuple[Linear, ...]

    @property
    def weights_each(self) -> int:
        """Weight entries of one expert."""
        return sum(linear.weights for linear in self.linears)


class Layer(Frozen):
    """`count` identical layers: the matrices every token passes, the mixer, the routed experts.

    `other_parameters`: what is held but streams no noticeable bytes (norms, sinks, router bias, convolutions).
    `elementwise_elements`: numbers read or written per token by norms, rotary embedding, activations, residuals.
    """

    count: PositiveInt
    linears: tuple[Linear, ...]
    attention: Attention | None = None
    recurrence: Recurrence | None = None
    experts: Experts | None = None
    other_parameters: NonNegativeInt = 0
    elementwise_elements: NonNegativeInt = 0


class Model(Frozen):
    """A decoder as served: what it holds, what a token passes, what it caches.

    `inputs`: matrices before the first layer (the `fc` of an EAGLE head, the projection of an MTP layer).
    `embedding_rows`: rows of the input embedding this model holds itself (0 for a head sharing the target's).
    `lm_head`: the output matrix; `owns_lm_head` is False when its weights are another table's
    (tied to the own embedding, or shared with the target): no extra bytes held, but read and multiplied all the same.
    `mtp_layers`: multi-token-prediction layers shipped with the checkpoint, counted apart.
    """

    name: str
    model_type: str
    role: Role = "target"
    hidden_size: PositiveInt
    vocab_size: PositiveInt
    max_context_tokens: PositiveInt | None = None
    inputs: tuple[Linear, ...] = ()
    layers: tuple[Layer, ...]
    embedding_rows: NonNegativeInt
    lm_head: Linear
    owns_lm_head: bool
    other_parameters: NonNegativeInt = 0
    mtp_layers: tuple[Layer, ...] = ()
    mtp_inputs: tuple[Linear, ...] = ()
    mtp_other_parameters: NonNegativeInt = 0
    precision: Precision
    block_size: PositiveInt | None = None
    notes: tuple[str, ...] = ()
    source: Source | None = None


class Parallelism(Frozen):
    """How one replica is spread over GPUs. `draft_tensor` is 1 or `tensor`.

    `whole_experts`: routed experts are dealt to the GPUs whole instead of being cut over them (expert parallel
    within the tensor group). `pipeline`: stages in series, each with its part of the layers; the draft runs on the
    last. `data`: ranks that each hold the attention of their own requests, while routed experts are spread over all.
    """

    tensor: PositiveInt = 1
    draft_tensor: PositiveInt = 1
    whole_experts: bool = False
    pipeline: PositiveInt = 1
    data: PositiveInt = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.pipeline * self.data
