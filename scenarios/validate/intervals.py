"""The 80 % interval of a prediction: what a row leaves open, and what the model itself was off on other sources."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from scenarios.validate.errors import computed, is_full
from scenarios.validate.rows import Prediction

QUANTILE = 0.8
LEAST_SOURCES = 5
"""An engine class with fewer other sources takes those of every class."""

Sizes = Mapping[str, Mapping[str, Sequence[float]]]


def with_model_error(predictions: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Predictions with intervals that hold the model's own error too.

    The half-width is, in logarithms, the root of two squares: the draws of the row's open fields, and the 80 % quantile
    of the errors of full rows of *other* sources (every source weighing alike) of the engine class.
    """
    sizes: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in computed(predictions):
        if is_full(one):
            sizes[one.tags["engine class"]][one.row.source_id].append(abs(math.log1p(one.error)))
    known: dict[tuple[str, str], float] = {}
    widened: list[Prediction] = []
    for one in predictions:
        if one.status != "computed":
            widened.append(one)
            continue
        key = (one.tags["engine class"], one.row.source_id)
        if key not in known:
            known[key] = model_error(sizes, engine_class=key[0], leaving_out=key[1])
        widened.append(_widened(one, known[key]))
    return tuple(widened)


def model_error(sizes: Sizes, *, engine_class: str, leaving_out: str) -> float:
    """80 % quantile of |log error| over other sources, each weighing alike; 0 where there is none."""
    own = _others(sizes.get(engine_class, {}), leaving_out)
    if len(own) < LEAST_SOURCES:
        own = [values for by_source in sizes.values() for values in _others(by_source, leaving_out)]
    if not own:
        return 0.0
    errors = np.concatenate([np.asarray(values) for values in own])
    weights = np.concatenate([np.full(len(values), 1.0 / len(values)) for values in own])
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) / weights.sum()
    return float(errors[order][np.searchsorted(reached, QUANTILE - 1e-12)])


def _others(by_source: Mapping[str, Sequence[float]], leaving_out: str) -> list[Sequence[float]]:
    return [values for source, values in by_source.items() if source != leaving_out]


def _widened(one: Prediction, own: float) -> Prediction:
    below = math.hypot(math.log(one.speedup / one.low), own)
    above = math.hypot(math.log(one.high / one.speedup), own)
    return replace(one, low=one.speedup * math.exp(-below), high=one.speedup * math.exp(above))
