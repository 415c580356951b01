"""From catalogue rows to a `Calibration`: what kernels and an engine reach of a GPU's peaks.

Operators are never faster than bytes over the peak bandwidth or flops over the peak rate: shares are at
most 1.
"""

from collections.abc import Iterator
from datetime import date
from typing import Literal, NamedTuple, TypeVar

from roofline.calibration import (
    Calibration,
    CollectiveFit,
    HostFit,
    Machine,
    OperatorClass,
    OperatorFit,
    SamplerFit,
)
from roofline.catalog import collective_constants, kernel_constants
from roofline.engines import CollectiveConstants, EngineProfile, KernelConstants, KernelFamily
from roofline.errors import InvalidInput
from roofline.specs import DType, Gpu, Source

GROUP_SIZES = (1, 2, 4, 8, 16)
CREATED = date(2026, 11, 29)
"""Day the constants of the catalogue were last derived."""

FORMATS_16 = ("bf16", "fp16")
FORMATS_WIDENED = ("int2", "int3", "int4", "int5", "int6", "int8_weights")
_MATRIX_OPERATORS: dict[OperatorClass, Literal["gemm", "moe"]] = {
    "gemm": "gemm",
    "lm_head": "gemm",
    "moe_gemm": "moe",
}
_ATTENTION: tuple[Literal["attention_decode", "attention_prefill"], ...] = (
    "attention_decode",
    "attention_prefill",
)
_Width = Literal["32", "16", "8", "4", "dequantised"]
_Constants = TypeVar("_Constants", KernelConstants, CollectiveConstants)


class _ServedFormat(NamedTuple):
    """How a weight format runs on a GPU: kernel family by width, type of the multiply, what was emulated."""

    weights: str
    width: _Width
    math: DType
    note: str = ""


def catalogue_calibration(gpu: Gpu, engine: EngineProfile) -> Calibration:
    """Constants of a GPU under an engine, from the catalogue; label "catalogue", notes say what was emulated.

    Formats the GPU has no arithmetic for are listed only where engines document an emulation (8- and 4-bit
    weights widened to 16 bits); anything else is absent, so that asking for it raises `OutsideDomain`. A note
    begins with the format it is about.

    Raises
    ------
    InvalidInput
        The GPU has neither bf16 nor fp16 arithmetic.
    """
    dtype_16 = _math_16(gpu)
    rows = _Rows(gpu, engine)
    operators: list[OperatorFit] = []
    notes: list[str] = []
    for served in _served_formats(gpu, dtype_16):
        for operator, kind in _MATRIX_OPERATORS.items():
            constants = rows.kernel(_family(kind, served.width))
            operators.append(_fit(constants, gpu, operator=operator, weights=served.weights, math=served.math))
        if served.note:
            notes.append(served.note)
    for operator in _ATTENTION:
        operators.append(_fit(rows.kernel(operator), gpu, operator=operator, weights="any", math=dtype_16))
    elementwise = rows.kernel("elementwise")
    moved_bytes_per_s = elementwise.bandwidth_fraction.value * gpu.hbm_bytes_per_s
    operators.append(_fit(elementwise, gpu, operator="elementwise", weights="any", math=_vector_math(gpu, dtype_16)))
    return Calibration(
        name=f"catalogue {gpu.name} {engine.name}",
        label="catalogue",
        machine=Machine(device=gpu.name, engine=engine.name),
        created=CREATED,
        sources=_sources(gpu, engine, rows),
        operators=tuple(operators),
        collectives=tuple(rows.collective(gpus) for gpus in GROUP_SIZES),
        sampler=_sampler(engine, moved_bytes_per_s),
        host=_host(engine, gpu, moved_bytes_per_s),
        notes=tuple(notes),
    )


def textbook_calibration(gpu: Gpu) -> Calibration:
    """The textbook roofline: every share 1, the larger of memory and compute time, no overheads, no latency.

    Weights of a format without arithmetic of its own are widened at no cost. Label "assumed".
    """
    dtype_16 = _math_16(gpu)
    operators = [
        _textbook_fit(gpu, operator, weights=served.weights, math=served.math)
        for served in _served_formats(gpu, dtype_16)
        for operator in _MATRIX_OPERATORS
    ]
    operators += [_textbook_fit(gpu, operator, weights="any", math=dtype_16) for operator in _ATTENTION]
    operators.append(_textbook_fit(gpu, "elementwise", weights="any", math=_vector_math(gpu, dtype_16)))
    return Calibration(
        name=f"textbook {gpu.name}",
        label="assumed",
        machine=Machine(device=gpu.name),
        created=CREATED,
        sources=(gpu.source,),
        operators=tuple(operators),
        collectives=tuple(
            CollectiveFit(gpus=gpus, latency_s=0.0, bytes_per_s=gpu.link_bytes_per_s) for gpus in GROUP_SIZES
        ),
        notes=("textbook roofline: every efficiency 1, no overheads",),
    )


def _math_16(gpu: Gpu) -> DType:
    for dtype in FORMATS_16:
        if dtype in gpu.peak_flops_per_s:
            return dtype
    raise InvalidInput(
        f"GPU {gpu.name!r}: peak_flops_per_s must have bf16 or fp16, got {sorted(gpu.peak_flops_per_s)}; "
        "add the dense rate"
    )


def _vector_math(gpu: Gpu, dtype_16: DType) -> DType:
    return "fp32" if "fp32" in gpu.peak_flops_per_s else dtype_16


def _served_formats(gpu: Gpu, dtype_16: DType) -> Iterator[_ServedFormat]:
    """Every weight format the GPU can serve, with the arithmetic it runs in."""
    peaks = gpu.peak_flops_per_s
    if "fp32" in peaks:
        yield _ServedFormat("fp32", "32", "fp32")
    for weights in FORMATS_16:
        native = weights in peaks
        note = "" if native else f"{weights} weights are served as {dtype_16}: {gpu.name} has no arithmetic for them"
        yield _ServedFormat(weights, "16", weights if native else dtype_16, note)
    for weights in FORMATS_WIDENED:
        yield _ServedFormat(weights, "dequantised", dtype_16)
    widened = f"weights are widened to {dtype_16}: {gpu.name} has no arithmetic for them"
    eight_bit: tuple[Literal["fp8", "int8"], ...] = ("fp8", "int8")
    for weights in eight_bit:
        if weights in peaks:
            yield _ServedFormat(weights, "8", weights)
        else:
            yield _ServedFormat(weights, "dequantised", dtype_16, f"{weights} {widened}")
    if "fp4" in peaks:
        yield _ServedFormat("nvfp4", "4", "fp4")
        yield _ServedFormat("mxfp4", "4", "fp8" if "fp8" in peaks else "fp4")
    else:
        yield _ServedFormat("nvfp4", "dequantised", dtype_16, f"nvfp4 {widened}")
        yield _ServedFormat("mxfp4", "dequantised", dtype_16, f"mxfp4 {widened}")


def _family(kind: Literal["gemm", "moe"], width: _Width) -> KernelFamily:
    """Kernel family of a matrix product; experts in 32 bits reach the shares of experts in 16."""
    families: dict[tuple[str, str], KernelFamily] = {
        ("gemm", "32"): "gemm_32",
        ("gemm", "16"): "gemm_16",
        ("gemm", "8"): "gemm_8",
        ("gemm", "4"): "gemm_4",
        ("gemm", "dequantised"): "gemm_dequantised",
        ("moe", "32"): "moe_16",
        ("moe", "16"): "moe_16",
        ("moe", "8"): "moe_8",
        ("moe", "4"): "moe_4",
        ("moe", "dequantised"): "moe_dequantised",
    }
    return families[kind, width]


def _fit(constants: KernelConstants, gpu: Gpu, *, operator: OperatorClass, weights: str, math: DType) -> OperatorFit:
    return OperatorFit(
        operator=operator,
        weights=weights,
        overhead_s=constants.overhead_s.value,
        bytes_per_s=constants.bandwidth_fraction.value * gpu.hbm_bytes_per_s,
        flops_per_s=constants.compute_fraction.value * gpu.peak_flops_per_s[math],
        p_norm=constants.p_norm.value,
    )


def _textbook_fit(gpu: Gpu, operator: OperatorClass, *, weights: str, math: DType) -> OperatorFit:
    return OperatorFit(
        operator=operator,
        weights=weights,
        bytes_per_s=gpu.hbm_bytes_per_s,
        flops_per_s=gpu.peak_flops_per_s[math],
    )


def _sampler(engine: EngineProfile, bytes_per_s: float) -> SamplerFit:
    constants = engine.sampler
    return SamplerFit(
        plain_base_s=constants.plain_base_s.value,
        plain_per_sequence_s=constants.per_sequence_s.value,
        plain_per_logit_s=constants.plain_bytes_per_logit.value / bytes_per_s,
        draft_base_s=constants.draft_base_s.value,
        draft_per_sequence_s=constants.per_sequence_s.value,
        draft_per_logit_s=constants.draft_bytes_per_logit.value / bytes_per_s,
        verify_base_s=constants.verify_base_s.value,
        verify_per_sequence_s=constants.per_sequence_s.value,
        verify_per_logit_s=constants.verify_bytes_per_logit.value / bytes_per_s,
    )


def _host(engine: EngineProfile, gpu: Gpu, bytes_per_s: float) -> HostFit:
    """The engine's host times. The rate of copies to the host is that of a bus: without one, a copy reads and writes
    the memory that host and GPU share.
    """
    host = HostFit(**{name: constant.value for name, constant in engine.host.declared().items()})
    if gpu.link != "none":
        return host
    return host.model_copy(update={"checkpoint_s_per_byte": min(host.checkpoint_s_per_byte, 2.0 / bytes_per_s)})


def _sources(gpu: Gpu, engine: EngineProfile, rows: "_Rows") -> tuple[Source, ...]:
    """Sources of the GPU row, the kernel rows used and the engine's constants, each once."""
    found = [gpu.source, engine.source, rows.kernel("gemm_16").bandwidth_fraction.source]
    found += [constant.source for constant in engine.host.declared().values()]
    return tuple(dict.fromkeys(found))


class _Rows:
    """Picks the rows of a GPU: the engine's own first, then the longest architecture prefix, then `any`."""

    def __init__(self, gpu: Gpu, engine: EngineProfile) -> None:
        self._gpu = gpu
        self._engine = engine

    def kernel(self, family: KernelFamily) -> KernelConstants:
        own = _best(self._gpu.architecture, [row for row in self._engine.kernels if row.family == family])
        return own or _required(
            _best(self._gpu.architecture, [row for row in kernel_constants() if row.family == family])
        )

    def collective(self, gpus: int) -> CollectiveFit:
        if gpus == 1:
            return CollectiveFit(gpus=1, latency_s=0.0, bytes_per_s=self._gpu.link_bytes_per_s)
        candidates = [row for row in collective_constants() if row.gpus == gpus]
        row = _required(_best(self._gpu.architecture, candidates))
        return CollectiveFit(
            gpus=gpus,
            latency_s=row.latency_s.value,
            bytes_per_s=row.link_fraction.value * self._gpu.link_bytes_per_s,
        )


def _best(architecture: str, rows: list[_Constants]) -> _Constants | None:
    matching = [row for row in rows if row.architecture == "any" or architecture.startswith(row.architecture)]
    return max(matching, key=lambda row: 0 if row.architecture == "any" else len(row.architecture), default=None)


def _required(row: _Constants | None) -> _Constants:
    assert row is not None, "kernels.toml has an `any` row for every family and group size"
    return row
