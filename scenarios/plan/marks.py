"""Knee, peak and saturation of one replica: three loads, three meanings."""

from __future__ import annotations

import numpy as np

from scenarios.plan.answer import LoadMarks
from scenarios.plan.counting import Trials
from scenarios.plan.load import some_of
from simulator.replica import simulate

FACTORS = tuple(float(factor) for factor in np.geomspace(0.25, 4.0, 17))
"""Loads around that of a replica in the chosen cluster: four a doubling."""


def load_marks(trials: Trials, replicas: int) -> LoadMarks:
    """Every so-manieth request at rising rates on one replica.

    The knee is where throughput over mean latency is largest (L. Kleinrock, "Power and deterministic rules of thumb
    for probabilistic problems in computer communications", ICC 1979).
    """
    share = some_of(trials.requests(0), replicas, 0)
    rates_per_s: list[float] = []
    power: list[float] = []
    good_per_s: list[float] = []
    saturated: list[bool] = []
    for factor in FACTORS:
        result = simulate(
            share.scaled(factor),
            costs=trials.engine.costs,
            limits=trials.engine.limits,
            speculation=trials.engine.speculation,
            seed=trials.first_seed,
        )
        rates_per_s.append(share.rate_per_s * factor)
        power.append(result.throughput_requests_per_s / result.mean("latency"))
        good_per_s.append(result.goodput(trials.slos).requests_per_s)
        saturated.append(result.saturation.saturated)
    first = saturated.index(True) if True in saturated else None
    return LoadMarks(
        knee_per_s=rates_per_s[int(np.nanargmax(power))],
        peak_per_s=rates_per_s[int(np.nanargmax(good_per_s))],
        saturation_per_s=rates_per_s[first] if first is not None else None,
        highest_per_s=rates_per_s[-1],
    )
