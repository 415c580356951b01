"""Figure 13: acceptance by task as claimed and as published, and why entropy sets it."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, finish, legend_beside, shade
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.task_presets import task_spread
from simulator.rng import Streams
from simulator.sampling_acceptance import sampled_acceptance

CLAIMS = {"json": (0.8, 0.95), "code": (0.7, 0.9), "math": (0.5, 0.7), "chat": (0.3, 0.5), "creative": (0.2, 0.4)}
"""What courses say, from the most to the least predictable task."""
SHARPNESS = (8.0, 4.0, 2.0, 1.4, 1.0, 0.7, 0.5, 0.25)
DRAFT_ERRORS = (0.5, 1.0, 2.0)
"""Spread of the draft's error in log-probability: a good, a fair and a poor draft."""
POSITIONS, VOCABULARY = 150, 2000


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Claimed range and published spread by task; alpha = 1 - TV(p, q) against the entropy of p over drawn logits."""
    rows: Rows = []
    for task, (low, high) in CLAIMS.items():
        rows.append({"panel": "task", "basis": "claim", "task": task, "alpha_low": low, "alpha_high": high})
        p10, median, p90 = task_spread(task, "eagle3")
        rows.append(
            {"panel": "task", "basis": "published", "task": task, "alpha_low": p10.alpha, "alpha": median.alpha,
             "alpha_high": p90.alpha, "rests_on": median.text}
        )  # fmt: skip
    base = Streams(seed).get("figure target logits").normal(0.0, 2.0, (POSITIONS, VOCABULARY))
    error = Streams(seed).get("figure draft error").normal(0.0, 1.0, base.shape)
    for spread in DRAFT_ERRORS:
        for sharpness in SHARPNESS:
            target = sharpness * base
            alpha = sampled_acceptance(
                target, target + spread * error, temperature=1.0, draft_sampling="probabilistic"
            )  # fmt: skip
            rows.append(
                {"panel": "entropy", "basis": "closed form", "draft_error": spread, "entropy_nats": _entropy(target),
                 "alpha": alpha}
            )  # fmt: skip
    return Table.of(rows)


def _entropy(logits: np.ndarray) -> float:
    """Mean entropy over positions, in nats."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    weights = np.exp(shifted)
    total = weights.sum(axis=1, keepdims=True)
    return float(((np.log(total) - shifted) * weights / total).sum(axis=1).mean())


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Published medians of the two ends."""
    published = data.where(panel="task", basis="published")
    medians = {str(row["task"]): row["alpha"] for row in published.rows()}
    inside = sum(low <= float(medians[task] or 0) <= high for task, (low, high) in CLAIMS.items())
    return {"code": medians["code"], "creative": medians["creative"], "inside": inside, "tasks": len(CLAIMS)}


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left bars of the claim with published medians and spreads beside; right curves of alpha over entropy."""
    left, right = figure.subplots(1, 2)
    for place, task in enumerate(CLAIMS):
        claim = data.where(panel="task", basis="claim", task=task)
        low, high = claim.values("alpha_low")[0], claim.values("alpha_high")[0]
        left.bar(
            place - 0.18, high - low, bottom=low, width=0.32, color=COLOURS[1], hatch="///", edgecolor="white",
            label=words("claim") if place == 0 else "_",
        )  # fmt: skip
        seen = data.where(panel="task", basis="published", task=task)
        middle = seen.values("alpha")
        ends = np.abs(np.array([seen.values("alpha_low"), seen.values("alpha_high")]) - middle)
        left.errorbar(
            [place + 0.18], middle, yerr=ends, marker="D", mfc="white", color=COLOURS[2], capsize=4, ls="",
            label=words("published") if place == 0 else "_",
        )  # fmt: skip
    left.set_xticks(range(len(CLAIMS)), [words(f"task_{task}") for task in CLAIMS])
    left.set(ylabel=words("y"), ylim=(0, 1), xlabel=words("x_task"))
    for index, spread in enumerate(DRAFT_ERRORS):
        curve = data.where(panel="entropy", draft_error=spread)
        label = words.labelled(words("draft_error", spread=spread), "closed form")
        right.plot(
            curve.values("entropy_nats"), curve.values("alpha"), marker="o", label=label, **shade(index, of=3)
        )  # fmt: skip
    right.set(xlabel=words("x_entropy"), ylim=(0, 1))
    legend_beside(figure, [left, right], headings=[words("left"), words("right")])
    finish(figure, words("title"), notes=[words("note", positions=POSITIONS, vocabulary=VOCABULARY)])
