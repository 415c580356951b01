"""How often objectives are met, with an interval: over blocks of consecutive requests of all seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roofline.units import ms_from_seconds
from scenarios.plan.answer import Reached
from simulator.compare import half_width
from simulator.result import Result, Slo

BLOCKS = 16
"""Parts of a run that count as one observation each; queues of neighbours depend on each other, blocks hardly."""

ENOUGH_RUNS = 3
"""From so many seeds on the spread between runs is used."""

FloatArray = NDArray[np.float64]


def objective_text(slo: Slo) -> str:
    """`ttft_p95<=1000ms`."""
    quantile = "" if slo.quantile == 1.0 else f"_p{100 * slo.quantile:g}"
    of_class = "" if slo.class_id is None else f" of class {slo.class_id}"
    return f"{slo.metric}{quantile}<={ms_from_seconds(slo.limit_s):g}ms{of_class}"


def met_by_request(result: Result, slo: Slo) -> NDArray[np.bool_]:
    """Whether each request of the objective's class met it; refused and unfinished ones did not."""
    values = result.metric_s(slo.metric)
    met = ~np.isnan(result.finished_s) & (np.isnan(values) | (values <= slo.limit_s))
    return met if slo.class_id is None else met[result.class_id == slo.class_id]


def shares_by_block(result: Result, slos: Sequence[Slo]) -> FloatArray:
    """Attainment `(slos, BLOCKS)`; NaN where no request is subject to the objective."""
    parts = [np.array_split(met_by_request(result, slo), BLOCKS) for slo in slos]
    return np.array([[part.mean() if len(part) else np.nan for part in each] for each in parts])


def reached(shares: Sequence[FloatArray], slos: Sequence[Slo]) -> tuple[Reached, ...]:
    """Mean, and half-width of Student's t: over runs of independent seeds, or over blocks while there are few runs.

    Blocks differ by the load's own ups and downs too, which runs share, so their interval is the wider one. An
    objective nobody is subject to is met.
    """
    found: list[Reached] = []
    for index, slo in enumerate(slos):
        blocks = np.array([run[index] for run in shares])
        blocks = blocks[:, ~np.isnan(blocks).any(axis=0)]
        mean = float(blocks.mean()) if blocks.size else 1.0
        observed = blocks.mean(axis=1) if len(blocks) >= ENOUGH_RUNS and blocks.size else blocks.ravel()
        found.append(Reached(objective_text(slo), slo.quantile, mean, _half_width(observed)))
    return tuple(found)


def _half_width(observed: FloatArray) -> float:
    return float(half_width(observed)) if len(observed) > 1 else 0.0
