"""Two figures of a lab run: acceptance against entropy by slice, acceptance by position."""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scenarios.lab.results import CellResult, entropy_correlation
from scenarios.plot import STYLE

MARKERS = {"code": "o", "json": "s", "prose": "^", "chat": "D", "agent": "v"}
OWN_MARKER = "P"


def draw_acceptance_against_entropy(axes: Axes, cells: tuple[CellResult, ...]) -> None:
    """One point a slice with its 95 % interval; a marker for each task."""
    for task in dict.fromkeys(each.task for each in cells):
        chosen = [each.cell for each in cells if each.task == task]
        middle = np.array([cell.first.mean for cell in chosen])
        spread = np.abs([[cell.first.low, cell.first.high] for cell in chosen] - middle[:, None]).T
        entropy = [cell.entropy_nats.mean for cell in chosen]
        axes.errorbar(entropy, middle, spread, fmt=MARKERS.get(task, OWN_MARKER), label=task, capsize=2)
    axes.set_xlabel("entropy of the target (nats per token)")
    axes.set_ylabel("first drafts accepted (fraction)")
    axes.set_ylim(0.0, 1.0)
    axes.legend()


def draw_acceptance_by_position(axes: Axes, cells: tuple[CellResult, ...]) -> None:
    """Conditional acceptance of draft i where all before it were accepted; a line for each slice."""
    positions = np.arange(1, cells[0].cell.counts.draft_tokens + 1)
    for each in cells:
        conditional = each.cell.counts.conditional
        axes.plot(positions, conditional, marker=MARKERS.get(each.task, OWN_MARKER), label=each.slice_name)
    axes.set_xticks(positions)
    axes.set_xlabel("position in the draft")
    axes.set_ylabel("accepted, given all before it (fraction)")
    axes.set_ylim(0.0, 1.0)
    axes.legend(fontsize="small", ncols=2)


def save_figures(out: Path, cells: tuple[CellResult, ...], temperature: float) -> tuple[Path, ...]:
    """Both figures of one temperature as PNG."""
    chosen = tuple(each for each in cells if each.temperature == temperature and np.isfinite(each.cell.first.mean))
    if not chosen:
        return ()
    value, slices = entropy_correlation(cells, temperature)
    drawn = (
        (
            "acceptance_against_entropy",
            draw_acceptance_against_entropy,
            f"rank correlation {value:+.2f}, {slices} slices",
        ),
        ("acceptance_by_position", draw_acceptance_by_position, "measured, temperature " + f"{temperature:g}"),
    )
    paths: list[Path] = []
    with style.context(STYLE):
        for name, draw, title in drawn:
            figure = Figure(figsize=(8.0, 5.0), layout="constrained")
            axes = figure.subplots()
            draw(axes, chosen)
            axes.set_title(title)
            paths.append(out / f"{name}-{temperature:g}.png")
            figure.savefig(paths[-1], metadata={"Software": None})
    return tuple(paths)
