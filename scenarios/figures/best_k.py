"""Figure 9: the best K over batch and context, with constant acceptance and with one that falls with context."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from roofline.cost import round_cost
from roofline.speculation import best_draft_tokens, expected_tokens
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import finish, plain
from scenarios.figures.services import LARGEST_K, course_service, wide_costs
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.questions.break_even import speculating_arm
from simulator.varied_acceptance import ContextDecay

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (256, 1024, 4096, 16_384, 65_536, 131_072)
LONG_CONTEXT = 4096
DECAY = ContextDecay(((1024, 1.0), (16_384, 0.8), (131_072, 0.5)))
"""Assumed: a head trained on short texts keeps four fifths of its acceptance at 16k tokens and half at 128k."""
RAMP = ("#ffffff", "#f3e6a6", "#dcc64f", "#b5a265", "#8f8a6c", "#6c6e72", "#4a566d", "#2a3d6b", "#00204d")


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Best K and its speed-up by batch and context; `fits` says whether that many contexts fit the KV cache."""
    service = course_service(assumptions)
    arm = speculating_arm(service)
    capacity_tokens = arm.limits.kv_blocks * arm.limits.block_tokens
    costs = wide_costs(service)
    rows: Rows = []
    for context in CONTEXTS:
        fading = assumptions.alpha * float(DECAY.factor(np.array([float(context)]))[0])
        for batch in BATCHES:
            rounds = [
                round_cost(costs, batch=batch, context_tokens=context, draft_tokens=k) for k in range(LARGEST_K + 1)
            ]
            ratios = [cost.ratio for cost in rounds]
            for panel, alpha in (("constant", assumptions.alpha), ("falling", fading)):
                best = best_draft_tokens(expected_tokens(alpha, np.arange(len(ratios))), ratios)
                rows.append(
                    {"panel": panel, "basis": costs.label, "alpha": alpha, "context_tokens": context, "batch": batch,
                     "best_k": best.draft_tokens, "speedup": best.speedup,
                     "fits": int(batch * context <= capacity_tokens)}
                )  # fmt: skip
    return Table.of(rows)


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Best K at the ends of the shortest context, and at the fullest batch of a long one."""
    constant = data.where(panel="constant")
    full = int(constant.where(context_tokens=LONG_CONTEXT, fits=1).values("batch").max(initial=1))

    def best(batch: int, context_tokens: int) -> Cell:
        return constant.where(batch=batch, context_tokens=context_tokens).one("best_k")

    return {
        "small": best(1, CONTEXTS[0]),
        "large": best(BATCHES[-1], CONTEXTS[0]),
        "full_batch": full,
        "long": best(full, LONG_CONTEXT),
        "short": best(full, CONTEXTS[0]),
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Two maps of K, K written in every cell; hatched: off; dots: does not fit the cache."""
    panels = figure.subplots(1, 2, sharey=True)
    for axes, panel in zip(panels, ("constant", "falling"), strict=True):
        _map(axes, data.where(panel=panel))
        axes.set(xlabel=words("x"), title=words(f"panel_{panel}"))
    panels[0].set_ylabel(words("y"))
    swatches = [
        Patch(facecolor="white", edgecolor="0.3", hatch="///", label=words("off")),
        Patch(facecolor="white", edgecolor="0.3", hatch="...", label=words("too_much")),
    ]
    swatches += [Patch(facecolor=RAMP[k], edgecolor="0.3", label=f"K = {k}") for k in range(1, LARGEST_K + 1)]
    title = words.labelled(words("legend"), data.one("basis"))
    figure.legend(handles=swatches, loc="outside right upper", title=title, alignment="left")
    finish(figure, words("title"), notes=[words("note")])


def _map(axes: Axes, data: Table) -> None:
    shape = (len(CONTEXTS), len(BATCHES))
    best, fits = (data.values(name).reshape(shape) for name in ("best_k", "fits"))
    edges = [np.arange(size + 1) - 0.5 for size in shape]
    norm = BoundaryNorm(np.arange(len(RAMP) + 1) - 0.5, len(RAMP))
    axes.pcolormesh(
        edges[1], edges[0], best, cmap=ListedColormap(list(RAMP)), norm=norm, edgecolors="0.7", linewidth=0.5
    )
    for row in range(shape[0]):
        for column in range(shape[1]):
            k = int(best[row, column])
            hatch = "..." if not fits[row, column] else "///" if k == 0 else ""
            if hatch:
                place = (column - 0.47, row - 0.47)
                axes.add_patch(Rectangle(place, 0.94, 0.94, facecolor="white", edgecolor="0.4", hatch=hatch, lw=0.0))
            if fits[row, column] and k:
                axes.text(column, row, str(k), ha="center", va="center", color="white" if k > 4 else "black")
    axes.set_xticks(range(len(BATCHES)), [plain(value) for value in BATCHES], fontsize=10)
    axes.set_yticks(range(len(CONTEXTS)), ["256", *(f"{value // 1024}k" for value in CONTEXTS[1:])])
    axes.grid(visible=False)
