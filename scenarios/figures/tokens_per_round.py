"""Figure 1: tokens that a sequence emits per round, against alpha."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from roofline.speculation import expected_tokens, length_from_positions
from scenarios.build import Arm
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import MARKS, QUIET, finish, legend_beside, measured, shade
from scenarios.figures.measured import per_position_series
from scenarios.figures.services import course_service
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Words
from scenarios.questions.break_even import speculating_arm
from simulator import FixedDraft, IidAcceptance, Speculation, make_workload, simulate

DRAFTS = (1, 2, 3, 5, 7)
ALPHAS = tuple(round(0.025 * step, 3) for step in range(39))
SIMULATED_ALPHAS = (0.3, 0.5, 0.7, 0.9)
PUBLISHED_SERIES = (
    *("P023", "P024", "P025", "P026", "P027", "P028", "P029"), *("P043", "P045", "P047", "P049"),
    *("P054", "P055", "P056"),
)  # fmt: skip
"""Chains of K = 7 with a published share at every position."""


def compute(assumptions: Assumptions, seed: int) -> Table:
    """AL by K and alpha: closed form, simulator, and published chains at the acceptance of their first draft."""
    rows: Rows = [
        {"basis": "closed form", "draft_tokens": drafts, "alpha": alpha, "acceptance_length": float(length)}
        for drafts in DRAFTS
        for alpha, length in zip(ALPHAS, np.asarray(expected_tokens(ALPHAS, drafts)), strict=True)
    ]
    rows += [{"basis": "closed form", "alpha": alpha, "acceptance_length": 1 / (1 - alpha)} for alpha in ALPHAS]
    arm = speculating_arm(course_service(assumptions))
    for drafts in DRAFTS:
        for alpha in SIMULATED_ALPHAS:
            length = _simulated_length(arm, seed, alpha=alpha, draft_tokens=drafts)
            rows.append({"basis": "simulated", "draft_tokens": drafts, "alpha": alpha, "acceptance_length": length})
    for series, shares in per_position_series(PUBLISHED_SERIES).items():
        rows.append(
            {"basis": "measured", "draft_tokens": len(shares), "alpha": shares[0],
             "acceptance_length": length_from_positions(shares), "row_id": series}
        )  # fmt: skip
    return Table.of(rows)


def _simulated_length(arm: Arm, seed: int, *, alpha: float, draft_tokens: int) -> float:
    requests = make_workload(np.zeros(64), prompt_tokens=[64] * 64, output_tokens=[400] * 64, concurrency=8)
    result = simulate(
        requests,
        costs=arm.costs,
        limits=arm.limits,
        speculation=Speculation(arm.proposer, FixedDraft(draft_tokens), (IidAcceptance(alpha),)),
        seed=seed,
    )
    return result.acceptance_length


def draw(figure: Figure, data: Table, words: Words) -> None:
    """One line a K, the limit of endless drafts above them, simulated and published points."""
    axes = figure.subplots()
    for index, drafts in enumerate(DRAFTS):
        line = data.where(basis="closed form", draft_tokens=drafts)
        look = shade(index, of=len(DRAFTS))
        axes.plot(line.values("alpha"), line.values("acceptance_length"), label=words("curve_k", K=drafts), **look)
        points = data.where(basis="simulated", draft_tokens=drafts)
        axes.plot(
            points.values("alpha"), points.values("acceptance_length"), color=look["color"],
            marker=MARKS[index], linestyle="none",
            label=words.basis("simulated") if index == 0 else "_",
        )  # fmt: skip
    limit = data.where(basis="closed form", draft_tokens=None)
    axes.plot(limit.values("alpha"), limit.values("acceptance_length"), color=QUIET, lw=1, label=words("curve_limit"))
    published = data.where(basis="measured")
    axes.plot(
        published.values("alpha"), published.values("acceptance_length"), **measured(0), label=words("curve_measured")
    )
    axes.set(xlim=(0, 1), ylim=(1, 8), xlabel=words("x"), ylabel=words("y"))
    legend_beside(figure, [axes])
    ids = ", ".join(str(name) for name in published.columns["row_id"])
    finish(figure, words("title"), notes=[words("note", ids=ids)])
