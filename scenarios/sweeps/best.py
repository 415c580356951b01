"""The best scenario so far, for whoever watches a sweep."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import UnknownName
from scenarios import notation
from scenarios.sweeps.cells import METRIC_COLUMNS, Row


@dataclass(frozen=True, slots=True)
class Watched:
    """How far a sweep is: scenarios done of all, of which restored from disk; the best so far in words."""

    done: int
    total: int
    restored: int
    best: str


def check_metric(name: str) -> str:
    """The column itself, where there is one of that name."""
    if name not in METRIC_COLUMNS:
        raise UnknownName(f"--best {name!r} is no column of the results; {notation.nearest(name, METRIC_COLUMNS)}")
    return name


def smaller_is_better(metric: str) -> bool:
    """Times, costs and losses; rates, shares of good requests and speed-ups are better when larger."""
    name = metric.removeprefix("off_").removeprefix("on_")
    return (name.endswith("_s") and not name.endswith("_per_s")) or name.startswith(("round_", "refused", "preempt"))


def arm_of(metric: str) -> str:
    """The arm that has to keep up for the metric to mean anything."""
    return "off" if metric.startswith("off_") else "on"


class LiveBest:
    """The best mean over seeds among scenarios whose arm keeps up; remembers one scenario only."""

    def __init__(self, metric: str, axes: Sequence[str]) -> None:
        self.metric, self.axes = metric, tuple(axes)
        self.text = ""
        self._sign = -1.0 if smaller_is_better(metric) else 1.0
        self._value = -math.inf

    @property
    def columns(self) -> tuple[str, ...]:
        """What `add` reads of a row."""
        return (*self.axes, self.metric, f"{arm_of(self.metric)}_saturated")

    def add(self, rows: Sequence[Row]) -> None:
        """Whole scenarios: all rows of each."""
        by_scenario: dict[int, list[Row]] = {}
        for row in rows:
            by_scenario.setdefault(int(row["scenario"]), []).append(row)
        for cells in by_scenario.values():
            self._try(cells)

    def _try(self, cells: Sequence[Row]) -> None:
        values = [cell.get(self.metric) for cell in cells]
        if any(value is None or math.isnan(value) for value in values):
            return
        if any(cell.get(f"{arm_of(self.metric)}_saturated") for cell in cells):
            return
        mean = math.fsum(float(value or 0.0) for value in values) / len(values)
        if self._sign * mean > self._value:
            self._value = self._sign * mean
            at = ", ".join(f"{name.rsplit('.', 1)[-1]} {_short(cells[0].get(name))}" for name in self.axes)
            self.text = f"{self.metric} {mean:.3g} at {at}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
