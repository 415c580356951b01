"""The plan: every deployment on its own, in parallel; ranked; the best one looked at closer."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from roofline.catalog import gpu
from roofline.errors import InvalidInput
from scenarios.build import build_service
from scenarios.files import looks_like_path
from scenarios.loads import kinds, read_scenario_trace
from scenarios.plan.answer import Plan, PlanRow
from scenarios.plan.best import about_best, settled_row
from scenarios.plan.load import planned_point, planned_prefixes, planned_requests
from scenarios.plan.money import cost_of
from scenarios.plan.question import Choice, PlanOptions, RouterName, choices
from scenarios.plan.rows import rows_of
from scenarios.questions.assumptions import Assumption, assumptions_of
from scenarios.questions.decide import package_version
from scenarios.questions.pool import Progress, leave_interrupts, say_nothing
from scenarios.schema import Scenario

Found = TypeVar("Found")

SETTLED_ROWS = 8
"""Rows of the first ranking, by one seed, whose counts are settled on more."""

_ROUTING: dict[RouterName, str] = {
    "least_outstanding": "requests go to the replica with the fewest outstanding, at once and for nothing",
    "round_robin": "requests go to the replicas in turn, at once and for nothing",
    "prefix_aware": "requests go to the replica with most of their prompt cached, else to the one with the fewest "
    "outstanding, at once and for nothing",
}


def plan(
    scenario: Scenario, options: PlanOptions | None = None, *, workers: int = 1, progress: Progress | None = None
) -> Plan:
    """Replicas for the scenario's load and objectives, by deployment and mode.

    `workers` above 1 starts processes (a script must then guard its entry); the result does not depend on it.

    Raises
    ------
    InvalidInput
        No objective, no rate, a closed loop, or a field that is wrong whatever the deployment.
    """
    options = options or PlanOptions()
    asked = choices(scenario, options)
    _check(scenario, options, asked)
    trace = read_scenario_trace(scenario)
    point = planned_point(scenario, trace, options.at)
    if options.caches_by_replica:
        planned_prefixes(scenario, trace, 0)
    told = progress or say_nothing
    told(0, len(asked) + 1)
    with _Workers(workers, len(asked)) as crew:
        by_choice = crew.run(rows_of, [(scenario, choice, options) for choice in asked], told)
        ranked = _ranked(scenario, [row for rows in by_choice for row in rows], options, crew=crew)
    best = about_best(scenario, ranked[0], options) if ranked[0].count is not None else None
    told(len(asked) + 1, len(asked) + 1)
    scaled = best.scaled if best is not None else None
    return Plan(
        scenario=scenario,
        options=options,
        load_per_s=point.value,
        requests=len(planned_requests(scenario, point, trace=trace, seed=0)),
        rows=tuple(ranked),
        costs=tuple(cost_of(row, options, scaled if index == 0 else None) for index, row in enumerate(ranked)),
        best=best,
        assumptions=_assumptions(scenario, ranked, options),
        version=package_version(),
    )


def _check(scenario: Scenario, options: PlanOptions, asked: Sequence[Choice]) -> None:
    """What is wrong whatever the deployment, before anything is simulated."""
    if not scenario.slo and not any(kind.slo for kind in kinds(scenario.workload)):
        raise InvalidInput("a plan needs objectives; give e.g. --slo ttft_p95=1s --slo tpot_p95=40ms")
    names = sorted({choice.gpu for choice in asked})
    for name in names:
        if not looks_like_path(name):
            gpu(name)
    priced = [name for name, _ in options.prices]
    if priced and set(names) - set(priced):
        raise InvalidInput(
            f"prices are given for {', '.join(priced)} but not for {', '.join(sorted(set(names) - set(priced)))}; "
            "price every GPU that is compared, or none"
        )
    for name in sorted(set(priced) - set(names)):
        raise InvalidInput(f"a price is given for {name}, which is not compared; the GPUs are {', '.join(names)}")


class _Workers:
    """Processes that stay for the whole plan, or none: the same results in the same order."""

    def __init__(self, workers: int, tasks: int) -> None:
        context = multiprocessing.get_context("spawn")
        count = min(workers, tasks)
        self._pool = ProcessPoolExecutor(count, mp_context=context, initializer=leave_interrupts) if count > 1 else None

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def run(self, function: Callable[..., Found], given: Sequence[tuple[Any, ...]], progress: Progress) -> list[Found]:
        """`function` of every tuple of arguments; `progress` is told after each, with one more to come."""
        found: dict[int, Found] = {}
        if self._pool is None:
            for index, arguments in enumerate(given):
                found[index] = function(*arguments)
                progress(len(found), len(given) + 1)
        else:
            futures = {self._pool.submit(function, *arguments): index for index, arguments in enumerate(given)}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                progress(len(found), len(given) + 1)
        return [found[index] for index in range(len(given))]


def _ranked(scenario: Scenario, rows: list[PlanRow], options: PlanOptions, *, crew: _Workers) -> list[PlanRow]:
    """Best first. The first rows are settled on more seeds, and the first of all has to stay first after that."""
    ranked = sorted(rows, key=lambda row: _rank(row, options))
    settled: set[tuple[Choice, str]] = set()
    doubtful = [row for row in ranked[:SETTLED_ROWS] if row.count is not None]
    while doubtful:
        settled |= {(row.choice, row.mode) for row in doubtful}
        better = crew.run(settled_row, [(scenario, row, options) for row in doubtful], say_nothing)
        known = {(row.choice, row.mode): row for row in better}
        ranked = [known.get((row.choice, row.mode), row) for row in ranked]
        ranked.sort(key=lambda row: _rank(row, options))
        doubtful = [row for row in ranked[:1] if row.count is not None and (row.choice, row.mode) not in settled]
    return ranked


def _rank(row: PlanRow, options: PlanOptions) -> tuple[float, ...]:
    """Cheapest first where prices are given, else fewest GPUs; then fewer GPUs, then the faster tokens."""
    if row.count is None or row.gpus is None:
        return (math.inf, math.inf, math.inf)
    price = options.price(row.choice.gpu)
    per_gpu_hour = price.per_gpu_hour or price.reserved_per_gpu_hour or 1.0
    return (row.gpus * per_gpu_hour, float(row.gpus), -row.count.user_tokens_per_s)


def _assumptions(scenario: Scenario, ranked: Sequence[PlanRow], options: PlanOptions) -> tuple[Assumption, ...]:
    """What the rows rest on: that of the best one, and the machines of the others."""
    shown: dict[str, Assumption] = {}
    for row in ranked:
        if row.floors and row.choice.gpu not in [text.split(":")[0] for text in shown]:
            service = build_service(row.choice.applied_to(scenario))
            cases = service.cases if any(each.mode != "off" for each in ranked) else ()
            for each in assumptions_of(service, cases=cases[len(cases) // 2 : len(cases) // 2 + 1]):
                shown.setdefault(each.text, each)
    return (*shown.values(), Assumption("assumed", _ROUTING[options.router]))
