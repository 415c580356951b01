"""Rows -> `Calibration`: robust, bounded, in log space, target and draft jointly, end-to-end rows never read.

Equations: `roofline`'s own (see `calibrate.predict`), so a prediction here is what the simulator charges.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares, nnls

from calibrate.constants import Form, Unknown, host_of, operators_of, sampler_of, unknowns
from calibrate.jobs import END_TO_END, Job, work_of
from calibrate.predict import Setting, predict_s
from calibrate.samples import JobSamples, typical_s
from roofline.calibration import Calibration, Machine, SamplerFit
from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
ROBUST_SCALE = 0.05
"""Relative error beyond which a row pulls less than its square (soft L1)."""
SAMPLER_KINDS = {"sample_plain": "plain", "sample_draft": "draft", "verify": "verify"}


@dataclass(frozen=True, slots=True)
class Observed:
    """What the fit reads: one time per component job, and the setting they were taken in."""

    setting: Setting
    jobs: tuple[Job, ...]
    seconds: FloatArray

    def of(self, *kinds: str) -> "Observed":
        """Only jobs of some kinds."""
        keep = [index for index, job in enumerate(self.jobs) if job.kind in kinds]
        return replace(self, jobs=tuple(self.jobs[index] for index in keep), seconds=self.seconds[keep])


@dataclass(frozen=True, slots=True)
class Fitted:
    """Constants with standard errors, the form they belong to, and what is left over."""

    form: Form
    values: dict[str, float]
    standard_errors: dict[str, float]
    sampler: SamplerFit
    sampler_errors: dict[str, float]
    cost: float
    residual_fractions: dict[Job, float]


def observed_components(samples: JobSamples, setting: Setting) -> Observed:
    """Medians of component jobs in an order of their own; end-to-end rows are left out here and nowhere later."""
    jobs = tuple(job for job in samples.jobs() if job.kind not in END_TO_END)
    if not jobs:
        raise InvalidInput(
            "the rows hold no component measurement; run `specdec calibrate run` to the end of its warm-up"
        )
    return Observed(setting, jobs, np.array([typical_s(samples, job) for job in jobs]))


def fit_constants(observed: Observed, forms: tuple[Form, ...]) -> Fitted:
    """The best of the forms: by robust cost, two units of it for every constant (as Akaike); solved to the end."""
    sampler, sampler_errors = fit_sampler(observed)
    passes = observed.of("forward", "cold_forward", "matrices", "lm_head")
    rough = [_fit_form(passes, form, sampler) for form in forms]
    best = min(rough, key=lambda found: found.cost)
    return replace(_fit_form(passes, best.form, sampler, begin=best.values), sampler_errors=sampler_errors)


def forms_for(device: str, dtype: str, *, cache_bytes: float) -> tuple[Form, ...]:
    """Forms worth trying: with and without tiles; kernel changes where the CPU's library is known to have them."""
    if device == "cuda":
        tiles = tuple(Form(tile_rows=tile) for tile in (1, 16, 64, 128))
        return (*tiles, Form(tile_rows=1, knot_rows=(17, 65, 129, 257)))
    if dtype == "bf16":
        return (
            Form(tile_rows=1, cache_bytes=cache_bytes),
            Form(tile_rows=16, knot_rows=(17, 33, 48), cache_bytes=cache_bytes),
        )
    return tuple(Form(tile_rows=tile, cache_bytes=cache_bytes) for tile in (1, 16))


def _fit_form(
    observed: Observed, form: Form, sampler: SamplerFit, *, begin: Mapping[str, float] | None = None
) -> Fitted:
    wanted = unknowns(form, _starting_rates(observed), unit_s=float(np.median(observed.seconds)))
    jobs = list(observed.jobs)

    def residuals(theta: FloatArray) -> FloatArray:
        values = _values(theta, wanted)
        predicted_s = predict_s(
            constants_only(values, form, setting=observed.setting, sampler=sampler), observed.setting, jobs=jobs
        )
        return np.log(predicted_s / observed.seconds)

    solved = _solve(residuals, wanted, begin)
    values = _values(solved.x, wanted)
    left = residuals(solved.x)
    return Fitted(
        form=form,
        values=values,
        standard_errors=_standard_errors(solved, wanted, values, left),
        sampler=sampler,
        sampler_errors={},
        cost=len(jobs) * float(np.log(2 * solved.cost / len(jobs) + 1e-12)) + 2.0 * len(wanted),
        residual_fractions={job: float(np.expm1(value)) for job, value in zip(jobs, left, strict=True)},
    )


def _solve(
    residuals: Callable[[FloatArray], FloatArray], wanted: list[Unknown], begin: Mapping[str, float] | None
) -> OptimizeResult:
    """A quick search from the data's own orders of magnitude, or an exact one from where the quick one ended."""
    first = begin or {unknown.name: unknown.start for unknown in wanted}
    start = np.array([_encode(unknown, first[unknown.name]) for unknown in wanted])
    low = np.array([_encode(unknown, unknown.low) for unknown in wanted])
    high = np.array([_encode(unknown, unknown.high) for unknown in wanted])
    ends: dict[str, Any] = {"xtol": 1e-5, "ftol": 1e-5, "max_nfev": 30}
    if begin is not None:
        ends = {"xtol": 1e-13, "ftol": 1e-15, "gtol": 1e-15, "max_nfev": 150}
    inside = np.clip(start, low + 1e-12, high - 1e-12)
    return least_squares(
        residuals, inside, bounds=(low, high), x_scale="jac", loss="soft_l1", f_scale=ROBUST_SCALE, **ends
    )


def _encode(unknown: Unknown, value: float) -> float:
    return float(np.log(value)) if unknown.unit_s is None else value / unknown.unit_s


def _values(theta: FloatArray, wanted: list[Unknown]) -> dict[str, float]:
    return {
        unknown.name: float(np.exp(x)) if unknown.unit_s is None else float(x) * unknown.unit_s
        for unknown, x in zip(wanted, theta, strict=True)
    }


def _standard_errors(
    solved: OptimizeResult, wanted: list[Unknown], values: Mapping[str, float], left: FloatArray
) -> dict[str, float]:
    """From the curvature at the solution; constants at a bound get the error of their neighbourhood too."""
    freedom = max(1, len(left) - len(wanted))
    variance = float(np.sum(left**2)) / freedom
    covariance = np.linalg.pinv(solved.jac.T @ solved.jac, rcond=1e-12) * variance
    errors = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    return {
        unknown.name: float(error) * (values[unknown.name] if unknown.unit_s is None else unknown.unit_s)
        for unknown, error in zip(wanted, errors, strict=True)
    }


def _starting_rates(observed: Observed) -> dict[str, float]:
    """Orders of magnitude from the smallest and the largest pass of the target."""
    preset, dtype = observed.setting.preset, observed.setting.dtype
    passes = [
        (work_of(job, preset, dtype=dtype), seconds)
        for job, seconds in zip(observed.jobs, observed.seconds, strict=True)
        if job.kind in ("forward", "matrices") and job.model == "target"
    ]
    if not passes:
        raise InvalidInput("the rows hold no pass of the target; measure longer, at least one whole repetition")
    bytes_per_s = max(work.moved_bytes / seconds for work, seconds in passes)
    flops_per_s = 1.5 * max(work.flops / seconds for work, seconds in passes)
    return {
        "gemm_bytes_per_s": bytes_per_s,
        "gemm_flops_per_s": flops_per_s,
        "lm_head_bytes_per_s": bytes_per_s,
        "lm_head_flops_per_s": flops_per_s,
        "attention_bytes_per_s": bytes_per_s,
        "attention_flops_per_s": flops_per_s / 10,
        "elementwise_bytes_per_s": bytes_per_s,
    }


def fit_sampler(observed: Observed) -> tuple[SamplerFit, dict[str, float]]:
    """Base, per sequence and per logit of each sampler; with one row a sequence the last two cannot be told apart."""
    values: dict[str, float] = {}
    errors: dict[str, float] = {}
    for kind, name in SAMPLER_KINDS.items():
        some = observed.of(kind)
        if not some.jobs:
            continue
        vocab = observed.setting.preset.target.vocab
        columns = {
            "base_s": np.ones(len(some.jobs)),
            "per_logit_s": np.array([float(job.rows * vocab) for job in some.jobs]),
        }
        if kind == "verify":
            columns["per_sequence_s"] = np.array([float(job.batch) for job in some.jobs])
        found, error = _fit_shares(np.stack(list(columns.values()), axis=1), some.seconds)
        for column, value, standard_error in zip(columns, found, error, strict=True):
            values[f"{name}_{column}"] = float(value)
            errors[f"{name}_{column}"] = float(standard_error)
    return sampler_of(values), errors


def _fit_shares(columns: FloatArray, seconds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Non-negative x with columns @ x near seconds, relatively and robustly."""
    scaled = columns / seconds[:, None]
    size = np.linalg.norm(scaled, axis=0)
    start = np.maximum(nnls(scaled / size, np.ones(len(seconds)))[0], 1e-9)

    def residuals(x: FloatArray) -> FloatArray:
        return np.log(np.maximum(scaled / size @ x, 1e-12))

    solved = least_squares(
        residuals, start, bounds=(0.0, np.inf), loss="soft_l1", f_scale=ROBUST_SCALE, xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    left = residuals(solved.x)
    variance = float(np.sum(left**2)) / max(1, len(seconds) - columns.shape[1])
    covariance = np.linalg.pinv(solved.jac.T @ solved.jac, rcond=1e-12) * variance
    return solved.x / size, np.sqrt(np.clip(np.diag(covariance), 0.0, None)) / size


def constants_only(values: Mapping[str, float], form: Form, *, setting: Setting, sampler: SamplerFit) -> Calibration:
    """A calibration of constants without provenance, for predictions inside a fit."""
    return Calibration(
        name="fit in progress",
        label="calibrated",
        machine=Machine(device="this machine"),
        created=date(2026, 11, 29),
        operators=operators_of(values, form, dtype=setting.dtype),
        host=host_of(values),
        sampler=sampler,
    )
