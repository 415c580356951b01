"""Figure 5: speed-up against batch and against requests per second, for several K, crossovers marked."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math

import numpy as np
from matplotlib.figure import Figure

from roofline.cost import round_cost
from roofline.speculation import crossover_batches, expected_tokens
from roofline.step_table import StepCostTable
from scenarios.build import Arm, Service
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import MARKS, QUIET, finish, legend_beside, log_axis, measured, shade
from scenarios.figures.measured import id_range, ids_text, rows_by_id
from scenarios.figures.services import course_service, wide_costs
from scenarios.figures.speedup_vs_k import PUBLISHED_FOR
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.break_even import speculating_arm
from simulator import FixedDraft, IidAcceptance, NoProposer, Result, Speculation, Workload, paired_speedup, simulate

DRAFTS = (1, 3, 7)
BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
SHARES_OF_CAPACITY = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""Loads that are simulated, over what plain decoding could carry if every batch were full."""
REQUESTS = 1200
PUBLISHED_IDS = tuple(id_range("R", 140, 148))


def compute(assumptions: Assumptions, seed: int) -> Table:
    """S over the batch from the cost table, S(TPOT) over the load from both arms on the same requests."""
    service = course_service(assumptions, workload={"requests": REQUESTS})
    costs = wide_costs(service)
    rows: Rows = []
    for drafts in DRAFTS:
        rows += _over_batch(costs, assumptions, drafts)
    for share in SHARES_OF_CAPACITY:
        rate_per_s = share * full_rate_per_s(service, assumptions)
        rows += _over_load(service, assumptions, rate_per_s=rate_per_s, seed=seed)
    if (assumptions.model, assumptions.gpu) == PUBLISHED_FOR:
        rows += [
            {"basis": "measured", "panel": "batch", "load": float(row["load_value"]), "draft_tokens": int(row["k"]),
             "speedup": float(row["speedup"]), "row_id": row["id"]}
            for row in rows_by_id("speedups.csv", PUBLISHED_IDS)
        ]  # fmt: skip
    return Table.of(rows)


def _over_batch(costs: StepCostTable, assumptions: Assumptions, drafts: int) -> Rows:
    length = float(expected_tokens(assumptions.alpha, drafts))
    gains = [
        length / round_cost(costs, batch=batch, context_tokens=assumptions.context_tokens, draft_tokens=drafts).ratio
        for batch in BATCHES
    ]
    common: dict[str, Cell] = {"basis": costs.label, "panel": "batch", "draft_tokens": drafts}
    rows: Rows = [{**common, "load": batch, "speedup": gain} for batch, gain in zip(BATCHES, gains, strict=True)]
    return rows + [
        {**common, "load": load, "speedup": 1.0, "crossover": 1} for load in crossover_batches(BATCHES, gains)
    ]


def full_rate_per_s(service: Service, assumptions: Assumptions) -> float:
    """Requests per second of plain decoding at its largest batch, prompts left out: the scale of the load axis."""
    costs = service.off.costs
    held = service.off.limits.kv_blocks * service.off.limits.block_tokens // assumptions.context_tokens
    batch = max(1, min(costs.max_sequences, held))
    step = round_cost(costs, batch=batch, context_tokens=assumptions.context_tokens, draft_tokens=0)
    return batch / step.plain_s / assumptions.output_tokens


def _over_load(service: Service, assumptions: Assumptions, *, rate_per_s: float, seed: int) -> Rows:
    requests = workload_at(service.scenario, LoadPoint(0, "rate", rate_per_s), trace=None, seed=seed)
    plain_run = serve(service.off, requests, seed=seed)
    rows: Rows = []
    for drafts in DRAFTS:
        run = serve(speculating_arm(service), requests, seed=seed, alpha=assumptions.alpha, draft_tokens=drafts)
        gain = paired_speedup([plain_run], [run], metric="tpot")
        known = math.isfinite(gain.high) and gain.low > 0
        rows.append(
            {"basis": "simulated", "panel": "rate", "draft_tokens": drafts, "load": rate_per_s,
             "speedup": gain.estimate, "low": gain.low if known else None, "high": gain.high if known else None,
             "mean_batch": run.mean_batch, "saturated": int(run.saturation.saturated)}
        )  # fmt: skip
    return rows


def serve(arm: Arm, requests: Workload, *, seed: int, alpha: float = 0.0, draft_tokens: int = 0) -> Result:
    """One arm over the requests: plain decoding for K = 0, else a fixed K with i.i.d. acceptance."""
    speculation = Speculation(NoProposer(), FixedDraft(0))
    if draft_tokens:
        speculation = Speculation(arm.proposer, FixedDraft(draft_tokens), (IidAcceptance(alpha),))
    return simulate(requests, costs=arm.costs, limits=arm.limits, speculation=speculation, seed=seed)


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """S at both ends of the load axis for the smallest and the largest K."""
    loads = data.where(panel="rate")
    low, high = (loads.where(draft_tokens=drafts).values("speedup") for drafts in (DRAFTS[0], DRAFTS[-1]))
    return {
        "k_small": DRAFTS[0], "k_large": DRAFTS[-1], "small_first": low[0], "small_last": low[-1],
        "large_first": high[0], "large_last": high[-1],
    }  # fmt: skip


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left lines from the cost table with published points, right simulated marks with intervals."""
    left, right = figure.subplots(1, 2, sharey=True)
    table_basis = data.where(panel="batch").one("basis")
    for axes in (left, right):
        axes.axhline(1.0, color=QUIET, linewidth=1)
    for index, drafts in enumerate(DRAFTS):
        look = shade(index, of=len(DRAFTS))
        curve = data.where(panel="batch", basis=table_basis, draft_tokens=drafts)
        line, crossed = curve.where(crossover=None), curve.where(crossover=1)
        label = words("curve_k", K=drafts)
        left.plot(line.values("load"), line.values("speedup"), label=words.labelled(label, table_basis), **look)
        left.plot(
            crossed.values("load"), crossed.values("speedup"), color=look["color"], marker="X", markersize=10, ls=""
        )
        points = data.where(panel="rate", draft_tokens=drafts)
        middle = points.values("speedup")
        spread = np.nan_to_num([middle - points.values("low"), points.values("high") - middle])
        right.errorbar(
            points.values("load"), middle, yerr=np.maximum(spread, 0.0), marker=MARKS[index], capsize=2,
            label=words.labelled(label, "simulated"), **look,
        )  # fmt: skip
        full = points.where(saturated=1)
        right.plot(
            full.values("load"), full.values("speedup"), color=look["color"], marker=MARKS[index], mfc="white", ls=""
        )
    published = data.where(basis="measured")
    if len(published):
        label = words("curve_measured", K=published.one("draft_tokens"))
        left.plot(published.values("load"), published.values("speedup"), label=label, **measured(0))
    log_axis(left, [1, 4, 16, 64, 256])
    ticks = data.where(panel="rate", draft_tokens=DRAFTS[0]).values("load")
    log_axis(right, [float(f"{load:.2g}") for load in ticks[:5]])
    left.set(xlabel=words("x_batch"), ylabel=words("y"), title=words("panel_batch"))
    right.set(xlabel=words("x_rate"), title=words("panel_rate"))
    legend_beside(figure, [left, right], headings=[words("left"), words("right")])
    notes = [words("note")]
    if len(published):
        notes.append(words("note_published", ids=ids_text([str(name) for name in published.columns["row_id"]])))
    finish(figure, words("title"), notes=notes)
