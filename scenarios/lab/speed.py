"""Which cells of a run are timed: the first slice of each task, at every temperature."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from calibrate.lab.cells import proposer_factory
from calibrate.lab.speed import SpeedCell, measure_speed
from calibrate.writing import write_text_at_once
from scenarios.lab.results import CellResult
from scenarios.lab.run import LabRun, Told, kept, load, prompts_of, proposer_asked
from scenarios.lab.texts import chosen_slices

TIMED_PROMPTS = 12


def time_cells(run: LabRun, out: Path, *, told: Told) -> list[tuple[CellResult, SpeedCell]]:
    """Measured and predicted speed-up of those cells; what an earlier run has timed is kept."""
    plan = run.plan
    loaded = load(plan.model, told)
    asked = proposer_asked(plan, loaded, out=out, told=told)
    first = {text.task: text for text in reversed(chosen_slices(plan.tasks))}
    timed: list[tuple[CellResult, SpeedCell]] = []
    names = {text.name for text in first.values()}
    cells = [each for each in run.cells if each.slice_name in names]
    for index, each in enumerate(cells):
        told(f"timing both loops on {each.slice_name} at temperature {each.temperature:g}", index, len(cells))
        path = out / "cells" / f"{each.slice_name}-{each.temperature:g}.speed.json"
        if (before := kept(path, lambda content: SpeedCell(**content))) is not None:
            timed.append((each, before))
            continue
        prompts, _ = prompts_of(first[each.task], loaded, plan)
        loop = replace(plan.loop, temperature=each.temperature)
        factory = proposer_factory(loaded.model, asked, temperature=each.temperature)
        speed = measure_speed(
            loaded.model,
            factory,
            prompts=prompts[:TIMED_PROMPTS],
            plan=loop,
            acceptance_length=each.cell.length.mean,
        )
        write_text_at_once(path, json.dumps(asdict(speed), indent=1) + "\n")
        timed.append((each, speed))
    told("timed", len(cells), len(cells))
    return timed
