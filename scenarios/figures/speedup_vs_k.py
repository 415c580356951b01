"""Figure 3: speed-up against K, the best K, and how flat the optimum is."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.cost import round_cost
from roofline.speculation import best_draft_tokens, expected_tokens, speedup, textbook_round_ratio
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import QUIET, finish, legend_beside, measured, shade
from scenarios.figures.measured import id_range, ids_text, rows_by_id
from scenarios.figures.services import LARGEST_K, course_service, wide_costs
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words

ALPHAS = (0.5, 0.6, 0.8, 0.9)
BATCHES = (1, 8, 32, 128)
TEXTBOOK_K = 12
NEAR_FRACTION = 0.03
"""K within this share of the best speed-up are as good: measurements do not tell them apart."""
PUBLISHED_IDS = tuple(id_range("R", 1139, 1149, step=2))
PUBLISHED_FOR = ("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM")


def compute(assumptions: Assumptions, seed: int) -> Table:
    """S by K: the textbook over alpha, the cost table over batch sizes, and a published sweep of K at batch 1."""
    rows: Rows = []
    drafts = np.arange(TEXTBOOK_K + 1)
    for alpha in sorted({*ALPHAS, assumptions.alpha}):
        ratios = np.asarray(textbook_round_ratio(drafts, assumptions.draft_cost_ratio))
        rows += _curve("closed form", "alpha", alpha, np.asarray(expected_tokens(alpha, drafts)), ratios)
    table = wide_costs(course_service(assumptions))
    for batch in BATCHES:
        costs = [
            round_cost(table, batch=batch, context_tokens=assumptions.context_tokens, draft_tokens=k)
            for k in range(LARGEST_K + 1)
        ]
        ratios = np.array([cost.ratio for cost in costs])
        lengths = np.asarray(expected_tokens(assumptions.alpha, np.arange(len(ratios))))
        rows += _curve(table.label, "batch", batch, lengths, ratios)
    if (assumptions.model, assumptions.gpu) == PUBLISHED_FOR:
        rows += [
            {"basis": "measured", "curve": "batch", "value": 1, "draft_tokens": int(row["k"]),
             "acceptance_length": float(row["mean_accept_len_tau"]), "speedup": float(row["speedup"]),
             "row_id": row["id"]}
            for row in rows_by_id("speedups.csv", PUBLISHED_IDS)
        ]  # fmt: skip
    return Table.of(rows)


def _curve(basis: str, curve: str, value: float, lengths: np.ndarray, ratios: np.ndarray) -> Rows:
    gains = np.asarray(speedup(lengths, ratios))
    best = best_draft_tokens(lengths, ratios)
    return [
        {"basis": basis, "curve": curve, "value": value, "draft_tokens": k, "acceptance_length": float(lengths[k]),
         "round_ratio": float(ratios[k]), "speedup": float(gain), "best": int(k == best.draft_tokens),
         "near_best": int(gain >= (1 - NEAR_FRACTION) * best.speedup)}
        for k, gain in enumerate(gains)
    ]  # fmt: skip


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Numbers of the paragraph under the figure."""
    textbook = data.where(curve="alpha", value=assumptions.alpha)
    near = textbook.where(near_best=1).values("draft_tokens")
    table = data.where(curve="batch", best=1)
    best = table.values("draft_tokens").astype(int)
    return {
        "best_k": textbook.where(best=1).one("draft_tokens"),
        "best_s": textbook.where(best=1).one("speedup"),
        "near_low": int(near.min()),
        "near_high": int(near.max()),
        "table_first": best[0],
        "table_last": best[-1],
        "batch_first": table.columns["value"][0],
        "batch_last": table.columns["value"][-1],
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left the textbook, right the cost table with the published sweep; marks on the best K, a band on its equals."""
    left, right = figure.subplots(1, 2, sharey=True)
    computed = data.where(curve="batch", best=1).one("basis")
    _panel(left, data.where(curve="alpha"), words, "curve_alpha")
    _panel(right, data.where(curve="batch", basis=computed), words, "curve_batch")
    left.set_title(words("panel_textbook", basis=words.basis("closed form")), fontsize=11)
    right.set_title(words("panel_table", basis=words.basis(computed)), fontsize=11)
    left.set_ylabel(words("y"))
    published = data.where(basis="measured")
    notes = [words("note")]
    if len(published):
        right.plot(
            published.values("draft_tokens"), published.values("speedup"), **measured(0), label=words("curve_measured")
        )
        notes.append(words("note_measured", ids=ids_text([str(name) for name in published.columns["row_id"]])))
    legend_beside(figure, [left, right], headings=[words("left"), words("right")])
    finish(figure, words("title"), notes=notes)


def _panel(axes: Axes, data: Table, words: Words, label: str) -> None:
    axes.axhline(1.0, color=QUIET, linewidth=1)
    values = data.distinct("value")
    for index, value in enumerate(values):
        curve = data.where(value=value)
        look = shade(index, of=len(values))
        axes.plot(curve.values("draft_tokens"), curve.values("speedup"), label=words(label, value=value), **look)
        near = curve.where(near_best=1)
        axes.plot(near.values("draft_tokens"), near.values("speedup"), color=look["color"], linewidth=7, alpha=0.25)
        best = curve.where(best=1)
        axes.plot(best.values("draft_tokens"), best.values("speedup"), color=look["color"], marker="o", markersize=8)
    axes.set_xlabel(words("x"))
