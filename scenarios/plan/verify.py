"""The answer again, on seeds that had no part in it."""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import InvalidInput
from scenarios.plan.answer import CountTried, Plan
from scenarios.plan.attainment import ENOUGH_RUNS
from scenarios.plan.modes import engine_of
from scenarios.plan.rows import planned
from simulator.cluster import ClusterShape
from simulator.workload import Workload

OTHER_SEEDS_FROM = 1000
NARROW_FRACTION = 0.01
"""Seeds are added until no objective's interval is wider than this on either side."""
MOST_SEEDS = 64


def verified(plan: Plan) -> tuple[CountTried, CountTried | None]:
    """The chosen count and, where it is above 1, one replica fewer, each on fresh seeds.

    Raises
    ------
    InvalidInput
        The plan chose nothing.
    """
    if plan.best is None or plan.best.row.count is None:
        raise InvalidInput(
            "the plan chose no deployment, so there is nothing to verify; allow more GPUs or other types"
        )
    row, replicas = plan.best.row, plan.best.row.count.replicas
    here = planned(row.choice.applied_to(plan.scenario), plan.options)
    engine = engine_of(here.service, row.mode, here.requests(0))
    trials = here.trials(engine, ENOUGH_RUNS)

    def others(seed: int) -> Workload:
        return here.requests(OTHER_SEEDS_FROM + seed)

    def other_shape(count: int, seed: int) -> ClusterShape:
        return here.shape(count, OTHER_SEEDS_FROM + seed)

    fresh = replace(
        trials,
        requests=others,
        shape=other_shape,
        first_seed=trials.first_seed + OTHER_SEEDS_FROM,
        first_runs={},
    )
    chosen = fresh.measured(replicas, half_width_fraction=NARROW_FRACTION, most_seeds=MOST_SEEDS)
    if replicas == 1:
        return chosen, None
    return chosen, fresh.measured(replicas - 1, half_width_fraction=NARROW_FRACTION, most_seeds=MOST_SEEDS)
