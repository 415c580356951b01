"""More about the chosen deployment: headroom, marks, and what an autoscaler makes of it."""

from __future__ import annotations

import math
from dataclasses import replace

from scenarios.plan.answer import Best, CountTried, PlanRow, Scaled
from scenarios.plan.attainment import reached, shares_by_block
from scenarios.plan.counting import Trials
from scenarios.plan.marks import load_marks
from scenarios.plan.modes import engine_of
from scenarios.plan.question import PlanOptions
from scenarios.plan.rows import fewest_for_the_work, planned
from scenarios.schema import Scenario
from simulator.autoscaler import Autoscaler
from simulator.cluster import serve_cluster
from simulator.workload import Workload

SEEDS_OF_BEST = 4
"""Times as many seeds as other rows get at most."""
MOST_HEADROOM = 1.0
HEADROOM_STEPS = 5
TARGET_STEPS = 6


def settled_row(scenario: Scenario, row: PlanRow, options: PlanOptions) -> PlanRow:
    """The row with the smallest count that surely meets every objective, on more seeds."""
    assert row.count is not None
    here = planned(row.choice.applied_to(scenario), options)
    engine = engine_of(here.service, row.mode, here.requests(0))
    trials = replace(here.trials(engine, SEEDS_OF_BEST * options.max_seeds), strict=True)
    count = trials.settled(
        row.count.replicas, fewest_for_the_work(row), options.max_gpus // row.choice.gpus_per_replica
    )
    if count is None:
        return row
    tried = {each.replicas: each for each in row.tried} | trials.tried
    return replace(
        row,
        count=count,
        one_fewer=trials.tried.get(count.replicas - 1),
        tried=tuple(tried[replicas] for replicas in sorted(tried)),
    )


def about_best(scenario: Scenario, row: PlanRow, options: PlanOptions) -> Best:
    """Look at the best row further."""
    assert row.count is not None
    here = planned(row.choice.applied_to(scenario), options)
    trials = here.trials(engine_of(here.service, row.mode, here.requests(0)), options.max_seeds)
    headroom, is_bound = _headroom(trials, row.count.replicas)
    return Best(
        row=row,
        headroom_fraction=headroom,
        headroom_is_bound=is_bound,
        marks=load_marks(trials, row.count.replicas),
        scaled=_scaled(trials, row.count, options) if options.start_delay_s is not None else None,
    )


def _headroom(trials: Trials, replicas: int) -> tuple[float, bool]:
    """Share by which the load may grow before the chosen count misses; True: at least so much, no more was tried."""

    def carries(growth: float) -> bool:
        def grown(seed: int) -> Workload:
            return trials.requests(seed).scaled(1.0 + growth)

        return replace(trials, requests=grown, tried={}, first_runs={}).judge(replicas).meets

    low, high = 0.0, MOST_HEADROOM
    if carries(high):
        return high, True
    for _ in range(HEADROOM_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if carries(middle) else (low, middle)
    return low, False


def _scaled(trials: Trials, count: CountTried, options: PlanOptions) -> Scaled:
    """The largest target per replica that meets every objective, by bisection on the load of seed 0."""
    per_replica = max(count.outstanding / count.replicas, 0.5)
    low, high = 0.05 * per_replica, 4.0 * per_replica
    best = _under_autoscaler(trials, count.replicas, low, options)
    for _ in range(TARGET_STEPS):
        middle = math.sqrt(low * high)
        tried = _under_autoscaler(trials, count.replicas, middle, options)
        if tried.meets:
            low, best = middle, tried
        else:
            high = middle
    return best


def _under_autoscaler(trials: Trials, replicas: int, target: float, options: PlanOptions) -> Scaled:
    scaler = Autoscaler(
        target_outstanding=target,
        min_replicas=1,
        max_replicas=replicas,
        start_delay_s=options.start_delay_s or 0.0,
        cool_down_s=options.cool_down_s,
    )
    served = serve_cluster(
        trials.requests(0),
        replace(trials.shape(replicas, 0), autoscaler=scaler),
        engine=trials.engine,
        seed=trials.first_seed,
    )
    found = reached([shares_by_block(served.result, trials.slos)], trials.slos)
    return Scaled(
        target_outstanding=target,
        mean_replicas=served.mean_replicas,
        peak_replicas=served.peak_replicas,
        reached=found,
        meets=all(each.holds for each in found),
    )
