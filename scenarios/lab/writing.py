"""The files of a lab run: JSON, table, scenario fragments, figures."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from calibrate.lab.speed import SpeedCell
from scenarios.files import write_text_at_once
from scenarios.lab.results import CellResult, cell_to_json, entropy_correlation, table_csv
from scenarios.lab.run import LabRun
from scenarios.lab.text import fragment_toml


def write_run(run: LabRun, speed: list[tuple[CellResult, SpeedCell]], out: Path) -> tuple[Path, ...]:
    """Write everything; each file whole or not at all."""
    from scenarios.lab.plot import save_figures

    texts = {"acceptance.json": _run_json(run, speed), "acceptance.csv": table_csv(run.cells)}
    for temperature in run.plan.temperatures:
        for task in dict.fromkeys(each.task for each in run.cells):
            fragment = fragment_toml(run, task, temperature)
            if fragment is not None:
                texts[f"fragment-{task}-{temperature:g}.toml"] = fragment
    for name, text in texts.items():
        write_text_at_once(out / name, text)
    figures = [path for temperature in run.plan.temperatures for path in save_figures(out, run.cells, temperature)]
    return (*(out / name for name in texts), *figures)


def _run_json(run: LabRun, speed: list[tuple[CellResult, SpeedCell]]) -> str:
    correlations = {temperature: entropy_correlation(run.cells, temperature) for temperature in run.plan.temperatures}
    content = {
        "label": "measured",
        "model": {"name": run.model_name, "sha256": run.model_sha256},
        "plan": asdict(run.plan),
        "entropy_correlation": [
            {"temperature": temperature, "spearman": None if value != value else round(value, 4), "slices": slices}
            for temperature, (value, slices) in correlations.items()
        ],
        "cells": [cell_to_json(each) for each in run.cells],
        "speed": [
            {
                "slice": each.slice_name,
                "temperature": each.temperature,
                **asdict(cell),
                "predicted_speedup": cell.predicted_speedup,
            }
            for each, cell in speed
        ],
        "remarks": run.remarks,
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"
