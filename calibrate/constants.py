"""The unknowns of the fit, and the constants of a `Calibration` that any values of them make."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrate.shapes import ACTIVATION_BYTES, WEIGHT_FORMATS, EngineDType
from roofline.attention import kv_format
from roofline.calibration import HostFit, Knot, OperatorFit, SamplerFit

NEGLIGIBLE_FLOPS_TIME = 1e30
"""A rate so high that its term vanishes: arithmetic of norms and activations is counted with their bytes."""


@dataclass(frozen=True, slots=True)
class Form:
    """Which terms the curve has: choices made before fitting, not fitted.

    Attributes
    ----------
    tile_rows
        Height of the library's tiles; rows are rounded up to it before flops are counted.
    knot_rows
        Rows at which the library is known to change kernels. Each but the last gets one fitted factor; at the last
        the curve is back.
    cache_bytes
        A model no larger keeps its layers cached between its passes and streams at its own bandwidth; 0: none does.
    """

    tile_rows: int = 1
    knot_rows: tuple[int, ...] = ()
    cache_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """One fitted constant: where the search starts, and between which values it stays.

    Rates, exponents and factors are searched in their logarithm. Seconds may be zero and are searched as a share
    of `unit_s`, a time of the data, so that the fit does not depend on the unit of time.
    """

    name: str
    start: float
    low: float
    high: float
    unit_s: float | None = None


RATES = (
    "gemm_bytes_per_s",
    "gemm_flops_per_s",
    "lm_head_bytes_per_s",
    "lm_head_flops_per_s",
    "attention_bytes_per_s",
    "attention_flops_per_s",
    "elementwise_bytes_per_s",
)
OVERHEADS = ("gemm_overhead_s", "layer_overhead_s", "step_s", "draft_pass_s", "cold_draft_s")


def unknowns(form: Form, starts: Mapping[str, float], *, unit_s: float) -> list[Unknown]:
    """All unknowns of a form; `starts` gives the rates, from the data."""
    found = [Unknown(name, starts[name], starts[name] / 300, starts[name] * 300) for name in RATES]
    found.append(Unknown("gemm_p", 1.5, 1.0, 16.0))
    if form.cache_bytes > 0:
        found.append(Unknown("cache_gain", 1.2, 0.2, 30.0))
    found += [Unknown(f"knot_{rows}", 1.0, 0.5, 2.0) for rows in form.knot_rows[:-1]]
    return found + [Unknown(name, 1e-3 * unit_s, 0.0, 3.0 * unit_s, unit_s) for name in OVERHEADS]


def operators_of(values: Mapping[str, float], form: Form, *, dtype: EngineDType) -> tuple[OperatorFit, ...]:
    """Operator constants: layers, LM head, attention of decode and of prefill, what lies between."""
    decode = OperatorFit(
        operator="attention_decode",
        weights=kv_format(8 * ACTIVATION_BYTES[dtype]),
        bytes_per_s=values["attention_bytes_per_s"],
        flops_per_s=values["attention_flops_per_s"],
        p_norm=1.0,
    )
    between = OperatorFit(
        operator="elementwise",
        weights="any",
        bytes_per_s=values["elementwise_bytes_per_s"],
        flops_per_s=NEGLIGIBLE_FLOPS_TIME,
        overhead_s=values["layer_overhead_s"],
        p_norm=1.0,
    )
    prefill = decode.model_copy(update={"operator": "attention_prefill"})
    return *_matrices(values, form, dtype=dtype), decode, prefill, between


def _matrices(values: Mapping[str, float], form: Form, *, dtype: EngineDType) -> tuple[OperatorFit, OperatorFit]:
    """LM head and layers share exponent, tiles and knots: one library multiplies both."""
    shared: dict[str, Any] = {
        "weights": WEIGHT_FORMATS[dtype].name,
        "p_norm": values["gemm_p"],
        "tile_tokens": form.tile_rows,
        "knots": tuple(Knot(rows=rows, factor=values.get(f"knot_{rows}", 1.0)) for rows in form.knot_rows),
    }
    layers = OperatorFit(
        operator="gemm",
        bytes_per_s=values["gemm_bytes_per_s"],
        flops_per_s=values["gemm_flops_per_s"],
        overhead_s=values["gemm_overhead_s"],
        cache_bytes=form.cache_bytes,
        cache_bytes_per_s=values["gemm_bytes_per_s"] * values["cache_gain"] if form.cache_bytes > 0 else None,
        **shared,
    )
    head = OperatorFit(
        operator="lm_head",
        bytes_per_s=values["lm_head_bytes_per_s"],
        flops_per_s=values["lm_head_flops_per_s"],
        **shared,
    )
    return layers, head


def host_of(values: Mapping[str, float]) -> HostFit:
    """Time outside operators."""
    return HostFit(step_s=values["step_s"], draft_pass_s=values["draft_pass_s"], cold_draft_s=values["cold_draft_s"])


def sampler_of(values: Mapping[str, float]) -> SamplerFit:
    """Sampler constants by the names of `SamplerFit`."""
    return SamplerFit(**dict(values))
