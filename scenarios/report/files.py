"""What `--out` writes: result.json, loads.csv and two figures, all or none of them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import BaseModel

from scenarios.files import folder_written_at_once
from scenarios.questions.advice import Advice
from scenarios.questions.decide import Decision
from scenarios.questions.load_run import QUANTILES, ArmAtLoad, CaseAtLoad, LoadOutcome
from scenarios.report.verdict_text import headline

RESULT_SCHEMA_VERSION = 1


def write_decision(decision: Decision, folder: Path) -> None:
    """Write everything into `folder`; nothing is left behind when something fails.

    Raises
    ------
    InvalidInput
        The folder cannot be written.
    """
    from scenarios.plot import save_al_vs_round_cost, save_speedup_vs_load

    with folder_written_at_once(folder) as draft:
        (draft / "result.json").write_text(decision_json(decision), encoding="utf-8")
        (draft / "loads.csv").write_text(loads_csv(decision), encoding="utf-8", newline="")
        save_speedup_vs_load(decision, draft / "speedup_vs_load.png")
        save_al_vs_round_cost(decision, draft / "al_vs_round_cost.png")


def decision_json(decision: Decision) -> str:
    """The decision as one JSON document with a final newline; `null` stands for what is not known."""
    advice = decision.advice
    content = {
        "schema_version": RESULT_SCHEMA_VERSION,
        "specdec_sim_version": decision.version,
        "verdict": decision.verdict.headline,
        "answer": headline(decision),
        "segments": decision.verdict.segments,
        "crossover": decision.verdict.crossover,
        "draft_tokens": decision.draft_tokens,
        "acceptance": [
            {
                "name": case.name,
                "label": case.label,
                "text": case.text,
                "length_at_draft_tokens": case.length(decision.draft_tokens),
            }
            for case in decision.cases
        ],
        "draft_tokens_advice": None
        if advice is None
        else {"ranges": advice.ranges, "engine": _engine_words(decision, advice)},
        "draft_shapes": [
            {"name": shape.name, "depth": shape.depth, "width": shape.width, "ranges": shape.advice.ranges}
            for shape in decision.shapes
        ],
        "loads": decision.loads,
        "memory": decision.memory,
        "kv_tokens_lost": decision.memory.kv_tokens_lost,
        "draft_window": decision.window,
        "context_tokens": decision.context_tokens,
        "requests_per_load": decision.requests,
        "seed": decision.scenario.run.seed,
        "assumptions": decision.assumptions,
        "published_rows": decision.published,
        "serve_flags": decision.flags,
        "scenario": decision.scenario,
        "calibration": decision.calibration,
    }
    return json.dumps(plain(content), indent=2, allow_nan=False) + "\n"


def _engine_words(decision: Decision, advice: Advice) -> Any:
    """The schedule as vLLM reads it; it has none for trees."""
    return None if decision.scenario.speculation.tree is not None else json.loads(advice.engine_json())


def plain(value: Any) -> Any:
    """Dataclasses, models and arrays as JSON values; NaN and infinity as null."""
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def loads_csv(decision: Decision) -> str:
    """One row per load and arm, base units in the names."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for load in decision.loads:
        writer.writerow(_csv_row(load, "off", load.off, None))
        for case in load.cases:
            name = "on" if len(load.cases) == 1 else f"on_{case.name}"
            writer.writerow(_csv_row(load, name, case.on, case))
        if load.advised is not None:
            writer.writerow(_csv_row(load, "on_best_k", load.advised.on, load.advised))
    return stream.getvalue()


_CSV_HEADER = [
    "load_kind", "load", "arm",
    *(f"{metric}_p{100 * quantile:.0f}_s" for metric in ("ttft", "tpot") for quantile in QUANTILES),
    "throughput_tokens_per_s", "throughput_requests_per_s", "goodput_requests_per_s", "goodput_fraction",
    "mean_batch", "acceptance_length", "saturated", "meets_slo", "refused_fraction", "preemptions",
    "tpot_speedup", "tpot_speedup_low", "tpot_speedup_high",
    "throughput_speedup", "throughput_speedup_low", "throughput_speedup_high", "word",
    "round_cost", "round_cost_verify", "round_cost_draft", "round_cost_host", "break_even", "break_even_length",
]  # fmt: skip


def _csv_row(load: LoadOutcome, arm: str, seen: ArmAtLoad, case: CaseAtLoad | None) -> list[Any]:
    speedups: list[Any] = [""] * 7
    if case is not None:
        intervals = (case.tpot_speedup, case.throughput_speedup)
        speedups = [end for one in intervals for end in (one.estimate, one.low, one.high)] + [case.word]
    values = [
        load.point.kind,
        load.point.value,
        arm,
        *seen.ttft_s,
        *seen.tpot_s,
        seen.throughput_tokens_per_s,
        seen.throughput_requests_per_s,
        seen.goodput_requests_per_s,
        seen.goodput_fraction,
        seen.mean_batch,
        seen.acceptance_length,
        seen.saturated,
        "" if seen.meets_slo is None else seen.meets_slo,
        seen.refused_fraction,
        seen.preemptions,
        *speedups,
        load.round.ratio,
        load.round.verify,
        load.round.draft,
        load.round.host,
        load.break_even.kind,
        load.break_even.length,
    ]
    return [csv_cell(value) for value in values]


def csv_cell(value: Any) -> Any:
    """Six significant digits; nothing where there is no number."""
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return value
