"""Figures of a decision: speed-up over load, acceptance length against round cost."""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from scenarios.questions.decide import Decision
from scenarios.report.verdict_text import headline

STYLE = Path(__file__).parent / "course.mplstyle"
FloatArray = NDArray[np.float64]
Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class SpeedupCurves:
    """Arrays `(loads,)`: the speed-ups with their intervals; NaN where no acceptance was given."""

    loads: FloatArray
    load_label: str
    tpot_speedup: FloatArray
    tpot_speedup_low: FloatArray
    tpot_speedup_high: FloatArray
    throughput_speedup: FloatArray
    throughput_speedup_low: FloatArray
    throughput_speedup_high: FloatArray
    crossover: float | None
    saturated_from: float | None
    title: str


@dataclass(frozen=True, slots=True)
class RoundCostCurves:
    """Arrays `(loads,)`: R by its parts and the acceptance length that each load needs and has."""

    loads: FloatArray
    load_label: str
    verify: FloatArray
    draft: FloatArray
    host: FloatArray
    acceptance_length: FloatArray
    break_even_length: FloatArray
    title: str


def speedup_curves(decision: Decision) -> SpeedupCurves:
    """What `draw_speedup_vs_load` draws."""
    by_token = [_spread([case.tpot_speedup for case in load.cases]) for load in decision.loads]
    by_capacity = [_spread([case.throughput_speedup for case in load.cases]) for load in decision.loads]
    crossover = decision.verdict.crossover
    columns = np.array([(*a, *b) for a, b in zip(by_token, by_capacity, strict=True)], dtype=float).T
    return SpeedupCurves(
        loads=_loads(decision),
        load_label=_load_label(decision),
        tpot_speedup=columns[0],
        tpot_speedup_low=columns[1],
        tpot_speedup_high=columns[2],
        throughput_speedup=columns[3],
        throughput_speedup_low=columns[4],
        throughput_speedup_high=columns[5],
        crossover=crossover.value if crossover is not None else None,
        saturated_from=_saturated_from(decision),
        title=headline(decision),
    )


def round_cost_curves(decision: Decision) -> RoundCostCurves:
    """What `draw_al_vs_round_cost` draws."""
    loads = decision.loads
    return RoundCostCurves(
        loads=_loads(decision),
        load_label=_load_label(decision),
        verify=np.array([load.round.verify for load in loads]),
        draft=np.array([load.round.draft for load in loads]),
        host=np.array([load.round.host for load in loads]),
        acceptance_length=np.array([load.middle.on.acceptance_length if load.middle else np.nan for load in loads]),
        break_even_length=np.array([load.break_even.length for load in loads]),
        title=f"A round with K = {decision.draft_tokens} pays while AL is above R",
    )


def _spread(intervals: list[Any]) -> tuple[float, float, float]:
    """Estimate of the middle case; the widest ends over all cases."""
    if not intervals:
        return (np.nan, np.nan, np.nan)
    middle = intervals[len(intervals) // 2].estimate
    low = min(interval.low for interval in intervals)
    high = max(interval.high for interval in intervals)
    bounded = low > 0 and np.isfinite(high)
    return (middle, low if bounded else middle, high if bounded else middle)


def _loads(decision: Decision) -> FloatArray:
    return np.array([load.point.value for load in decision.loads])


def _saturated_from(decision: Decision) -> float | None:
    last = decision.verdict.segments[-1]
    if last.word != "SATURATED":
        return None
    return last.begins.value if last.begins is not None else last.first


def _load_label(decision: Decision) -> str:
    return "load (requests/s)" if decision.loads[0].point.kind == "rate" else "load (requests in flight)"


def draw_speedup_vs_load(axes: Axes, curves: SpeedupCurves) -> None:
    """Speed-up in time per token and in throughput over load, intervals shaded."""
    axes.axhline(1.0, color="0.3", linewidth=1.0)
    for label, middle, low, high in (
        ("S(TPOT): tokens of a request", curves.tpot_speedup, curves.tpot_speedup_low, curves.tpot_speedup_high),
        (
            "S(throughput)",
            curves.throughput_speedup,
            curves.throughput_speedup_low,
            curves.throughput_speedup_high,
        ),
    ):
        [line] = axes.plot(curves.loads, middle, marker="o", label=label)
        axes.fill_between(curves.loads, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    if curves.crossover is not None:
        axes.axvline(curves.crossover, color="0.3", linestyle=":", linewidth=1.2)
    if curves.saturated_from is not None:
        axes.axvspan(curves.saturated_from, curves.loads[-1], color="0.93", zorder=0, label="neither arm keeps up")
    axes.set_xscale("log")
    axes.set_xticks(curves.loads, [f"{load:.3g}" for load in curves.loads])
    axes.minorticks_off()
    axes.set_xlabel(curves.load_label)
    axes.set_ylabel("speed-up over plain decoding (ratio)")
    axes.set_title(curves.title)
    axes.legend()


def draw_al_vs_round_cost(axes: Axes, curves: RoundCostCurves) -> None:
    """Stacked R (host, verify, draft) over load, with the acceptance length beside it."""
    axes.stackplot(
        curves.loads,
        curves.verify,
        curves.draft,
        curves.host,
        labels=["R: verify", "R: draft", "R: host"],
        colors=["#9ecae1", "#fdd0a2", "#d9d9d9"],
    )
    axes.plot(curves.loads, curves.acceptance_length, color="#009E73", marker="o", label="AL, tokens per round")
    axes.plot(curves.loads, curves.break_even_length, color="0.2", linestyle="--", marker=".", label="AL at break-even")
    axes.set_xscale("log")
    axes.set_xticks(curves.loads, [f"{load:.3g}" for load in curves.loads])
    axes.minorticks_off()
    axes.set_xlim(curves.loads[0], curves.loads[-1])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(curves.load_label)
    axes.set_ylabel("plain steps per round (R), tokens per round (AL)")
    axes.set_title(curves.title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def save_speedup_vs_load(decision: Decision, path: Path) -> None:
    """Write the figure as PNG."""
    save(draw_speedup_vs_load, speedup_curves(decision), path)


def save_al_vs_round_cost(decision: Decision, path: Path) -> None:
    """Write the figure as PNG."""
    save(draw_al_vs_round_cost, round_cost_curves(decision), path)


def save(draw: Callable[[Axes, Drawn], None], data: Drawn, path: Path) -> None:
    """Write what `draw` draws of `data` as PNG, the same bytes every time."""
    with style.context(STYLE):
        figure = Figure()
        draw(figure.subplots(), data)
        figure.savefig(path, metadata={"Software": None})
