"""Figure 2: the textbook speed-up against alpha, and the acceptance at which a round pays for itself."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from roofline.speculation import break_even_alpha, textbook_round_ratio, textbook_speedup
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import QUIET, finish, legend_beside, shade
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Words

DRAFTS = (1, 3, 5, 7)
ALPHAS = tuple(round(0.05 * step, 2) for step in range(21))
CHEAP_RATIO, DEAR_RATIO = 0.02, 0.3
"""A head that is a layer of the target, and a draft model a third of it: the panels beside the assumed cost."""


def compute(assumptions: Assumptions, seed: int) -> Table:
    """S by draft cost, K and alpha, and the break-even alpha of each K, from closed forms alone."""
    rows: Rows = []
    for ratio in sorted({CHEAP_RATIO, assumptions.draft_cost_ratio, DEAR_RATIO}):
        for drafts in DRAFTS:
            curve = np.asarray(textbook_speedup(ALPHAS, drafts, draft_cost_ratio=ratio))
            common: dict[str, Cell] = {"basis": "closed form", "draft_cost_ratio": ratio, "draft_tokens": drafts}
            rows += [
                {**common, "point": "curve", "alpha": alpha, "speedup": float(gain)}
                for alpha, gain in zip(ALPHAS, curve, strict=True)
            ]
            least = float(break_even_alpha(drafts, textbook_round_ratio(drafts, ratio)))
            rows.append({**common, "point": "break-even", "alpha": least, "speedup": 1.0})
    return Table.of(rows)


def draw(figure: Figure, data: Table, words: Words) -> None:
    """A panel per draft cost, a line per K, a mark where it crosses 1."""
    ratios = data.distinct("draft_cost_ratio")
    panels = figure.subplots(1, len(ratios), sharey=True, squeeze=False)[0]
    for axes, ratio in zip(panels, ratios, strict=True):
        panel = data.where(draft_cost_ratio=ratio)
        axes.axhline(1.0, color=QUIET, linewidth=1)
        for index, drafts in enumerate(DRAFTS):
            curve = panel.where(draft_tokens=drafts, point="curve")
            [least] = panel.where(draft_tokens=drafts, point="break-even").values("alpha")
            look = shade(index, of=len(DRAFTS))
            axes.plot(curve.values("alpha"), curve.values("speedup"), label=words("curve_k", K=drafts), **look)
            axes.plot([least], [1.0], marker="o", color=look["color"], linestyle="none")
        least_alphas = ", ".join(f"{value:.2f}" for value in panel.where(point="break-even").values("alpha"))
        axes.set_title(
            words("panel", ratio=f"{ratio:g}") + "\n" + words("break_even", alphas=least_alphas), fontsize=11
        )
        axes.set(xlim=(0, 1), xlabel=words("x"))
    panels[0].set_ylabel(words("y"))
    legend_beside(figure, panels, title=words("legend"))
    finish(figure, words("title"), notes=[words("note")])
