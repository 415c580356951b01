"""What `specdec plan --out` writes: plan.json, plan.csv and the Pareto figure, all or none of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from scenarios.files import folder_written_at_once
from scenarios.plan.answer import Cost, CountTried, Plan, PlanRow
from scenarios.report.files import csv_cell, plain
from scenarios.report.plan_text import headline

PLAN_SCHEMA_VERSION = 1


def write_plan(plan: Plan, folder: Path) -> None:
    """Write everything into `folder`; nothing is left behind when something fails.

    Raises
    ------
    InvalidInput
        The folder cannot be written.
    """
    from scenarios.plan.plot import save_pareto

    with folder_written_at_once(folder) as draft:
        (draft / "plan.json").write_text(plan_json(plan), encoding="utf-8")
        (draft / "plan.csv").write_text(plan_csv(plan), encoding="utf-8", newline="")
        save_pareto(plan, draft / "pareto.png")


def plan_json(plan: Plan) -> str:
    """The plan as one JSON document with a final newline; `null` stands for what is not known."""
    front = set(plan.pareto)
    content = {
        "schema_version": PLAN_SCHEMA_VERSION,
        "specdec_sim_version": plan.version,
        "answer": headline(plan),
        "load_per_s": plan.load_per_s,
        "requests": plan.requests,
        "seed": plan.scenario.run.seed,
        "rows": [
            {**plain(row), "replicas": row.replicas, "gpus": row.gpus, "cost": plain(cost), "pareto": index in front}
            for index, (row, cost) in enumerate(zip(plan.rows, plan.costs, strict=True))
        ],
        "best": None
        if plan.best is None
        else {
            "headroom_fraction": plan.best.headroom_fraction,
            "headroom_is_bound": plan.best.headroom_is_bound,
            "marks": plain(plan.best.marks),
            "scaled": plain(plan.best.scaled),
            "spare_replicas": (plan.best.row.replicas or 0) + 1,
        },
        "options": plan.options,
        "assumptions": plan.assumptions,
        "scenario": plan.scenario,
    }
    return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"


_HEADER = [
    "rank", "gpu", "tensor_parallel", "precision", "mode", "draft_tokens", "status", "reason", "replicas", "gpus",
    "perfect_replicas", "attained_fraction", "attained_half_width_fraction", "one_fewer_attained_fraction", "decided",
    "seeds", "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s", "tpot_p95_s", "tpot_p99_s",
    "throughput_tokens_per_s", "tokens_per_s_per_gpu", "tokens_per_s_per_user", "mean_batch", "acceptance_length",
    "pareto", "usage_per_million_tokens", "reserved_per_million_tokens",
]  # fmt: skip


def plan_csv(plan: Plan) -> str:
    """One row per deployment and mode, best first, base units in the names."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_HEADER)
    front = set(plan.pareto)
    for index, (row, cost) in enumerate(zip(plan.rows, plan.costs, strict=True)):
        cells = [index + 1, *_row_cells(row), *_count_cells(row, row.count), index in front, *_cost_cells(cost)]
        writer.writerow([csv_cell(cell) for cell in cells])
    return stream.getvalue()


def _row_cells(row: PlanRow) -> list[Any]:
    choice = row.choice
    return [choice.gpu, choice.tensor_parallel, choice.precision, row.mode, row.draft_tokens, row.status, row.reason]


def _count_cells(row: PlanRow, count: CountTried | None) -> list[Any]:
    if count is None:
        return ["", "", row.bound_replicas, *[""] * 17]
    worst = min(count.reached, key=lambda each: each.fraction - each.wanted_fraction)
    fewer = row.one_fewer
    below = min((each.fraction for each in fewer.reached), default="") if fewer is not None else ""
    return [
        count.replicas, row.gpus, row.bound_replicas, worst.fraction, worst.half_width_fraction, below, count.decided,
        count.seeds, *count.ttft_s, *count.tpot_s, count.throughput_tokens_per_s, row.gpu_tokens_per_s(count),
        count.user_tokens_per_s, count.mean_batch, count.acceptance_length,
    ]  # fmt: skip


def _cost_cells(cost: Cost) -> list[Any]:
    values = (cost.usage_per_million_tokens, cost.reserved_per_million_tokens)
    return ["" if value is None else value for value in values]
