"""Figure 8: how many drafts a round accepts, acceptance by position, and chunk gaps against TPOT."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.speculation import conditional, positions_from_alpha
from roofline.units import ms_from_seconds
from scenarios.build import Arm
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, colour, finish, legend_beside, measured
from scenarios.figures.measured import per_position_series
from scenarios.figures.services import course_service
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.questions.break_even import speculating_arm
from simulator import FixedDraft, IidAcceptance, Speculation, make_workload, simulate

DRAFTS = 7
"""K of the histogram and of the published series."""
GAP_DRAFTS = (0, 1, 3, 5, 7)
PUBLISHED_SERIES = ("P047",)
REQUESTS, OUTPUT_TOKENS = 24, 1000
"""One after the other; short enough for the window of heads that were trained on 2,048 tokens."""


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Rounds by accepted drafts, p_i and c_i by position, chunk gap and TPOT by K; one request at a time."""
    arm = speculating_arm(course_service(assumptions))
    shares = positions_from_alpha(assumptions.alpha, DRAFTS)
    exactly = np.append(np.concatenate(([1.0], shares[:-1])) - shares, shares[-1])
    emitted, _, _ = _served_alone(arm, assumptions, seed=seed, draft_tokens=DRAFTS)
    seen = np.bincount(emitted - 1, minlength=DRAFTS + 1) / len(emitted)
    rows: Rows = [
        {"panel": "accepted", "basis": basis, "x": accepted, "share": float(share)}
        for basis, values in (("closed form", exactly), ("simulated", seen))
        for accepted, share in enumerate(values)
    ]
    rows += _positions("closed form", shares, None)
    for series, published in per_position_series(PUBLISHED_SERIES).items():
        rows += _positions("measured", np.array(published), series)
    for drafts in GAP_DRAFTS:
        _, gap_s, tpot_s = _served_alone(arm, assumptions, seed=seed, draft_tokens=drafts)
        rows.append(
            {"panel": "gap", "basis": "simulated", "x": drafts, "chunk_gap_s": gap_s, "tpot_s": tpot_s}
        )  # fmt: skip
    return Table.of(rows)


def _positions(basis: str, shares: np.ndarray, series: str | None) -> Rows:
    return [
        {"panel": "position", "basis": basis, "x": number, "share": float(share), "conditional": float(given),
         "row_id": series}
        for number, (share, given) in enumerate(zip(shares, conditional(shares), strict=True), start=1)
    ]  # fmt: skip


def _served_alone(
    arm: Arm, assumptions: Assumptions, *, seed: int, draft_tokens: int
) -> tuple[np.ndarray, float, float]:
    """(tokens of every full round, median gap between chunks, TPOT) of requests that come one at a time."""
    requests = make_workload(
        np.zeros(REQUESTS),
        prompt_tokens=[assumptions.input_tokens] * REQUESTS,
        output_tokens=[OUTPUT_TOKENS] * REQUESTS,
        concurrency=1,
    )
    acceptance = (IidAcceptance(assumptions.alpha),) if draft_tokens else ()
    result = simulate(
        requests,
        costs=arm.costs,
        limits=arm.limits,
        speculation=Speculation(arm.proposer, FixedDraft(draft_tokens), acceptance),
        seed=seed,
        trace_steps=True,
    )
    trace = result.steps
    if trace is None:
        raise AssertionError("a trace was asked for")
    decodes = trace.decoding > 0
    whole = decodes & np.append(decodes[1:], [False])  # the last round of a request is cut at its end
    gaps_s = (trace.verify_s + trace.draft_s + trace.host_s)[whole]
    return trace.emitted_tokens[whole], float(np.median(gaps_s)), result.mean("tpot")


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Shares of empty and of full rounds, and both gaps at the largest K."""
    accepted = data.where(panel="accepted", basis="closed form").values("share")
    gaps = data.where(panel="gap")
    return {
        "none": 100 * accepted[0],
        "all": 100 * accepted[-1],
        "gap_plain": ms_from_seconds(gaps.values("chunk_gap_s")[0]),
        "gap": ms_from_seconds(gaps.values("chunk_gap_s")[-1]),
        "tpot": ms_from_seconds(gaps.values("tpot_s")[-1]),
        "largest": DRAFTS,
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Three panels; the legend stands beside them, one heading each."""
    left, middle, right = figure.subplots(1, 3)
    for index, basis in enumerate(("closed form", "simulated")):
        bars = data.where(panel="accepted", basis=basis)
        left.bar(
            bars.values("x") + 0.4 * index - 0.2, bars.values("share"), width=0.4, color=COLOURS[index],
            hatch="///" * index, edgecolor="white", label=words.basis(basis),
        )  # fmt: skip
    left.set(xlabel=words("x_accepted"), ylabel=words("y_accepted"), title=words("panel_accepted", K=DRAFTS))
    left.set_xticks(range(DRAFTS + 1))
    _draw_positions(middle, data.where(panel="position"), words)
    gaps = data.where(panel="gap")
    for index, name in enumerate(("chunk_gap_s", "tpot_s")):
        right.plot(gaps.values("x"), gaps.values(name) * 1e3, marker="os"[index], label=words(name), **colour(index))
    right.set(xlabel=words("x_gap"), ylabel=words("y_gap"), title=words("panel_gap"))
    right.set_ylim(bottom=0)
    headings = [words(f"heading_{panel}") for panel in ("accepted", "position", "gap")]
    legend_beside(figure, [left, middle, right], headings=headings)
    finish(figure, words("title"), notes=[words("note", ids=", ".join(PUBLISHED_SERIES))])


def _draw_positions(axes: Axes, data: Table, words: Words) -> None:
    formula = data.where(basis="closed form")
    axes.plot(formula.values("x"), formula.values("share"), label=words("unconditional"), **colour(0))
    axes.plot(formula.values("x"), formula.values("conditional"), label=words("conditional"), **colour(1))
    for series in PUBLISHED_SERIES:
        points = data.where(row_id=series)
        look: dict[str, Any] = {**measured(0), "markeredgecolor": COLOURS[0]}
        axes.plot(points.values("x"), points.values("share"), label=words("measured_unconditional"), **look)
        look = {**measured(0), "markeredgecolor": COLOURS[1], "marker": "s"}
        axes.plot(points.values("x"), points.values("conditional"), label=words("measured_conditional"), **look)
    axes.set(xlabel=words("x_position"), ylabel=words("y_position"), title=words("panel_position"), ylim=(0, 1))
    axes.set_xticks(range(1, DRAFTS + 1))
