"""Predicted against measured for one run: numbers, a verdict, `report.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrate.calibrating import setting_of, verdict_of
from calibrate.cells import Cell, Decisions, cells_of, decide_by
from calibrate.jobs import Job
from calibrate.measurements import Row
from calibrate.predict import Setting, cost_table, predict_s, round_of
from calibrate.samples import JobSamples, clean_fraction, collect, repetitions, typical_s
from calibrate.writing import write_text_at_once
from roofline.calibration import Calibration, Verdict

if TYPE_CHECKING:
    from calibrate.loops import LoopReport

REPORT_FILE = "report.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """R of one cell by term, measured from its components and predicted, in units of the plain step.

    `measured_ratio` is of the whole measured round; what its components leave is shown as rest.
    """

    batch: int
    draft_tokens: int
    measured: dict[str, float]
    predicted: dict[str, float]
    measured_ratio: float


@dataclass(frozen=True, slots=True)
class Report:
    """One run's predictions judged on points its fit has not seen; errors are of the speed-up S."""

    calibration: Calibration
    cells: tuple[Cell, ...]
    terms: tuple[Terms, ...]
    decisions: Decisions
    median_abs_error: float
    p90_abs_error: float
    max_abs_error: float
    bias: float
    noise_floor: float
    noise_floor_p90: float
    textbook_median_abs_error: float
    textbook_p90_abs_error: float
    wall_median_abs_error: float
    repetitions: int
    clean_share: float
    verdict: Verdict
    loops: LoopReport | None


def report_on(rows: list[Row], record: dict[str, Any], *, calibration: Calibration) -> Report:
    """Judge a calibration by the end-to-end rows of its run."""
    setting = setting_of(record)
    samples = collect(rows)
    cells = cells_of(samples, calibration, setting=setting)
    wall = cells_of(collect(rows, "wall"), calibration, setting=setting)
    errors = np.array([abs(cell.error_fraction) for cell in cells])
    textbook = np.array([abs(cell.textbook_error_fraction) for cell in cells])
    noise = np.array([cell.noise_fraction for cell in cells])
    repeated = repetitions(rows)
    verdict = verdict_of(repeated, float(np.median(noise)), what="measured speed-ups")
    reasons = dict.fromkeys((*calibration.verdict.reasons, *verdict.reasons))
    return Report(
        calibration=calibration,
        cells=tuple(cells),
        terms=tuple(terms_of(samples, calibration, setting=setting)),
        decisions=decide_by(cells),
        median_abs_error=float(np.median(errors)),
        p90_abs_error=float(np.quantile(errors, 0.9)),
        max_abs_error=float(errors.max()),
        bias=float(np.mean([cell.error_fraction for cell in cells])),
        noise_floor=float(np.median(noise)),
        noise_floor_p90=float(np.quantile(noise, 0.9)),
        textbook_median_abs_error=float(np.median(textbook)),
        textbook_p90_abs_error=float(np.quantile(textbook, 0.9)),
        wall_median_abs_error=float(np.median([abs(cell.error_fraction) for cell in wall])),
        repetitions=repeated,
        clean_share=clean_fraction(rows),
        verdict=Verdict(stable=not reasons, reasons=tuple(reasons)),
        loops=_loops(rows, calibration, setting),
    )


def _loops(rows: list[Row], calibration: Calibration, setting: Setting) -> LoopReport | None:
    if not any(row.job.kind == "loop" for row in rows):
        return None
    from calibrate.loops import loop_report  # compiles the simulator, which most reports do without

    return loop_report(rows, calibration, setting=setting)


def terms_of(samples: JobSamples, calibration: Calibration, *, setting: Setting) -> list[Terms]:
    """R by term for every cell whose components were all measured."""
    known = {job: typical_s(samples, job) for job in samples.jobs()}
    table = cost_table(calibration, setting)
    found: list[Terms] = []
    for job in samples.jobs():
        plain = Job("plain_step", "target", job.batch, 1, job.context_tokens)
        if job.kind != "round" or plain not in known:
            continue
        parts = _parts_of(job)
        if any(part not in known for group in parts.values() for part in group):
            continue
        plain_s, cost = known[plain], round_of(table, job)
        found.append(
            Terms(
                batch=job.batch,
                draft_tokens=job.draft_tokens,
                measured={name: sum(known[part] for part in group) / plain_s for name, group in parts.items()},
                predicted={
                    name: float(predict_s(calibration, setting, jobs=group).sum()) / cost.plain_s
                    for name, group in parts.items()
                },
                measured_ratio=known[job] / plain_s,
            )
        )
    return sorted(found, key=lambda term: (term.batch, term.draft_tokens))


def _parts_of(job: Job) -> dict[str, list[Job]]:
    """Components that a round is made of."""
    batch, context, drafts = job.batch, job.context_tokens, job.draft_tokens
    later = [Job("forward", "draft", batch, 1, context)] * (drafts - 1)
    return {
        "verify": [Job("forward", "target", batch, drafts + 1, context)],
        "draft": [Job("cold_forward", "draft", batch, 2, context), *later],
        "sampling": [
            Job("verify", "target", batch, drafts + 1, 0, drafts),
            *[Job("sample_draft", "draft", batch, 1, 0)] * drafts,
        ],
    }


def as_json(report: Report) -> dict[str, Any]:
    """Content of `report.json`."""
    numbers = {
        name: getattr(report, name)
        for name in (
            "median_abs_error", "p90_abs_error", "max_abs_error", "bias", "noise_floor", "noise_floor_p90",
            "textbook_median_abs_error", "textbook_p90_abs_error", "wall_median_abs_error", "repetitions",
            "clean_share",
        )
    }  # fmt: skip
    return {
        "schema_version": SCHEMA_VERSION,
        "calibration": {"name": report.calibration.name, "rows_sha256": report.calibration.rows_sha256},
        "machine": report.calibration.machine.model_dump(),
        "verdict": {"stable": report.verdict.stable, "reasons": list(report.verdict.reasons)},
        "held_out_cells": len(report.cells),
        **numbers,
        "regret_mean": report.decisions.regret_mean,
        "right_side_share": report.decisions.right_side_share,
        "decisions": asdict(report.decisions),
        "cells": [
            {**asdict(cell), "error": cell.error_fraction, "textbook_error": cell.textbook_error_fraction}
            for cell in report.cells
        ],
        "terms": [asdict(term) for term in report.terms],
        "loops": asdict(report.loops) if report.loops else None,
    }


def write_report(report: Report, folder: Path) -> Path:
    """Write `report.json`."""
    path = folder / REPORT_FILE
    write_text_at_once(path, json.dumps(as_json(report), indent=2) + "\n")
    return path
