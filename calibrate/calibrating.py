"""A run's folder -> `calibration.json`: the fit with its provenance, domain, residuals and verdict."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from calibrate.constants import host_of, operators_of
from calibrate.fit import Fitted, fit_constants, forms_for, observed_components
from calibrate.jobs import other_contexts
from calibrate.measurements import Row, read_rows, read_run_record, rows_hash
from calibrate.predict import Setting, launches_of
from calibrate.presets import PRESETS
from calibrate.samples import JobSamples, collect, repetitions, spread_fraction, typical_s
from calibrate.writing import write_text_at_once
from roofline.calibration import Calibration, Domain, Machine, OperatorFit, Residual, Verdict
from roofline.counts import weight_bytes
from roofline.errors import InvalidInput

CALIBRATION_FILE = "calibration.json"
FEWEST_REPETITIONS = 9
LARGEST_NOISE_FRACTION = 0.06
NOTES = (
    "attention of prefill chunks was not measured; it takes the constants of decode and verification",
    "end-to-end rounds were not read by the fit",
)


def setting_of(record: dict[str, Any]) -> Setting:
    """Shapes, format and context of a run record."""
    name = record["preset"]
    if name not in PRESETS:
        raise InvalidInput(f"preset must be one of {sorted(PRESETS)}, got {name!r}; measure again with one of them")
    return Setting(PRESETS[name], record["dtype"], int(record["context_tokens"]))


def calibrate_folder(folder: Path, *, today: Callable[[], date] = date.today) -> Calibration:
    """Fit the rows of a run; depends on the rows as a set, not on their order."""
    record, rows = read_run_record(folder), read_rows(folder)
    return calibrate_rows(rows, record, today=today())


def calibrate_rows(rows: list[Row], record: dict[str, Any], *, today: date) -> Calibration:
    """`Calibration` of a run's rows and record."""
    setting = setting_of(record)
    samples = collect(rows)
    observed = observed_components(samples, setting)
    cache_bytes = float(weight_bytes(setting.model("draft"))) if record["device"] == "cpu" else 0.0
    fitted = fit_constants(observed, forms_for(record["device"], setting.dtype, cache_bytes=cache_bytes))
    environment = record.get("environment", {})
    device = environment.get("gpu") or environment.get("cpu") or record["device"]
    return Calibration(
        name=f"{record['preset']} {setting.dtype} on {device}",
        label="calibrated",
        machine=Machine(
            device=str(device),
            host=str(environment.get("host_id", "")),
            engine="specdec calibrate engine" + (", one thread" if record["device"] == "cpu" else ", CUDA graphs"),
            versions=environment.get("versions", {}),
        ),
        created=today,
        rows_sha256=rows_hash(rows),
        operators=_with_errors(fitted, setting),
        host=host_of(fitted.values).model_copy(update={"launch_s": launch_s(samples, setting)}),
        sampler=fitted.sampler,
        domain=domain_of(setting),
        residuals=residuals_of(fitted),
        verdict=component_verdict(rows, samples),
        standard_errors={**fitted.standard_errors, **{f"sampler_{k}": v for k, v in fitted.sampler_errors.items()}},
        notes=NOTES,
    )


def launch_s(samples: JobSamples, setting: Setting) -> float:
    """Host time of one launch, from a launch-bound pass without a graph; 0 where none was timed (CPU)."""
    times = [
        typical_s(samples, job) / launches_of(setting.model(job.model))
        for job in samples.jobs()
        if job.kind == "eager_forward"
    ]
    return float(np.median(times)) if times else 0.0


def domain_of(setting: Setting) -> Domain:
    """What was measured: rows of a pass, batch, K, contexts from a quarter to twice the main one."""
    preset = setting.preset
    return Domain(
        tokens=(1, max(preset.batches) * (max(preset.draft_tokens) + 1)),
        batch=(min(preset.batches), max(preset.batches)),
        context_tokens=other_contexts(setting.context_tokens),
        draft_tokens=(0, max(preset.draft_tokens)),
    )


def residuals_of(fitted: Fitted) -> tuple[Residual, ...]:
    """What the constants leave of each kind of component."""
    groups: dict[str, list[float]] = {}
    for job, value in fitted.residual_fractions.items():
        groups.setdefault(f"{job.kind} {job.model}", []).append(abs(value))
    return tuple(
        Residual(
            group=group,
            rows=len(values),
            median_abs_error_fraction=float(np.median(values)),
            p90_abs_error_fraction=float(np.quantile(values, 0.9)),
        )
        for group, values in sorted(groups.items())
    )


def component_verdict(rows: list[Row], samples: JobSamples) -> Verdict:
    """Stable when repeated enough and when the halves of the run agree."""
    noise = float(np.median([spread_fraction(samples, job) for job in samples.jobs()]))
    return verdict_of(repetitions(rows), noise, what="component times")


def verdict_of(repeated: int, noise_fraction: float, *, what: str) -> Verdict:
    """The rules of stability, with what to do."""
    reasons: list[str] = []
    if repeated < FEWEST_REPETITIONS:
        reasons.append(
            f"only {repeated} repetitions fitted into the budget, {FEWEST_REPETITIONS} are needed; "
            "raise --budget or choose a smaller preset"
        )
    if noise_fraction > LARGEST_NOISE_FRACTION:
        reasons.append(
            f"even and odd repetitions disagree on {what} by {noise_fraction:.1%} in the median, "
            f"{LARGEST_NOISE_FRACTION:.0%} is allowed; stop other work on this machine or raise --budget"
        )
    return Verdict(stable=not reasons, reasons=tuple(reasons))


def write_calibration(calibration: Calibration, folder: Path) -> Path:
    """Write `calibration.json`."""
    path = folder / CALIBRATION_FILE
    write_text_at_once(path, calibration.model_dump_json(indent=2) + "\n")
    return path


def _with_errors(fitted: Fitted, setting: Setting) -> tuple[OperatorFit, ...]:
    prefixes = {"gemm": "gemm_", "lm_head": "lm_head_", "attention_decode": "attention_", "elementwise": "elementwise_"}
    operators: list[OperatorFit] = []
    for operator in operators_of(fitted.values, fitted.form, dtype=setting.dtype):
        prefix = prefixes.get(operator.operator, "?")
        errors = {
            name.removeprefix(prefix): value
            for name, value in fitted.standard_errors.items()
            if name.startswith(prefix)
        }
        operators.append(operator.model_copy(update={"standard_errors": errors}))
    return tuple(operators)
