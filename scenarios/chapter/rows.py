"""All rows of the chapter, and their computation in a pool of processes: the same rows for any number of workers."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed, wait
from typing import Literal

from roofline.errors import UnknownName
from scenarios.chapter.judging import Row
from scenarios.chapter.l01_entropy import entropy
from scenarios.chapter.l02_closed_forms import closed_forms
from scenarios.chapter.l03_load import load
from scenarios.chapter.l04_questions import three_questions
from scenarios.chapter.l05_expansion import expansion
from scenarios.chapter.l06_dynamic_trees import dynamic_trees
from scenarios.chapter.l07_chunked_prefill import chunked_prefill
from scenarios.chapter.l08_scheduler import scheduler
from scenarios.chapter.l09_quantisation import quantisation
from scenarios.chapter.l10_waterfall import waterfall
from scenarios.chapter.l11_dynamic import dynamic_speculation
from scenarios.chapter.l12_donts import donts
from scenarios.chapter.l13_proposers import proposers
from scenarios.chapter.l14_self_similar import self_similar
from scenarios.chapter.l15_procedure import procedure
from scenarios.chapter.l16_goodput import goodput
from scenarios.chapter.services import DENSE, closed, serve, service
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.pool import Progress, leave_interrupts, say_nothing

ROWS: dict[str, Callable[[int], Row]] = {
    "L1": entropy,
    "L2": closed_forms,
    "L3": load,
    "L4": three_questions,
    "L5": expansion,
    "L6": dynamic_trees,
    "L7": chunked_prefill,
    "L8": scheduler,
    "L9": quantisation,
    "L10": waterfall,
    "L11": dynamic_speculation,
    "L12": donts,
    "L13": proposers,
    "L14": self_similar,
    "L15": procedure,
    "L16": goodput,
}
_LONGEST_FIRST = ("L14", "L12", "L4", "L11", "L3", "L5", "L7", "L2")


def row_names(asked: Sequence[str]) -> tuple[str, ...]:
    """The asked rows in the order of the chapter; all of them where none is asked. `l3` and `3` are L3.

    Raises
    ------
    UnknownName
        No such row.
    """
    names: set[str] = set()
    for text in asked:
        name = f"L{text.upper().removeprefix('L')}"
        if name not in ROWS:
            raise UnknownName(f"row must be one of {', '.join(ROWS)}, got {text!r}; leave it out for all of them")
        names.add(name)
    return tuple(name for name in ROWS if not names or name in names)


def chapter_rows(
    asked: Sequence[str] = (), *, seed: int = 0, workers: int = 1, progress: Progress | None = None
) -> tuple[Row, ...]:
    """Compute rows of the chapter. `progress(done, total)` is called after each.

    Raises
    ------
    UnknownName
        No such row.
    """
    names, told = row_names(asked), progress or say_nothing
    told(0, len(names))
    if min(workers, len(names)) < 2:
        rows: list[Row] = []
        for name in names:
            rows.append(_computed(name, seed))
            told(len(rows), len(names))
        return tuple(rows)
    return _in_a_pool(names, seed=seed, workers=workers, told=told)


def _in_a_pool(names: tuple[str, ...], *, seed: int, workers: int, told: Progress) -> tuple[Row, ...]:
    """Both halves of the step loop are compiled first, side by side, so that no two workers compile the same."""
    found: dict[str, Row] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(names)), mp_context=context, initializer=leave_interrupts) as pool:
        try:
            wait([pool.submit(_compile, arm) for arm in ("off", "on")])
            order = sorted(names, key=lambda name: _LONGEST_FIRST.index(name) if name in _LONGEST_FIRST else len(ROWS))
            futures: dict[Future[Row], str] = {pool.submit(_computed, name, seed): name for name in order}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                told(len(found), len(names))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return tuple(found[name] for name in names)


def _compile(arm: Literal["on", "off"]) -> None:
    made = service(DENSE, 0, workload=closed(1, 1, output_tokens=4))
    serve(made, workload_at(made.scenario, LoadPoint(0, "concurrency", 1.0), trace=None, seed=0), arm=arm)


def _computed(name: str, seed: int) -> Row:
    return ROWS[name](seed)
