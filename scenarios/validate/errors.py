"""Errors of predicted speed-ups by family: median, p90, bias, rows and sources, slower and faster rows caught."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scenarios.validate.rows import Prediction

SLOWER, FASTER = 0.97, 1.03
"""Measured S below or above which a row counts as slower or faster; between them nobody can tell."""
CLASSES = ("serving engines", "llama.cpp", "paper frameworks")
SPLITS = ("method", "hardware", "engine", "model kind", "load type", "weights", "source")


@dataclass(frozen=True, slots=True)
class Family:
    """Errors of a group of computed rows. `source_median`: median over sources of each source's median |error|.

    Shares are NaN where no row is slower (or faster). `coverage`: share of rows inside their 80 % interval, `width`:
    its median high over low; NaN where no row has one.
    """

    name: str
    rows: int
    sources: int
    median_abs_error: float
    p90_abs_error: float
    bias: float
    source_median: float
    slower_caught: float
    slower_rows: int
    faster_caught: float
    faster_rows: int
    coverage: float
    width: float


def is_full(prediction: Prediction) -> bool:
    """Whether the row published everything that a prediction needs."""
    return prediction.row.simulable == "full"


def computed(predictions: Iterable[Prediction]) -> list[Prediction]:
    """Rows with a prediction and a measurement."""
    return [one for one in predictions if one.status == "computed" and math.isfinite(one.error)]


def families_of(predictions: Sequence[Prediction]) -> tuple[Family, ...]:
    """The three engine classes over full rows, each class split further, then rows that leave something open."""
    found: list[Family] = []
    for name in CLASSES:
        full = [one for one in computed(predictions) if is_full(one) and one.tags["engine class"] == name]
        if full:
            found.append(family(name, full))
            found += [family(f"{name}, {kind} {value}", rows) for kind, value, rows in _split(full)]
    for name in CLASSES:
        partial = [one for one in computed(predictions) if not is_full(one) and one.tags["engine class"] == name]
        if partial:
            found.append(family(f"partial rows, {name}", partial))
    everything = [one for one in computed(predictions) if not is_full(one)]
    if everything:
        found.append(family("partial rows", everything))
    return tuple(found)


def family(name: str, rows: Sequence[Prediction], speedup: Callable[[Prediction], float] | None = None) -> Family:
    """Errors of some rows, under another prediction of S where one is given (base rates)."""
    predicted = np.array([one.speedup if speedup is None else speedup(one) for one in rows])
    actual = np.array([one.row.speedup or math.nan for one in rows])
    errors = predicted / actual - 1.0
    sizes = np.abs(errors)
    slower, faster = actual < SLOWER, actual > FASTER
    inside = [one.low <= (one.row.speedup or 0.0) <= one.high for one in rows if one.high > one.low]
    widths = [one.high / one.low for one in rows if one.high > one.low]
    return Family(
        name=name,
        rows=len(rows),
        sources=len({one.row.source_id for one in rows}),
        median_abs_error=float(np.median(sizes)),
        p90_abs_error=float(np.quantile(sizes, 0.9)),
        bias=float(np.median(errors)),
        source_median=_source_median(rows, sizes),
        slower_caught=_share(predicted[slower] < 1.0),
        slower_rows=int(slower.sum()),
        faster_caught=_share(predicted[faster] > 1.0),
        faster_rows=int(faster.sum()),
        coverage=float(np.mean(inside)) if inside and speedup is None else math.nan,
        width=float(np.median(widths)) if widths and speedup is None else math.nan,
    )


def _source_median(rows: Sequence[Prediction], sizes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    by_source: dict[str, list[float]] = defaultdict(list)
    for one, size in zip(rows, sizes, strict=True):
        by_source[one.row.source_id].append(float(size))
    return float(np.median([np.median(values) for values in by_source.values()]))


def _share(hits: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    return float(hits.mean()) if len(hits) else math.nan


def _split(rows: Sequence[Prediction]) -> list[tuple[str, str, list[Prediction]]]:
    """Groups of rows that share a tag; a tag all rows share is no group."""
    found: list[tuple[str, str, list[Prediction]]] = []
    for kind in SPLITS:
        groups: dict[str, list[Prediction]] = defaultdict(list)
        for one in rows:
            groups[_tag(one, kind)].append(one)
        if len(groups) > 1:
            found += [(kind, value, groups[value]) for value in sorted(groups)]
    return found


def _tag(prediction: Prediction, kind: str) -> str:
    if kind == "source":
        return prediction.row.source_id
    return prediction.gpu if kind == "hardware" else prediction.tags[kind]
