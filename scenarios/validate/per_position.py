"""Does AL at other K follow from a shape fitted at one K? `per_position.csv` and `acceptance_by_task.csv`.

Two kinds of series: acceptance by position of one run (its AL at every smaller K is a fact), and AL of runs of one
drafter with different K. Each shape is fitted at one K and predicts the AL at the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from roofline.errors import InvalidInput
from roofline.speculation import alpha_from_length
from scenarios.acceptance import expected_length
from scenarios.validate.rows import DATA_FOLDER, number, read_table
from simulator.acceptance import IidAcceptance, PerPositionAcceptance
from simulator.varied_acceptance import BetaSpread, VariedAcceptance

POSITIONS = DATA_FOLDER / "per_position.csv"
LENGTHS = DATA_FOLDER / "acceptance_by_task.csv"
FITTED_AT = 3
"""K that a shape is fitted at, or the largest of the series where that is smaller; a second fit is at its end."""
Shape = Literal["iid", "per position", "Beta mixture"]
SHAPES: tuple[Shape, ...] = ("iid", "per position", "Beta mixture")
MATCHING = ("ngram", "suffix")
_NARROWEST, _WIDEST = 1e4, 0.05


@dataclass(frozen=True, slots=True)
class Series:
    """Acceptance of one drafter on one workload. `shares`: p_1, p_2, … of one run, empty for `runs`, AL by K."""

    name: str
    source: str
    method: str
    kind: Literal["one run", "runs"]
    lengths: Mapping[int, float]
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapePoint:
    """AL at `draft_tokens` under a shape fitted at `fitted_at`, beside the published one."""

    series: Series
    shape: Shape
    fitted_at: int
    draft_tokens: int
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured minus 1."""
        return self.predicted / self.measured - 1.0


def shape_points(positions: Path = POSITIONS, lengths: Path = LENGTHS) -> tuple[ShapePoint, ...]:
    """Every shape fitted to every series, at every other K."""
    return tuple(point for series in (*_runs(positions), *_families(lengths)) for point in _points(series))


def _runs(path: Path) -> Iterator[Series]:
    """Chains with at least two known positions; p_i as published, or put together from conditional shares."""
    table = read_table(
        path, columns=("series_id", "source", "model", "method", "dataset", "position", "p_unconditional")
    )
    by_series: dict[str, list[dict[str, str]]] = {}
    for cells in table.rows:
        by_series.setdefault(cells["series_id"], []).append(cells)
    for rows in by_series.values():
        known = [number(cells["p_unconditional"]) for cells in rows]
        shares = tuple(share.value for share in known if share is not None)
        falling = all(before >= after for before, after in zip((1.0, *shares), shares, strict=False))
        if len(shares) < 2 or len(shares) < len(known) or not falling:
            continue
        totals = 1.0 + np.cumsum(shares)
        yield Series(
            name=" ".join(filter(None, (rows[0]["model"], rows[0]["method"], rows[0]["dataset"]))),
            source=rows[0]["source"],
            method=rows[0]["method"],
            kind="one run",
            lengths={drafts: float(total) for drafts, total in enumerate(totals, start=1)},
            shares=shares,
        )


_SAME = ("source_id", "model", "method", "draft_model", "engine", "hardware", "temperature", "dataset")


def _families(path: Path) -> Iterator[Series]:
    """AL of chains at two K or more, all else alike; several rows at one K are averaged."""
    columns = (*_SAME, "source", "k", "tree_or_chain", "mean_accept_len_tau", "tau_convention")
    found: dict[tuple[str, ...], dict[int, list[float]]] = {}
    sources: dict[tuple[str, ...], str] = {}
    for cells in read_table(path, columns=columns).rows:
        length, drafts = number(cells["mean_accept_len_tau"]), number(cells["k"])
        if length is None or drafts is None or cells["tree_or_chain"] == "tree" or not cells["k"].strip().isdecimal():
            continue
        if "excl" in cells["tau_convention"] or not 1.0 < length.value <= drafts.value + 1.0:
            continue
        key = tuple(cells[name] for name in _SAME)
        found.setdefault(key, {}).setdefault(int(drafts.value), []).append(length.value)
        sources[key] = cells["source"]
    for key, by_k in found.items():
        if len(by_k) > 1:
            lengths = {drafts: float(np.mean(values)) for drafts, values in sorted(by_k.items())}
            yield Series(" ".join(filter(None, (key[1], key[2], key[7]))), sources[key], key[2], "runs", lengths)


def _points(series: Series) -> Iterator[ShapePoint]:
    known = sorted(series.lengths)
    at_three = max((drafts for drafts in known if drafts <= FITTED_AT), default=known[0])
    for fitted_at in dict.fromkeys((at_three, known[-1])):
        for shape in SHAPES:
            predict = _fitted(series, shape, fitted_at)
            if predict is None:
                continue
            for drafts in known:
                if drafts != fitted_at:
                    yield ShapePoint(series, shape, fitted_at, drafts, series.lengths[drafts], predict(drafts))


def _fitted(series: Series, shape: Shape, at: int) -> Callable[[int], float] | None:
    """AL by K under the shape, fitted to what is known up to K = `at`; None where that does not determine it."""
    if shape == "iid":
        alpha = float(alpha_from_length(series.lengths[at], at))
        return lambda drafts: expected_length(IidAcceptance(alpha), drafts)
    if not series.shares or at < 2:
        return None
    if shape == "per position":
        return lambda drafts: expected_length(_held(series.shares[:at], drafts), drafts)
    mixture = _mixture(series.shares[0], series.lengths[at], at)
    return lambda drafts: expected_length(mixture, drafts)


def _held(shares: Sequence[float], drafts: int) -> PerPositionAcceptance:
    """The known shares, and beyond them the last conditional one over and over."""
    last = shares[-1] / shares[-2] if shares[-2] > 0 else 0.0
    beyond = [shares[-1] * last**step for step in range(1, max(0, drafts - len(shares)) + 1)]
    return PerPositionAcceptance((*shares, *beyond))


def _mixture(first: float, length: float, at: int) -> VariedAcceptance:
    """Requests whose acceptance follows a Beta law of mean p_1, as wide as the AL at K needs.

    Where conditional acceptance falls with the position no law of requests does: the narrowest one is taken.
    """
    low, high = math.log(_WIDEST), math.log(_NARROWEST)
    for _ in range(40):
        middle = (low + high) / 2.0
        # A wider law has the longer survivors, so the larger AL at the same mean.
        low, high = (middle, high) if _beta_length(first, math.exp(middle), at) > length else (low, middle)
    return VariedAcceptance(IidAcceptance(first), BetaSpread(math.exp((low + high) / 2.0)))


def _beta_length(mean: float, concentration: float, drafts: int) -> float:
    """AL of a Beta law in closed form: E[alpha^i] is the product of (a + r) / (a + b + r)."""
    if not 0.0 < mean < 1.0:
        raise InvalidInput(f"the mean of a Beta law must be inside 0..1, got {mean:g}")
    steps = np.arange(drafts)
    return 1.0 + float(np.cumprod((mean * concentration + steps) / (concentration + steps)).sum())


@dataclass(frozen=True, slots=True)
class ShapeErrors:
    """Errors of one shape over one group of points: `group` says which, sources are counted once."""

    shape: Shape
    group: str
    points: int
    series: int
    sources: int
    median_abs_error: float
    p90_abs_error: float
    bias: float


def errors_by_shape(points: Sequence[ShapePoint]) -> tuple[ShapeErrors, ...]:
    """Per shape: extrapolation to longer drafts and interpolation to shorter ones; matching drafters apart."""
    return tuple(
        _summary(shape, group, [point for point in points if point.shape == shape and holds(point)])
        for group, holds in _GROUPS.items()
        for shape in SHAPES
        if any(point.shape == shape and holds(point) for point in points)
    )


def _matching(point: ShapePoint) -> bool:
    return point.series.method.startswith(MATCHING)


_GROUPS: dict[str, Callable[[ShapePoint], bool]] = {
    "one run, to larger K": lambda point: _of(point, "one run") and point.draft_tokens > point.fitted_at,
    "one run, to smaller K": lambda point: _of(point, "one run") and point.draft_tokens < point.fitted_at,
    "runs, to larger K": lambda point: _of(point, "runs") and point.draft_tokens > point.fitted_at,
    "runs, to smaller K": lambda point: _of(point, "runs") and point.draft_tokens < point.fitted_at,
    "n-gram and suffix, to larger K": lambda point: _matching(point) and point.draft_tokens > point.fitted_at,
    "n-gram and suffix, to smaller K": lambda point: _matching(point) and point.draft_tokens < point.fitted_at,
}


def _of(point: ShapePoint, kind: str) -> bool:
    return point.series.kind == kind and not _matching(point)


def _summary(shape: Shape, group: str, points: Sequence[ShapePoint]) -> ShapeErrors:
    errors = np.array([point.error for point in points])
    return ShapeErrors(
        shape=shape,
        group=group,
        points=len(points),
        series=len({(point.series.name, point.series.source) for point in points}),
        sources=len({point.series.source for point in points}),
        median_abs_error=float(np.median(np.abs(errors))),
        p90_abs_error=float(np.quantile(np.abs(errors), 0.9)),
        bias=float(np.median(errors)),
    )
