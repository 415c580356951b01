"""From samples to one number per job: corrected for the neighbours, robust, with the disagreement of its halves."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrate.jobs import Job
from calibrate.measurements import Row

FloatArray = NDArray[np.float64]
ClockName = Literal["busy", "wall"]
REFERENCE_QUANTILE = 0.5
"""The machine is described as it typically was: with the reference kernel at its median over the run. There the
correction is smallest, and an exponent estimated too low, as from noisy references, shifts no kind of job."""
CLIPPED_LOG_SPAN = 0.8
"""Excess of the reference kernel, in logarithms, beyond which it says no more about the sample between its two runs."""


@dataclass(frozen=True, slots=True)
class JobSamples:
    """All samples of a run by job, in order of repetition, corrected for what the neighbours did meanwhile.

    Every sample has a fixed reference kernel right before and right after it. Within each job, times follow the
    reference kernel with an exponent estimated per kind of job over the whole run; it brings all samples to the
    reference level. Component and end-to-end jobs are treated alike, and neither is told about the other.
    """

    seconds: dict[Job, FloatArray]
    repetition: dict[Job, NDArray[np.int64]]
    exponents: dict[str, float]

    def jobs(self) -> list[Job]:
        """Jobs in an order that does not depend on that of the rows."""
        return sorted(self.seconds, key=lambda job: job.key)


def collect(rows: list[Row], clock: ClockName = "busy") -> JobSamples:
    """Group rows by job and correct them to the reference level."""
    reference_s = float(np.quantile([row.probe_s for row in rows], REFERENCE_QUANTILE))
    by_job: dict[Job, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.job.key, row.repetition)):
        by_job.setdefault(row.job, []).append(row)
    logs = {job: np.log([_time_s(row, clock) for row in some]) for job, some in by_job.items()}
    excess = {
        job: np.clip(np.log([row.probe_s / reference_s for row in some]), -CLIPPED_LOG_SPAN, CLIPPED_LOG_SPAN)
        for job, some in by_job.items()
    }
    exponents = _exponents(logs, excess)
    return JobSamples(
        seconds={job: np.exp(logs[job] - exponents[job.kind] * excess[job]) for job in by_job},
        repetition={job: np.array([row.repetition for row in some]) for job, some in by_job.items()},
        exponents=exponents,
    )


def typical_s(samples: JobSamples, job: Job, *, parity: int | None = None) -> float:
    """Mean of the middle half of a job's corrected samples, of even (0) or odd (1) repetitions only where asked."""
    values = samples.seconds[job]
    if parity is not None:
        half = values[samples.repetition[job] % 2 == parity]
        values = half if len(half) else values
    ordered = np.sort(values)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def spread_fraction(samples: JobSamples, job: Job) -> float:
    """How far the even and the odd repetitions of a job disagree, relative to their mean."""
    even, odd = typical_s(samples, job, parity=0), typical_s(samples, job, parity=1)
    return 2.0 * abs(even - odd) / (even + odd)


def repetitions(rows: list[Row]) -> int:
    """How often the job with the fewest samples was timed."""
    counts: dict[Job, int] = {}
    for row in rows:
        counts[row.job] = counts.get(row.job, 0) + 1
    return min(counts.values())


def clean_fraction(rows: list[Row]) -> float:
    """Share of samples during which the scheduler never took the processor from the measuring thread."""
    return float(np.mean([row.involuntary_switches == 0 for row in rows]))


def _exponents(logs: dict[Job, FloatArray], excess: dict[Job, FloatArray]) -> dict[str, float]:
    """Per kind: slope of log time on log reference time, from deviations within jobs; between 0 and 1.5."""
    products: dict[str, float] = {}
    squares: dict[str, float] = {}
    for job, values in logs.items():
        deviation = excess[job] - excess[job].mean()
        products[job.kind] = products.get(job.kind, 0.0) + float(deviation @ (values - values.mean()))
        squares[job.kind] = squares.get(job.kind, 0.0) + float(deviation @ deviation)
    return {
        kind: float(np.clip(products[kind] / squares[kind], 0.0, 1.5)) if squares[kind] > 1e-12 else 0.0
        for kind in products
    }


def _time_s(row: Row, clock: ClockName) -> float:
    return row.busy_s if clock == "busy" else row.wall_s
