"""The Pareto figure of a plan: tokens per second and GPU against tokens per second and user."""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes

from scenarios.plan.answer import Plan
from scenarios.plot import save
from scenarios.report.words import load_text

_MARKERS = {"off": "o", "static": "^", "schedule": "s", "dynamic": "D"}
_NAMES = {"off": "off", "static": "static K", "schedule": "best K by batch", "dynamic": "dynamic"}


@dataclass(frozen=True, slots=True)
class ParetoPoints:
    """Chosen counts by GPU and mode; `more` are larger counts that were tried and meet the objectives too."""

    points: tuple[tuple[str, str, float, float, str], ...]
    more: tuple[tuple[str, float, float], ...]
    front: tuple[tuple[float, float], ...]
    title: str


def pareto_points(plan: Plan) -> ParetoPoints:
    """What `draw_pareto` draws: (GPU, mode, tokens/s/user, tokens/s/GPU, label)."""
    points: list[tuple[str, str, float, float, str]] = []
    more: list[tuple[str, float, float]] = []
    for row in plan.rows:
        if row.count is None:
            continue
        label = f"{row.replicas} x TP{row.choice.tensor_parallel} {row.choice.precision}"
        points.append((row.choice.gpu, row.mode, row.count.user_tokens_per_s, row.gpu_tokens_per_s(row.count), label))
        more += [
            (row.choice.gpu, each.user_tokens_per_s, row.gpu_tokens_per_s(each))
            for each in row.tried
            if each.meets and each.replicas > row.count.replicas
        ]
    front = sorted(points[index][2:4] for index in plan.pareto)
    title = f"Deployments that meet the objectives at {load_text(plan.load_per_s, 'rate')}"
    return ParetoPoints(tuple(points), tuple(more), tuple(front), title)


def draw_pareto(axes: Axes, data: ParetoPoints) -> None:
    """A colour per GPU, a marker per mode, a line along the front."""
    names = list(dict.fromkeys(point[0] for point in data.points))
    colours = {name: f"C{index}" for index, name in enumerate(names)}
    users, per_gpus = [point[0] for point in data.front], [point[1] for point in data.front]
    axes.plot(users, per_gpus, color="0.5", linewidth=1.0, zorder=1)
    for gpu, user, per_gpu in data.more:
        axes.scatter(user, per_gpu, s=8, color=colours[gpu], alpha=0.4)
    for gpu, mode, user, per_gpu, label in data.points:
        axes.scatter(user, per_gpu, color=colours[gpu], marker=_MARKERS[mode], zorder=2)
        if (user, per_gpu) in data.front:
            axes.annotate(label, (user, per_gpu), textcoords="offset points", xytext=(5, 4), fontsize=7)
    for name in names:
        axes.scatter([], [], color=colours[name], label=name)
    for mode in dict.fromkeys(point[1] for point in data.points):
        axes.scatter([], [], color="0.4", marker=_MARKERS[mode], label=_NAMES[mode])
    axes.set_xlabel("tokens per second and user (median)")
    axes.set_ylabel("output tokens per second and GPU")
    axes.set_title(data.title)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def save_pareto(plan: Plan, path: Path) -> None:
    """Write the figure as PNG."""
    save(draw_pareto, pareto_points(plan), path)
