"""Predicted beside measured: every (batch, K) cell, and what would be decided from either."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrate.jobs import Job
from calibrate.predict import Setting, cost_table, predict_s, round_of
from calibrate.samples import JobSamples, typical_s
from roofline.calibration import Calibration
from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
ALPHAS: FloatArray = np.round(np.arange(0.30, 0.951, 0.05), 2)
"""Acceptance per draft over which decisions are judged; the time of a round does not depend on it."""


SHOWN_ALPHA = 0.8
"""Acceptance at which tables and figures show speed-ups; it moves all of a K's alike."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One (batch, K).

    Attributes
    ----------
    measured_ratio, predicted_ratio, textbook_ratio
        R: round over plain step. S = AL / R, so relative errors of S do not depend on acceptance.
    noise_fraction
        Disagreement of the measured R between even and odd repetitions.
    """

    batch: int
    draft_tokens: int
    plain_s: float
    round_s: float
    predicted_plain_s: float
    predicted_round_s: float
    measured_ratio: float
    predicted_ratio: float
    textbook_ratio: float
    noise_fraction: float

    @property
    def error_fraction(self) -> float:
        """Predicted S over measured S, minus one."""
        return self.measured_ratio / self.predicted_ratio - 1.0

    @property
    def textbook_error_fraction(self) -> float:
        """The same for the textbook formula."""
        return self.measured_ratio / self.textbook_ratio - 1.0


@dataclass(frozen=True, slots=True)
class Decisions:
    """What choosing by prediction costs, over batches and acceptances.

    `crossover_error_fraction` is the median over (K, alpha) whose speed-up crosses one inside the batches, both
    predicted and measured; `crossovers` says how many.
    """

    regret_mean: float
    regret_p90: float
    regret_max: float
    right_side_share: float
    judged: int
    crossover_error_fraction: float | None
    crossover_steps_off: int
    crossovers: int


def acceptance_length(alpha: float, draft_tokens: int) -> float:
    """Tokens per round with the same conditional acceptance at every position, bonus included."""
    return float(np.sum(alpha ** np.arange(draft_tokens + 1)))


def cells_of(samples: JobSamples, calibration: Calibration, *, setting: Setting) -> list[Cell]:
    """Every cell whose plain step and round were measured."""
    table = cost_table(calibration, setting)
    found: list[Cell] = []
    plain_of = {job.batch: job for job in samples.jobs() if job.kind == "plain_step"}
    rounds = [job for job in samples.jobs() if job.kind == "round" and job.batch in plain_of]
    if not rounds:
        raise InvalidInput("the rows hold no end-to-end round; measure longer, at least one whole repetition")
    for job in sorted(rounds, key=lambda job: (job.batch, job.draft_tokens)):
        plain = plain_of[job.batch]
        cost = round_of(table, job)
        plain_s, round_s = typical_s(samples, plain), typical_s(samples, job)
        halves = [
            typical_s(samples, job, parity=parity) / typical_s(samples, plain, parity=parity) for parity in (0, 1)
        ]
        found.append(
            Cell(
                batch=job.batch,
                draft_tokens=job.draft_tokens,
                plain_s=plain_s,
                round_s=round_s,
                predicted_plain_s=cost.plain_s,
                predicted_round_s=cost.round_s,
                measured_ratio=round_s / plain_s,
                predicted_ratio=cost.ratio,
                textbook_ratio=1.0 + job.draft_tokens * _draft_share(calibration, setting, job, cost.plain_s),
                noise_fraction=abs(halves[0] / halves[1] - 1.0),
            )
        )
    return found


def _draft_share(calibration: Calibration, setting: Setting, job: Job, plain_s: float) -> float:
    """c(B) of the textbook formula S = AL / (1 + K c): one warm draft pass over one plain step; verifying is free."""
    draft = Job("forward", "draft", job.batch, 1, job.context_tokens)
    choose = Job("sample_draft", "draft", job.batch, 1, 0)
    return float(predict_s(calibration, setting, jobs=[draft, choose]).sum()) / plain_s


def decide_by(cells: list[Cell]) -> Decisions:
    """Regret of the chosen K (none included), share of right sides, crossover batches."""
    by_batch: dict[int, list[Cell]] = {}
    for cell in cells:
        by_batch.setdefault(cell.batch, []).append(cell)
    regrets: list[float] = []
    right: list[bool] = []
    for members in by_batch.values():
        for alpha in ALPHAS:
            lengths = np.array([acceptance_length(alpha, cell.draft_tokens) for cell in members])
            measured = lengths / [cell.measured_ratio for cell in members]
            predicted = lengths / [cell.predicted_ratio for cell in members]
            right += list((measured > 1.0) == (predicted > 1.0))
            measured, predicted = np.append(measured, 1.0), np.append(predicted, 1.0)
            regrets.append(float(1.0 - measured[int(predicted.argmax())] / measured.max()))
    errors, steps = _crossover_errors(cells)
    return Decisions(
        regret_mean=float(np.mean(regrets)),
        regret_p90=float(np.quantile(regrets, 0.9)),
        regret_max=float(np.max(regrets)),
        right_side_share=float(np.mean(right)),
        judged=len(right),
        crossover_error_fraction=float(np.median(errors)) if errors else None,
        crossover_steps_off=max(steps, default=0),
        crossovers=len(errors),
    )


def _crossover_errors(cells: list[Cell]) -> tuple[list[float], list[int]]:
    """Relative error of the crossover batch, and how many measured batches lie between the two."""
    batches = sorted({cell.batch for cell in cells})
    errors: list[float] = []
    steps: list[int] = []
    for drafts in sorted({cell.draft_tokens for cell in cells}):
        row = {cell.batch: cell for cell in cells if cell.draft_tokens == drafts}
        if len(row) < len(batches):
            continue
        for alpha in ALPHAS:
            length = acceptance_length(float(alpha), drafts)
            measured = crossover_batch(batches, [length / row[batch].measured_ratio for batch in batches])
            predicted = crossover_batch(batches, [length / row[batch].predicted_ratio for batch in batches])
            if measured is not None and predicted is not None:
                errors.append(abs(predicted / measured - 1.0))
                steps.append(abs(int(np.searchsorted(batches, measured)) - int(np.searchsorted(batches, predicted))))
    return errors, steps


def crossover_batch(batches: list[int], speedups: list[float]) -> float | None:
    """Batch at which the speed-up first falls below one, interpolated in log batch; None where it does not."""
    for low in range(len(batches) - 1):
        above, below = speedups[low], speedups[low + 1]
        if above >= 1.0 > below:
            share = (above - 1.0) / (above - below)
            return float(np.exp(np.interp(share, [0.0, 1.0], np.log([batches[low], batches[low + 1]]))))
    return None
