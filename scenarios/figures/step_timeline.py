"""Figure 7: where the time of a round goes, from simulated step traces of one request on several GPUs."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from roofline.cost import TableSize, step_cost_table
from roofline.efficiency import textbook_calibration
from roofline.units import ms_from_seconds
from scenarios.build import Arm, Service
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, finish, legend_beside
from scenarios.figures.services import course_service
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.questions.break_even import speculating_arm
from simulator import FixedDraft, IidAcceptance, Speculation, make_workload, simulate

GPUS = 4
"""Replicas of one GPU have no draft to shard."""
ROUNDS = 6
OUTPUT_TOKENS = 400
VARIANTS: dict[str, dict[str, Any]] = {
    "ideal": {"hardware": {"draft_tensor_parallel": 1}},
    "eager": {"hardware": {"draft_tensor_parallel": 1}, "engine": {"enforce_eager": True}},
    "graph": {"hardware": {"draft_tensor_parallel": 1}},
    "sharded": {"hardware": {"draft_tensor_parallel": GPUS}},
}
PARTS = ("verify", "draft", "host")
HATCHES = ("", "///", "...")


def compute(assumptions: Assumptions, seed: int) -> Table:
    """The first rounds of one request, one row a round, for four ways to run them; and the mean time per token."""
    rows: Rows = []
    for variant, sections in VARIANTS.items():
        hardware = {"tensor_parallel": GPUS, **sections["hardware"]}
        service = course_service(assumptions, **{**sections, "hardware": hardware})
        arm = speculating_arm(service)
        costs_from = arm.costs.label
        if variant == "ideal":
            arm, costs_from = _ideal(service, arm), "closed form"
        rows += _rounds(arm, assumptions, seed=seed, variant=variant, costs_from=costs_from)
    return Table.of(rows)


def _ideal(service: Service, arm: Arm) -> Arm:
    """The same rounds where every GPU reaches its ceilings and nothing else takes time."""
    deployment = service.deployment.model_copy(update={"calibration": textbook_calibration(service.deployment.gpu)})
    size = TableSize(
        max_tokens=arm.costs.max_tokens,
        max_sequences=arm.costs.max_sequences,
        max_draft_tokens=arm.costs.max_draft_tokens,
    )
    costs = step_cost_table(service.target, deployment, size=size, draft=service.draft, work=arm.proposer.work)
    return replace(arm, costs=costs)


def _rounds(arm: Arm, assumptions: Assumptions, *, seed: int, variant: str, costs_from: str) -> Rows:
    requests = make_workload([0.0], prompt_tokens=[assumptions.input_tokens], output_tokens=[OUTPUT_TOKENS])
    result = simulate(
        requests,
        costs=arm.costs,
        limits=arm.limits,
        speculation=Speculation(
            arm.proposer, FixedDraft(assumptions.draft_tokens), (IidAcceptance(assumptions.alpha),)
        ),
        seed=seed,
        trace_steps=True,
    )
    trace = result.steps
    if trace is None:
        raise AssertionError("a trace was asked for")
    decoding = np.flatnonzero(trace.decoding > 0)[:ROUNDS]
    first_s = float(trace.start_s[decoding[0]])
    return [
        {"variant": variant, "basis": "simulated", "costs_from": costs_from, "round": number,
         "start_s": float(trace.start_s[step]) - first_s, "verify_s": float(trace.verify_s[step]),
         "draft_s": float(trace.draft_s[step]), "host_s": float(trace.host_s[step]),
         "emitted_tokens": int(trace.emitted_tokens[step]), "tpot_s": float(result.tpot_s[0])}
        for number, step in enumerate(decoding)
    ]  # fmt: skip


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Milliseconds per token, by variant."""
    return {variant: ms_from_seconds(data.where(variant=variant).values("tpot_s")[0]) for variant in VARIANTS}


def draw(figure: Figure, data: Table, words: Words) -> None:
    """One bar a variant, cut into rounds and their parts; the time per token in its name."""
    axes = figure.subplots()
    names: list[str] = []
    for place, variant in enumerate(VARIANTS):
        rounds = data.where(variant=variant)
        names.append(words(f"variant_{variant}", tpot=ms_from_seconds(float(rounds.values("tpot_s")[0]))))
        left_s = rounds.values("start_s")
        for part, hatch, color in zip(PARTS, HATCHES, COLOURS, strict=False):
            width_s = rounds.values(f"{part}_s")
            axes.barh(
                [place] * len(rounds), width_s * 1e3, left=left_s * 1e3, height=0.62, color=color, hatch=hatch,
                edgecolor="white", linewidth=0.4, label=words(f"part_{part}") if place == 0 else "_",
            )  # fmt: skip
            left_s = left_s + width_s
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(words("x"))
    legend_beside(figure, [axes], title=words.basis("simulated"))
    finish(figure, words("title"), notes=[words("note", gpus=GPUS, rounds=ROUNDS)])
