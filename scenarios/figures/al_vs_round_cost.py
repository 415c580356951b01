"""Figure 4: acceptance length against round cost; speculation pays where the first is above the second."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.cost import RoundCost, round_cost
from roofline.speculation import expected_tokens
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, finish, legend_beside, log_axis
from scenarios.figures.services import LARGEST_K, course_service, wide_costs
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words

BATCHES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512)
BATCH_OF_K = 64
PARTS = ("verify", "draft", "host")
FILLS = ("#c9d3e0", "#eadfb9", "#e3bfc4")


def compute(assumptions: Assumptions, seed: int) -> Table:
    """AL and R by part: over the batch at the assumed K, and over K at one batch."""
    table = wide_costs(course_service(assumptions))
    rows: Rows = []
    for panel, points in (
        ("batch", [(batch, assumptions.draft_tokens) for batch in BATCHES]),
        ("K", [(BATCH_OF_K, drafts) for drafts in range(1, LARGEST_K + 1)]),
    ):
        for batch, drafts in points:
            cost = round_cost(table, batch=batch, context_tokens=assumptions.context_tokens, draft_tokens=drafts)
            length = float(expected_tokens(assumptions.alpha, drafts))
            rows.append({"panel": panel, "batch": batch, "draft_tokens": drafts, **_parts(cost, length, table.label)})
    return Table.of(rows)


def _parts(cost: RoundCost, length: float, basis: str) -> dict[str, Cell]:
    return {
        "basis": basis,
        "acceptance_length": length,
        "verify": cost.verify_s / cost.plain_s,
        "draft": cost.draft_s / cost.plain_s,
        "host": cost.host_s / cost.plain_s,
        "round_ratio": cost.ratio,
        "speedup": length / cost.ratio,
        "plain_s": cost.plain_s,
    }


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """R at the ends of the batch axis."""
    batches = data.where(panel="batch")
    ratio = batches.values("round_ratio")
    return {
        "length": batches.values("acceptance_length")[0],
        "first": ratio[0],
        "last": ratio[-1],
        "batch_last": int(batches.values("batch")[-1]),
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """R as a stack, AL as a line, the gap between them shaded."""
    left, right = figure.subplots(1, 2)
    basis = data.one("basis")
    _panel(left, data.where(panel="batch"), "batch", words)
    _panel(right, data.where(panel="K"), "draft_tokens", words)
    log_axis(left, [1, 4, 16, 64, 256])
    left.set(xlabel=words("x_batch"), ylabel=words("y"), title=words("panel_batch", basis=words.basis(basis)))
    right.set(xlabel=words("x_k"), title=words("panel_k", batch=BATCH_OF_K, basis=words.basis(basis)))
    legend_beside(figure, [left, right])
    finish(figure, words("title"), notes=[words("note")])


def _panel(axes: Axes, data: Table, x: str, words: Words) -> None:
    places, length, ratio = data.values(x), data.values("acceptance_length"), data.values("round_ratio")
    stack = [data.values(part) for part in PARTS]
    axes.stackplot(places, stack, colors=FILLS, labels=[words(f"part_{part}") for part in PARTS])
    axes.plot(places, ratio, color=COLOURS[3], linewidth=1.2, label=words("curve_r"))
    axes.plot(places, length, color=COLOURS[0], marker="o", label=words("curve_al"))
    pays = length > ratio
    look: dict[str, Any] = {"linewidth": 0.0, "facecolor": "none", "interpolate": True}
    axes.fill_between(
        places, ratio, length, where=pays.tolist(), hatch="///", edgecolor=COLOURS[0], label=words("gain"), **look
    )
    axes.fill_between(
        places, ratio, length, where=(~pays).tolist(), hatch="xxx", edgecolor=COLOURS[2], label=words("loss"), **look
    )
    axes.set_ylim(0, max(float(np.max(length)), float(np.max(ratio))) * 1.1)
