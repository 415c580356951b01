"""Loads in parallel: one process per core, the same results whatever their number."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from scenarios.build import Service
from scenarios.loads import LoadPoint
from scenarios.questions.advice import Advice
from scenarios.questions.load_run import LoadOutcome, run_load

Progress = Callable[[int, int], None]
_KEPT: list[tuple[Service, Advice | None]] = []


def available_workers() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def say_nothing(done: int, total: int) -> None:
    """Progress nobody watches."""


def run_loads(
    service: Service,
    points: Sequence[LoadPoint],
    *,
    advice: Advice | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> tuple[LoadOutcome, ...]:
    """Outcomes in the order of `points`. `progress(done, total)` is called after each."""
    told = progress or say_nothing
    told(0, len(points))
    workers = min(workers, len(points))
    if workers <= 1:
        outcomes: list[LoadOutcome] = []
        for point in points:
            outcomes.append(run_load(service, point, advice))
            told(len(outcomes), len(points))
        return tuple(outcomes)
    found: dict[int, LoadOutcome] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_keep, initargs=(service, advice)) as pool:
        futures = {pool.submit(_run_kept, point): point for point in reversed(points)}
        try:
            for future in as_completed(futures):
                found[futures[future].index] = future.result()
                told(len(found), len(points))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(found[point.index] for point in points)


def leave_interrupts() -> None:
    """In a worker: Ctrl-C is the parent's business, which cancels what waits; no worker prints a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _keep(service: Service, advice: Advice | None) -> None:
    leave_interrupts()
    _KEPT[:] = [(service, advice)]


def _run_kept(point: LoadPoint) -> LoadOutcome:
    service, advice = _KEPT[0]
    return run_load(service, point, advice)
