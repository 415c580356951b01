"""What no number of replicas can change: a request alone on an idle replica."""

from __future__ import annotations

import math

import numpy as np

from roofline.units import ms_from_seconds
from scenarios.plan.answer import Floor
from scenarios.plan.attainment import met_by_request, objective_text
from scenarios.plan.load import picked
from simulator.cluster import Engine
from simulator.replica import simulate
from simulator.result import Result, Slo
from simulator.workload import Workload

SAMPLE = 1000
"""Requests served alone, evenly spread over the load."""
APART_S = 1e4
"""Between their arrivals; longer than any of them takes, or the next one waits, which is no floor."""
STANDARD_ERRORS = 3.0
"""An objective is out of reach when the sample misses it by more than this."""


def served_alone(engine: Engine, requests: Workload, seed: int) -> Result:
    """A sample of the requests, each on an idle replica."""
    place = np.unique(np.linspace(0, len(requests) - 1, min(SAMPLE, len(requests))).astype(np.int64))
    spaced = picked(requests, place, arrival_s=APART_S * np.arange(len(place), dtype=np.float64))
    return simulate(spaced, costs=engine.costs, limits=engine.limits, speculation=engine.speculation, seed=seed)


def floors(alone: Result, slos: tuple[Slo, ...]) -> tuple[Floor, ...]:
    """What every objective finds there; the value is its quantile over the served requests."""
    found: list[Floor] = []
    for slo in slos:
        met = met_by_request(alone, slo)
        found.append(
            Floor(
                objective=objective_text(slo),
                limit_s=slo.limit_s,
                value_s=alone.percentile(slo.metric, slo.quantile, class_id=slo.class_id),
                wanted_fraction=slo.quantile,
                fraction=float(met.mean()) if len(met) else 1.0,
            )
        )
    return tuple(found)


def out_of_reach(found: tuple[Floor, ...], sample: int, requests: int) -> str | None:
    """One sentence about the first objective that is missed however many replicas there are."""
    for floor in found:
        spread = math.sqrt(max(floor.fraction * (1.0 - floor.fraction), 0.0) / sample)
        doubt = STANDARD_ERRORS * spread if sample < requests else 0.0
        if floor.fraction + doubt < floor.wanted_fraction:
            return (
                f"alone on an idle replica {100 * floor.fraction:.1f} % of the requests meet {floor.objective}, but "
                f"{100 * floor.wanted_fraction:g} % must; its floor is {ms_from_seconds(floor.value_s):.3g} ms, and no "
                "number of replicas lowers it"
            )
    return None


def most_at_once(requests: Workload, alone: Result) -> int:
    """Replicas beyond which requests hardly ever share one: most arrivals within the longest latency of the sample."""
    latency_s = alone.latency_s[~np.isnan(alone.latency_s)]
    if not len(latency_s):
        return 1
    earlier = np.searchsorted(requests.arrival_s, requests.arrival_s - float(latency_s.max()), side="right")
    return int((np.arange(len(requests)) - earlier).max()) + 1
