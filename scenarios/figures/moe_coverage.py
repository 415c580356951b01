"""Figure 10: experts that a step touches, and the bytes it reads, against its tokens."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from roofline.catalog import engine, gpu, shipped_calibration
from roofline.cost import Deployment, TableSize, step_cost_table
from roofline.counts import experts_touched
from roofline.efficiency import catalogue_calibration
from roofline.errors import InvalidInput
from roofline.hf_config import load_model
from roofline.specs import Model
from roofline.step_table import StepCostTable
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, colour, finish, legend_beside, log_axis
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MARKED = (1, 4, 16, 64)
SKEW = 1.0
"""Popularity of expert i falls as 1/i: a picture of real routers, which are neither this nor even."""


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Coverage by tokens for even and skewed routing; bytes and time of a step over those of one token."""
    mixture, dense = load_model(assumptions.moe_model), load_model(assumptions.model)
    experts = next((layer.experts for layer in mixture.layers if layer.experts is not None), None)
    if experts is None:
        raise InvalidInput(
            f"--set moe_model={assumptions.moe_model}: it has no routed experts; name a mixture of experts, "
            "e.g. Qwen/Qwen3-30B-A3B"
        )
    rows: Rows = []
    for routing, skew in (("even", 0.0), ("skewed", SKEW)):
        touched = np.asarray(experts_touched(experts.count, experts.per_token, np.array(TOKENS), skew))
        rows += [
            {"panel": "coverage", "basis": "closed form" if skew == 0.0 else "assumed", "curve": routing,
             "tokens": count, "experts": experts.count, "experts_per_token": experts.per_token,
             "covered_fraction": float(value) / experts.count}
            for count, value in zip(TOKENS, touched, strict=True)
        ]  # fmt: skip
    for name, model in (("mixture", mixture), ("dense", dense)):
        costs = _costs(model, assumptions)
        rows += [{"panel": "step", "curve": name, "tokens": count, **_of_one(costs, count)} for count in TOKENS]
    return Table.of(rows)


def _costs(model: Model, assumptions: Assumptions) -> StepCostTable:
    device, profile = gpu(assumptions.gpu), engine(assumptions.engine)
    calibration = shipped_calibration(device.name, profile.name) or catalogue_calibration(device, profile)
    graphs = profile.graph_tokens(device, max_sequences=TOKENS[-1])
    deployment = Deployment(gpu=device, calibration=calibration, graph_tokens=graphs)
    return step_cost_table(model, deployment, size=TableSize(max_tokens=TOKENS[-1], max_sequences=TOKENS[-1]))


def _of_one(costs: StepCostTable, tokens: int) -> dict[str, Cell]:
    target = costs.target
    moved_bytes = target.trunk_bytes + target.logits_bytes[: len(target.trunk_bytes)]
    seconds = target.trunk_s + target.logits_s[: len(target.trunk_s)]
    return {
        "basis": costs.label,
        "step_bytes": float(moved_bytes[tokens]),
        "bytes_ratio": float(moved_bytes[tokens] / moved_bytes[1]),
        "time_ratio": float(seconds[tokens] / seconds[1]),
    }


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Coverage at the marked tokens, and what four and sixteen tokens cost."""
    even = data.where(panel="coverage", curve="even")
    covered: dict[str, object] = {
        f"at_{count}": 100 * even.where(tokens=count).values("covered_fraction")[0] for count in MARKED
    }
    mixture = data.where(panel="step", curve="mixture")
    return covered | {
        "experts": even.one("experts"),
        "each": even.one("experts_per_token"),
        "bytes_4": mixture.where(tokens=4).values("bytes_ratio")[0],
        "time_4": mixture.where(tokens=4).values("time_ratio")[0],
        "dense_4": data.where(panel="step", curve="dense", tokens=4).values("time_ratio")[0],
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left the share of experts, right bytes and time over one token's."""
    left, right = figure.subplots(1, 2)
    coverage = data.where(panel="coverage")
    for index, routing in enumerate(("even", "skewed")):
        curve = coverage.where(curve=routing)
        label = words.labelled(words(f"routing_{routing}"), curve.one("basis"))
        left.plot(
            curve.values("tokens"), 100 * curve.values("covered_fraction"), marker="o", label=label, **colour(index)
        )
    for count in MARKED:
        share = 100 * coverage.where(curve="even", tokens=count).values("covered_fraction")[0]
        left.annotate(f"{share:.0f} %", (count, share), xytext=(-6, 7), textcoords="offset points", ha="right")
    for index, name in enumerate(("mixture", "dense")):
        curve = data.where(panel="step", curve=name)
        for column, dashes in (("bytes_ratio", "-"), ("time_ratio", "--")):
            label = words.labelled(words(f"{name}_{column}"), curve.one("basis"))
            right.plot(
                curve.values("tokens"),
                curve.values(column),
                color=COLOURS[index],
                ls=dashes,
                marker="os"[index],
                label=label,
            )
    for axes in (left, right):
        log_axis(axes, [1, 4, 16, 64, 256])
        axes.set_xlabel(words("x"))
    left.set(ylabel=words("y_coverage"), ylim=(0, 110), xlim=(0.6, 400))
    log_axis(right, [1, 2, 4, 8, 16], which="y")
    right.set_ylabel(words("y_step"))
    legend_beside(figure, [left, right], headings=[words("left"), words("right")])
    note = words("note", experts=coverage.one("experts"), each=coverage.one("experts_per_token"))
    finish(figure, words("title"), notes=[note])
