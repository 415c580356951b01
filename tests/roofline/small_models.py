"""A one-layer model and a machine with round numbers, small enough to price by hand."""

from datetime import date

from roofline.calibration import Calibration, CollectiveFit, HostFit, Machine, OperatorClass, OperatorFit, SamplerFit
from roofline.cost import Deployment
from roofline.specs import (
    Attention,
    Experts,
    Gpu,
    Layer,
    Linear,
    Model,
    Parallelism,
    Precision,
    Recurrence,
    Source,
    WeightFormat,
)

BF16 = WeightFormat(name="bf16", bits_per_weight=16, math="bf16")
SOURCE = Source(title="made for the tests", url="https://example.org/", retrieved=date(2026, 11, 29))
GPU = Gpu(
    name="Round",
    vendor="none",
    architecture="test",
    memory_bytes=1e9,
    hbm_bytes_per_s=1e9,
    peak_flops_per_s={"bf16": 1e12},
    link_bytes_per_s=1e9,
    link="nvlink",
    source=SOURCE,
)
ATTENTION = Attention(
    kind="gqa",
    heads=4,
    kv_heads=2,
    kv_elements_per_token=2 * 2 * 16,
    flops_per_pair=2 * 4 * 32,
    prefill_flops_per_pair=2 * 4 * 32,
    kv_shards=2,
)
OPERATORS: tuple[OperatorClass, ...] = (
    "gemm",
    "moe_gemm",
    "lm_head",
    "attention_decode",
    "attention_prefill",
    "elementwise",
)


def model(
    *,
    layers: int = 1,
    window_tokens: int | None = None,
    experts: Experts | None = None,
    recurrence: Recurrence | None = None,
    hidden: int = 64,
) -> Model:
    """`layers` layers of two square matrices (hidden x hidden), the second row-cut, with attention; vocabulary 100."""
    precision = Precision(attention=BF16, ffn=BF16, experts=BF16, lm_head=BF16, embedding=BF16)
    attention = ATTENTION.model_copy(update={"window_tokens": window_tokens})
    layer = Layer(
        count=layers,
        linears=(
            Linear(name="square", inputs=hidden, outputs=hidden),
            Linear(name="out", inputs=hidden, outputs=hidden, shard="row"),
        ),
        attention=attention,
        experts=experts,
        recurrence=recurrence,
        elementwise_elements=10 * hidden,
    )
    return Model(
        name="small",
        model_type="test",
        hidden_size=hidden,
        vocab_size=100,
        layers=(layer,),
        embedding_rows=100,
        lm_head=Linear(name="lm_head", inputs=hidden, outputs=100),
        owns_lm_head=True,
        precision=precision,
    )


def calibration(
    *,
    overhead_s: float = 0.0,
    p_norm: float | None = 1.0,
    host: HostFit | None = None,
    sampler: SamplerFit | None = None,
    tile_tokens: int = 1,
) -> Calibration:
    """Every operator at the peaks of `GPU`, additive unless told otherwise."""
    return Calibration(
        name="round",
        label="assumed",
        machine=Machine(device="Round"),
        created=date(2026, 11, 29),
        operators=tuple(
            OperatorFit(
                operator=operator,
                weights="any",
                overhead_s=overhead_s,
                bytes_per_s=1e9,
                flops_per_s=1e12,
                p_norm=p_norm,
                tile_tokens=tile_tokens,
            )
            for operator in OPERATORS
        ),
        collectives=(CollectiveFit(gpus=2, latency_s=1e-3, bytes_per_s=1e9),),
        host=host or HostFit(),
        sampler=sampler or SamplerFit(),
    )


def deployment(
    *, tensor: int = 1, draft_tensor: int = 1, graph_tokens: tuple[int, ...] = (), **fit: object
) -> Deployment:
    """The machine of `GPU` and `calibration(**fit)`."""
    return Deployment(
        gpu=GPU,
        calibration=calibration(**fit),  # type: ignore[arg-type]
        parallel=Parallelism(tensor=tensor, draft_tensor=draft_tensor),
        graph_tokens=graph_tokens,
        draft_graph_tokens=graph_tokens,
    )
