"""What a lab run says on the terminal, and the fragments of a scenario that it leaves."""

from __future__ import annotations

import numpy as np
import tomli_w

from calibrate.lab.rounds import Estimate
from calibrate.lab.speed import SpeedCell
from scenarios.fragments import acceptance_fragment
from scenarios.lab.results import CellResult, entropy_correlation
from scenarios.lab.run import LabRun
from simulator.matchers.counts import RoundCounts

MIN_SLICES = 8
METHODS = {"ngram": "ngram", "suffix": "suffix", "head": "eagle", "layer-skip": "draft_model", "draft": "draft_model"}
"""The method of a scenario that a lab proposer stands for."""


def run_lines(run: LabRun) -> list[str]:
    """The table, the correlation and the remarks; everything in it is measured."""
    plan = run.plan
    lines = [
        f"measured: {run.model_name}, proposer {plan.proposer}, K = {plan.loop.draft_tokens}, {plan.prompts} passages "
        f"a slice, {plan.prompt_tokens} real tokens before each answer",
        "",
        f"{'slice':<18} {'task':<6} {'temp':>4} {'entropy':>8} {'position 1 (95 %)':>19} {'1-TV':>6} {'AL (95 %)':>17} "
        " conditional",
    ]
    lines += [_cell_line(each) for each in run.cells]
    for temperature in plan.temperatures:
        lines += ["", _correlation_line(run, temperature)]
    loops = [each for each in run.cells if each.cell.looping_answers]
    if loops:
        worst = max(loops, key=lambda each: each.cell.looping_answers / each.cell.answers)
        lines.append(
            f"degenerate: {sum(each.cell.looping_answers for each in loops)} answers end in a cycle, most in "
            f"{worst.slice_name} at temperature {worst.temperature:g} ({worst.cell.looping_answers} of "
            f"{worst.cell.answers}); acceptance there is flattered"
        )
    return lines + [f"note: {remark}" for remark in run.remarks]


def _cell_line(each: CellResult) -> str:
    cell = each.cell
    overlap = "" if cell.overlap is None else f"{cell.overlap.mean:.2f}"
    conditional = " ".join("  - " if np.isnan(share) else f"{share:.2f}" for share in cell.counts.conditional)
    return (
        f"{each.slice_name:<18} {each.task:<6} {each.temperature:>4g} {cell.entropy_nats.mean:>8.2f} "
        f"{_interval(cell.first):>19} {overlap:>6} {_interval(cell.length):>17}  {conditional}"
    )


def _interval(estimate: Estimate) -> str:
    if np.isnan(estimate.mean):
        return "no drafts"
    return f"{estimate.mean:.2f} ({estimate.low:.2f}-{estimate.high:.2f})"


def _correlation_line(run: LabRun, temperature: float) -> str:
    value, slices = entropy_correlation(run.cells, temperature)
    if slices < MIN_SLICES:
        return f"temperature {temperature:g}: no correlation over fewer than {MIN_SLICES} slices ({slices} here)"
    return (
        f"temperature {temperature:g}: Spearman correlation of position-1 acceptance with target entropy {value:+.2f} "
        f"over {slices} slices"
    )


def speed_lines(cells: list[tuple[CellResult, SpeedCell]]) -> list[str]:
    """Predicted against measured, one line a cell."""
    lines = [
        "",
        "speed on this machine, batch 1 (measured); predicted = AL / R, AL of the answers above, R from steps on "
        "scrambled text",
        f"{'slice':<18} {'temp':>4} {'AL':>5} {'AL timed':>9} {'R':>5} {'S measured (quartiles)':>23} "
        f"{'S predicted':>12} {'error':>7}",
    ]
    for each, speed in cells:
        measured = f"{speed.measured_speedup:.3f} ({speed.measured_low:.2f}-{speed.measured_high:.2f})"
        lines.append(
            f"{each.slice_name:<18} {each.temperature:>4g} {speed.acceptance_length:>5.2f} "
            f"{speed.timed_acceptance_length:>9.2f} {speed.round_cost:>5.2f} {measured:>23} "
            f"{speed.predicted_speedup:>12.3f} {speed.error:>+7.1%}"
        )
    errors = np.abs([speed.error for _, speed in cells])
    lines.append(f"median |error| {np.median(errors):.1%}, largest {errors.max():.1%} over {len(cells)} cells")
    return lines


def fragment_toml(run: LabRun, task: str, temperature: float) -> str | None:
    """`[speculation]` and `[acceptance]` of a task, as measured over its slices; None where nothing was proposed."""
    chosen = [each for each in run.cells if each.task == task and each.temperature == temperature]
    tables = np.stack([each.cell.counts.by_drafted_accepted for each in chosen])
    counts = RoundCounts(tables.sum(axis=0), without_bonus=0)
    if not counts.proposing_rounds:
        return None
    source = (
        f"{run.model_name} (sha256 {run.model_sha256[:16]}) with {run.plan.proposer} at temperature {temperature:g} on "
        f"{', '.join(each.slice_name for each in chosen)}: {counts.rounds} rounds"
    )
    content = acceptance_fragment(METHODS[run.plan.proposer], counts, measured_on=source)
    return f"# acceptance lab, task {task}\n{tomli_w.dumps(content)}"
