"""Closing the loop: the simulator with this machine's calibration against the continuous real loop."""

from dataclasses import dataclass

import numpy as np

from calibrate.cells import crossover_batch
from calibrate.jobs import LOOP_ROUNDS, Job
from calibrate.measurements import Row
from calibrate.predict import DRAFT_WORK, Setting, cost_table
from calibrate.samples import JobSamples, collect, typical_s
from roofline.calibration import Calibration
from roofline.cost import DraftWork
from roofline.step_table import StepCostTable
from simulator.acceptance import Acceptance, IidAcceptance, LengthAcceptance
from simulator.limits import EngineLimits
from simulator.policy import FixedDraft
from simulator.replica import Speculation, simulate
from simulator.workload import make_workload

SEEDS = 8


@dataclass(frozen=True, slots=True)
class EngineDraftModel:
    """The engine's draft model as the simulator's proposer."""

    @property
    def work(self) -> DraftWork:
        """First pass over two tokens a sequence."""
        return DRAFT_WORK

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots."""
        return draft_tokens


@dataclass(frozen=True, slots=True)
class LoopCell:
    """One continuous loop: tokens per second of the whole batch, measured and simulated.

    `acceptance_length` is what the timed rounds really emitted per sequence, and what the simulator was told.
    """

    batch: int
    draft_tokens: int
    alpha: float
    acceptance_length: float
    measured_tokens_per_s: float
    simulated_tokens_per_s: float

    @property
    def error_fraction(self) -> float:
        """Simulated over measured, minus one."""
        return self.simulated_tokens_per_s / self.measured_tokens_per_s - 1.0


@dataclass(frozen=True, slots=True)
class LoopReport:
    """How well the simulator does on loops it was not calibrated on; errors over speculative cells."""

    cells: tuple[LoopCell, ...]
    median_abs_error: float
    p90_abs_error: float
    plain_median_abs_error: float
    crossovers: tuple[tuple[int, float, float | None, float | None], ...]
    most_steps_off: int


def loop_report(rows: list[Row], calibration: Calibration, *, setting: Setting) -> LoopReport:
    """Compare every loop that was measured, plain ones included."""
    samples = collect(rows)
    jobs = [job for job in samples.jobs() if job.kind == "loop"]
    table = cost_table(calibration, setting)
    emitted = {job: float(np.mean([row.emitted_tokens for row in rows if row.job == job])) for job in jobs}
    cells = [_cell(job, samples, table=table, emitted_tokens=emitted[job]) for job in jobs]
    cells.sort(key=lambda cell: (cell.draft_tokens, cell.alpha, cell.batch))
    speculative = [abs(cell.error_fraction) for cell in cells if cell.draft_tokens]
    plain = [abs(cell.error_fraction) for cell in cells if not cell.draft_tokens]
    crossovers = _crossovers(cells)
    batches = sorted({cell.batch for cell in cells})
    return LoopReport(
        cells=tuple(cells),
        median_abs_error=float(np.median(speculative)),
        p90_abs_error=float(np.quantile(speculative, 0.9)),
        plain_median_abs_error=float(np.median(plain)),
        crossovers=tuple(crossovers),
        most_steps_off=max(
            (_steps_apart(batches, measured, simulated) for _, _, measured, simulated in crossovers), default=0
        ),
    )


def _cell(job: Job, samples: JobSamples, *, table: StepCostTable, emitted_tokens: float) -> LoopCell:
    length = emitted_tokens / (LOOP_ROUNDS * job.batch)
    return LoopCell(
        batch=job.batch,
        draft_tokens=job.draft_tokens,
        alpha=job.alpha,
        acceptance_length=length,
        measured_tokens_per_s=emitted_tokens / typical_s(samples, job),
        simulated_tokens_per_s=simulated_tokens_per_s(job, table, acceptance_length=length),
    )


def simulated_tokens_per_s(job: Job, table: StepCostTable, *, acceptance_length: float) -> float:
    """A closed loop of `batch` requests whose prompts are cached, over the rounds the engine was timed on.

    The step that takes the last prompt token is left out: it has no drafts to verify yet.
    """
    acceptance: Acceptance = IidAcceptance(0.0)
    if job.draft_tokens:
        acceptance = LengthAcceptance(acceptance_length, at_draft_tokens=job.draft_tokens)
    workload = make_workload(
        np.zeros(job.batch),
        prompt_tokens=np.full(job.batch, job.context_tokens),
        output_tokens=np.full(job.batch, (LOOP_ROUNDS + 2) * (job.draft_tokens + 1)),
        prefix_hit_fraction=1.0 - 1e-9,
        concurrency=job.batch,
    )
    limits = EngineLimits(max_batched_tokens=table.max_tokens, max_sequences=table.max_sequences, kv_blocks=10**6)
    speculation = Speculation(EngineDraftModel(), FixedDraft(job.draft_tokens), (acceptance,))
    tokens = seconds = 0.0
    for seed in range(SEEDS):
        steps = simulate(
            workload, costs=table, limits=limits, speculation=speculation, seed=seed, trace_steps=True
        ).steps
        assert steps is not None
        rounds = np.flatnonzero(steps.new_tokens == job.rows)[1 - bool(job.draft_tokens) :][:LOOP_ROUNDS]
        tokens += float(steps.emitted_tokens[rounds].sum())
        seconds += float((steps.verify_s + steps.draft_s + steps.host_s)[rounds].sum())
    return tokens / seconds


def _crossovers(cells: list[LoopCell]) -> list[tuple[int, float, float | None, float | None]]:
    """(K, alpha, measured batch, simulated batch) at which speculation stops paying."""
    batches = sorted({cell.batch for cell in cells})
    plain = {cell.batch: cell for cell in cells if cell.draft_tokens == 0}
    found: list[tuple[int, float, float | None, float | None]] = []
    for drafts, alpha in sorted({(cell.draft_tokens, cell.alpha) for cell in cells if cell.draft_tokens}):
        row = {cell.batch: cell for cell in cells if (cell.draft_tokens, cell.alpha) == (drafts, alpha)}
        measured = [row[b].measured_tokens_per_s / plain[b].measured_tokens_per_s for b in batches]
        simulated = [row[b].simulated_tokens_per_s / plain[b].simulated_tokens_per_s for b in batches]
        found.append((drafts, alpha, crossover_batch(batches, measured), crossover_batch(batches, simulated)))
    return found


def _steps_apart(batches: list[int], measured: float | None, simulated: float | None) -> int:
    """Measured batches between two crossovers; none inside the range counts as one beyond its end."""
    places = [
        len(batches) if batch is None else int(np.searchsorted(batches, batch)) for batch in (measured, simulated)
    ]
    return abs(places[0] - places[1])
