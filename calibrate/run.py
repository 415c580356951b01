"""Measuring within a budget: one shuffled list per repetition, rows on disk at once, resumed after any end."""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from calibrate.jobs import LOOP_DRAFT_TOKENS, Job, component_jobs, eager_jobs, end_to_end_jobs, loop_jobs
from calibrate.measurements import RUN_FILE, Row, RowWriter, read_rows, read_run_record, write_run_record
from calibrate.presets import Preset
from calibrate.shapes import EngineDType
from calibrate.timing import Sample
from calibrate.writing import make_folder
from roofline.errors import InvalidInput

ENOUGH_REPETITIONS = 9
WARM_UP = -1


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What to measure, for how long.

    `loops` times continuous loops with steered acceptance in place of the rounds of most K; they say how well the
    simulator does and are not fitted.
    """

    preset: Preset
    dtype: EngineDType
    device: str
    context_tokens: int
    budget_s: float
    seed: int = 0
    loops: bool = False

    def jobs(self) -> list[Job]:
        """The whole list, unshuffled."""
        components = component_jobs(self.preset, self.context_tokens)
        if self.device == "cuda":
            components += eager_jobs(self.context_tokens)
        rounds = end_to_end_jobs(self.preset, self.context_tokens)
        if not self.loops:
            return components + rounds
        kept = [job for job in rounds if job.draft_tokens in (0, *LOOP_DRAFT_TOKENS)]
        return components + kept + loop_jobs(self.preset, self.context_tokens)

    def identity(self) -> dict[str, object]:
        """What two sessions of one run must agree on."""
        return {
            "preset": self.preset.name,
            "dtype": self.dtype,
            "device": self.device,
            "context_tokens": self.context_tokens,
            "seed": self.seed,
        }


class Measurer(Protocol):
    """Times jobs; `calibrate.engine.bench.Bench` is the real one."""

    def measure(self, job: Job) -> tuple[Sample, float, int]:
        """One sample, the probe time around it, tokens emitted."""
        ...

    def warm_up(self, job: Job) -> None:
        """Run once untimed."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, for whoever shows it."""

    spent_s: float
    budget_s: float
    repetition: int
    what: str


def order_of(jobs: list[Job], repetition: int, *, seed: int) -> list[Job]:
    """The list as a repetition goes through it; depends on its arguments alone, so a resumed run continues it."""
    order = np.random.default_rng([seed, repetition + 1]).permutation(len(jobs))
    return [jobs[index] for index in order]


def run(
    plan: RunPlan,
    folder: Path,
    *,
    make_measurer: Callable[[], Measurer],
    environment: dict[str, object],
    started_s: float,
    show: Callable[[Progress], None],
) -> None:
    """Measure until the budget is spent, building and warming up included.

    Parameters
    ----------
    started_s
        `time.monotonic()` when the command began; the budget counts from there.

    Raises
    ------
    InvalidInput
        The folder holds a run of something else.
    """
    earlier = _earlier_rows(plan, folder, environment)
    spent_before_s = max((row.elapsed_s for row in earlier), default=0.0)
    done = {(row.job, row.repetition) for row in earlier}

    def spent_s() -> float:
        return spent_before_s + time.monotonic() - started_s

    measurer = make_measurer()
    writer = RowWriter(folder)
    try:
        for job, repetition in _endless_list(plan.jobs(), plan.seed):
            if spent_s() >= plan.budget_s:
                return
            if repetition == WARM_UP:
                show(Progress(spent_s(), plan.budget_s, 0, f"warm-up: {job.key}"))
                measurer.warm_up(job)
            elif (job, repetition) not in done:
                show(Progress(spent_s(), plan.budget_s, repetition, job.key))
                sample, probe_s, emitted = measurer.measure(job)
                surroundings = {"probe_s": probe_s, "elapsed_s": spent_s(), "emitted_tokens": emitted}
                writer.append(Row(job=job, repetition=repetition, **asdict(sample), **surroundings))
    finally:
        writer.close()


def _endless_list(jobs: list[Job], seed: int) -> Iterator[tuple[Job, int]]:
    """All jobs untimed once, then repetition after repetition."""
    for repetition in itertools.count(WARM_UP):
        for job in order_of(jobs, repetition, seed=seed):
            yield job, repetition


def _earlier_rows(plan: RunPlan, folder: Path, environment: dict[str, object]) -> list[Row]:
    """Rows of earlier sessions of the same run; writes the run record where there is none."""
    make_folder(folder)
    if not (folder / RUN_FILE).exists():
        write_run_record(folder, {**plan.identity(), "environment": environment})
        return []
    record = read_run_record(folder)
    for field, value in plan.identity().items():
        if record.get(field) != value:
            raise InvalidInput(
                f"{folder} holds a run with {field} = {record.get(field)!r}, asked for {value!r}; "
                "give another --out, or the same options to continue it"
            )
    try:
        return read_rows(folder)
    except InvalidInput:
        return []
