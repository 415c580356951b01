"""Figure 14: fixed and dynamic speculation while the load swings."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from roofline.units import ms_from_seconds
from scenarios.build import Arm
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import QUIET, colour, finish, legend_beside
from scenarios.figures.services import LARGEST_K, course_service
from scenarios.figures.speedup_vs_load import full_rate_per_s
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.break_even import speculating_arm
from simulator import FixedDraft, IidAcceptance, NoProposer, Result, Speculation, Workload, simulate
from simulator.controllers import SGLANG_SLOTS, ClosedLoop, ThroughputOptimal

HEIGHT_INCHES = 7.2
PERIOD_S, PERIODS, BIN_S = 120.0, 2, 4.0
MEAN_SHARE, SWING_FRACTION = 0.3, 0.9
"""Of what plain decoding could carry with full batches; from a tenth to almost twice the mean."""
FIXED_K = 7
POLICIES = ("off", "fixed", "closed_loop", "optimal")


@dataclass(frozen=True, slots=True)
class _Way:
    name: str
    arm: Arm
    speculation: Speculation


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Arrivals, running requests, K and time per token in bins of time, for four ways to choose K."""
    swing = {"period_s": PERIOD_S, "swing_fraction": SWING_FRACTION}
    scale = course_service(assumptions)
    rate_per_s = MEAN_SHARE * full_rate_per_s(scale, assumptions)
    requests = max(1, round(rate_per_s * PERIOD_S * PERIODS))
    service = course_service(assumptions, workload={"requests": requests, "swing": swing})
    work = workload_at(service.scenario, LoadPoint(0, "rate", rate_per_s), trace=None, seed=seed)
    arm = speculating_arm(service)
    acceptance = (IidAcceptance(assumptions.alpha),)
    ways = (
        _Way("off", service.off, Speculation(NoProposer(), FixedDraft(0))),
        _Way("fixed", arm, Speculation(arm.proposer, FixedDraft(FIXED_K), acceptance)),
        _Way("closed_loop", arm, Speculation(arm.proposer, ClosedLoop(SGLANG_SLOTS), acceptance)),
        _Way("optimal", arm, Speculation(arm.proposer, ThroughputOptimal(LARGEST_K), acceptance)),
    )
    rows: Rows = []
    for way in ways:
        result = simulate(
            work, costs=way.arm.costs, limits=way.arm.limits, speculation=way.speculation, seed=seed, trace_steps=True
        )
        rows += _binned(way.name, work, result)
    return Table.of(rows)


def _binned(policy: str, work: Workload, result: Result) -> Rows:
    trace = result.steps
    if trace is None:
        raise AssertionError("a trace was asked for")
    bins = round(PERIOD_S * PERIODS / BIN_S)
    place = np.minimum((trace.start_s / BIN_S).astype(np.int64), bins)
    step_s = trace.verify_s + trace.draft_s + trace.host_s

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, weights=values, minlength=bins + 1)[:bins]

    arrivals = np.histogram(work.arrival_s, bins=bins, range=(0.0, bins * BIN_S))[0]
    busy_s, emitted = total(step_s), total(trace.emitted_tokens * 1.0)
    decoded = total(trace.decoding * 1.0)
    mean_k = np.divide(total(trace.draft_tokens * 1.0), decoded, out=np.full(bins, np.nan), where=decoded > 0)
    batch = np.divide(total(trace.decoding * step_s), busy_s, out=np.full(bins, np.nan), where=busy_s > 0)
    token_s = np.divide(total(trace.decoding * step_s), emitted, out=np.full(bins, np.nan), where=emitted > 0)
    return [
        {"policy": policy, "basis": "simulated", "time_s": (index + 0.5) * BIN_S,
         "arrivals_per_s": float(arrivals[index]) / BIN_S, "draft_tokens": float(mean_k[index]),
         "batch": float(batch[index]), "token_s": float(token_s[index]), "mean_tpot_s": result.mean("tpot")}
        for index in range(bins)
    ]  # fmt: skip


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Mean TPOT of each way in milliseconds, and the largest rate."""
    times = {name: ms_from_seconds(float(data.where(policy=name).values("mean_tpot_s")[0])) for name in POLICIES}
    return times | {"peak": float(data.values("arrivals_per_s").max()), "fixed_k": FIXED_K}


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Three panels over one axis of time: arrivals with running requests, K, time per token."""
    top, middle, bottom = figure.subplots(3, 1, sharex=True)
    first = data.where(policy=POLICIES[0])
    top.fill_between(first.values("time_s"), first.values("arrivals_per_s"), color="0.85", label=words("arrivals"))
    for index, policy in enumerate(POLICIES):
        curve = data.where(policy=policy)
        label = words(f"policy_{policy}", K=FIXED_K)
        if policy != "off":
            middle.plot(curve.values("time_s"), curve.values("draft_tokens"), **colour(index))
        bottom.plot(curve.values("time_s"), curve.values("token_s") * 1e3, label=label, **colour(index))
    top.set_ylabel(words("y_rate"))
    middle.set_ylabel(words("y_k"))
    bottom.set(ylabel=words("y_time"), xlabel=words("x"))
    bottom.axhline(0, color=QUIET, linewidth=0.5)
    legend_beside(figure, [top, bottom], title=words.basis("simulated"))
    finish(figure, words("title"), notes=[words("note")])
