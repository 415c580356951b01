"""Figures of a validation: predicted against measured, and errors by source."""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray

from scenarios.validate.errors import CLASSES, computed, is_full
from scenarios.validate.rows import Prediction

STYLE = Path(__file__).parent.parent / "course.mplstyle"
FloatArray = NDArray[np.float64]
TICKS = (0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0)


@dataclass(frozen=True, slots=True)
class Points:
    """Full rows of one engine class: measured and predicted S `(rows,)`, and the source of each."""

    name: str
    measured: FloatArray
    predicted: FloatArray
    sources: tuple[str, ...]


def points_of(predictions: Sequence[Prediction]) -> tuple[Points, ...]:
    """Full rows by engine class."""
    groups: dict[str, list[Prediction]] = defaultdict(list)
    for one in computed(predictions):
        if is_full(one):
            groups[one.tags["engine class"]].append(one)
    return tuple(
        Points(
            name,
            np.array([one.row.speedup for one in groups[name]], dtype=np.float64),
            np.array([one.speedup for one in groups[name]], dtype=np.float64),
            tuple(one.row.source_id for one in groups[name]),
        )
        for name in CLASSES
        if groups[name]
    )


def draw_scatter(axes: Axes, points: Sequence[Points]) -> None:
    """Predicted over measured S, both logarithmic, with lines at 20 % off."""
    limits = np.array([0.15, 8.0])
    axes.plot(limits, limits, color="0.4", linewidth=1.0)
    for factor in (1 / 1.2, 1.2):
        axes.plot(limits, factor * limits, color="0.75", linewidth=0.8, linestyle="--")
    for one in points:
        axes.scatter(one.measured, one.predicted, s=12, alpha=0.6, label=f"{one.name} ({len(one.measured)} rows)")
    axes.set(xscale="log", yscale="log", xlim=limits, ylim=limits)
    axes.set(xlabel="measured speed-up S", ylabel="predicted speed-up S")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(FixedLocator(TICKS))
        axis.set_major_formatter(FuncFormatter(_plain_number))
        axis.set_minor_locator(NullLocator())
    axes.legend(loc="upper left")


def _plain_number(value: float, _position: int) -> str:
    return f"{value:g}"


def draw_residuals(axes: Axes, points: Sequence[Points]) -> None:
    """Error of every row by source."""
    names: list[str] = []
    for one in points:
        for source in sorted(set(one.sources)):
            mask = np.array([each == source for each in one.sources])
            errors = 100.0 * (one.predicted[mask] / one.measured[mask] - 1.0)
            axes.scatter(np.full(len(errors), len(names)), np.clip(errors, -100.0, 150.0), s=12, alpha=0.6)
            axes.plot([len(names) - 0.3, len(names) + 0.3], [float(np.median(errors))] * 2, color="black")
            names.append(f"{source}\n{one.name.split()[0]}")
    axes.axhline(0.0, color="0.4", linewidth=1.0)
    axes.set_xticks(range(len(names)), names, fontsize=6)
    axes.set(xlabel="source", ylabel="predicted over measured - 1 (%), at most 150 shown")


def save_figures(predictions: Sequence[Prediction], folder: Path) -> None:
    """`scatter.png` and `residuals.png`."""
    points = points_of(predictions)
    with style.context(STYLE):
        for name, draw in (("scatter", draw_scatter), ("residuals", draw_residuals)):
            figure = Figure(figsize=(7.0, 5.0), layout="constrained")
            draw(figure.add_subplot(), points)
            figure.savefig(folder / f"{name}.png", metadata={"Software": None})
