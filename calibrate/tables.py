"""The terminal form of a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from calibrate.cells import SHOWN_ALPHA, acceptance_length
from calibrate.report import Report

if TYPE_CHECKING:
    from calibrate.loops import LoopReport


def report_tables(report: Report) -> Iterator[Table | Text]:
    """Verdict first, then the grid, the terms of R and the decisions."""
    state = "stable" if report.verdict.stable else "NOT STABLE"
    yield Text(f"{report.calibration.name}: {state}, {report.repetitions} repetitions", style="bold")
    for reason in report.verdict.reasons:
        yield Text(f"  {reason}")
    yield Text(
        f"speed-up S over {len(report.cells)} held-out cells, no end-to-end point fitted: "
        f"median |error| {report.median_abs_error:.1%}, p90 {report.p90_abs_error:.1%}, "
        f"max {report.max_abs_error:.1%}, "
        f"bias {report.bias:+.1%} (split-half noise {report.noise_floor:.1%}, p90 {report.noise_floor_p90:.1%}); "
        f"textbook formula {report.textbook_median_abs_error:.1%}, p90 {report.textbook_p90_abs_error:.1%}; "
        f"by wall clock {report.wall_median_abs_error:.1%}"
    )
    yield _grid(report)
    if report.terms:
        yield _terms(report)
    yield Text(_decisions(report))
    if report.loops is not None:
        yield from _loops(report.loops)


def _grid(report: Report) -> Table:
    table = Table(title=f"measured (predicted) S at acceptance {SHOWN_ALPHA:g} per draft")
    table.add_column("batch \\ K", justify="right")
    drafts = sorted({cell.draft_tokens for cell in report.cells})
    for count in drafts:
        table.add_column(str(count), justify="right")
    for batch in sorted({cell.batch for cell in report.cells}):
        entries: list[str] = []
        for count in drafts:
            cell = next((c for c in report.cells if (c.batch, c.draft_tokens) == (batch, count)), None)
            length = acceptance_length(SHOWN_ALPHA, count)
            entries.append(f"{length / cell.measured_ratio:.2f} ({length / cell.predicted_ratio:.2f})" if cell else "")
        table.add_row(str(batch), *entries)
    return table


def _terms(report: Report) -> Table:
    table = Table(title="round cost R by term, measured (predicted), in plain steps")
    for name in ("batch", "K", "verify", "draft", "sampling", "whole round"):
        table.add_column(name, justify="right")
    for terms in report.terms:
        parts = [
            f"{terms.measured[name]:.2f} ({terms.predicted[name]:.2f})" for name in ("verify", "draft", "sampling")
        ]
        whole = f"{terms.measured_ratio:.2f} ({sum(terms.predicted.values()):.2f})"
        table.add_row(str(terms.batch), str(terms.draft_tokens), *parts, whole)
    return table


def _loops(loops: LoopReport) -> Iterator[Table | Text]:
    table = Table(title="continuous loops, tokens/s of the whole batch")
    for name in ("batch", "K", "alpha", "AL", "measured", "simulated", "error"):
        table.add_column(name, justify="right")
    for cell in loops.cells:
        rates = (
            f"{cell.measured_tokens_per_s:.1f}",
            f"{cell.simulated_tokens_per_s:.1f}",
            f"{cell.error_fraction:+.1%}",
        )
        table.add_row(
            str(cell.batch), str(cell.draft_tokens), f"{cell.alpha:g}", f"{cell.acceptance_length:.2f}", *rates
        )
    yield table
    yield Text(
        f"simulated tokens/s of speculative loops: median |error| {loops.median_abs_error:.1%}, "
        f"p90 {loops.p90_abs_error:.1%}; of plain loops {loops.plain_median_abs_error:.1%}; "
        f"crossover batches at most {loops.most_steps_off} measured steps apart"
    )


def _decisions(report: Report) -> str:
    decisions = report.decisions
    text = (
        f"choosing K by prediction: regret mean {decisions.regret_mean:.2%}, p90 {decisions.regret_p90:.2%}, "
        f"max {decisions.regret_max:.1%}; faster or slower right in {decisions.right_side_share:.1%} "
        f"of {decisions.judged} cells"
    )
    if decisions.crossover_error_fraction is None:
        return text + "; no speed-up crosses one inside the measured batches"
    return text + (
        f"; crossover batch off by {decisions.crossover_error_fraction:.0%} in the median over {decisions.crossovers}, "
        f"at most {decisions.crossover_steps_off} measured steps"
    )
