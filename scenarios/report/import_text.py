"""What `specdec import` says about what it read: one line a file, then what is missing, mixed or contradicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from roofline.units import SECONDS_PER_MS
from scenarios.imports.measured.vocabulary import MeasuredRun, Note


def import_lines(whole: MeasuredRun, each: Sequence[MeasuredRun], notes: Sequence[Note]) -> Iterator[str]:
    """The report."""
    for run in each:
        yield f"{run.source}: {run.format}{f', {run.finished:,} requests' if run.finished else ''}"
    yield f"measured    {_measured(whole)}"
    for note in (*whole.notes, *notes):
        yield f"{note.kind:<12}{note.text}"


def _measured(run: MeasuredRun) -> str:
    parts: list[str] = []
    if run.input_tokens_mean is not None and run.output_tokens_mean is not None:
        parts.append(f"{run.input_tokens_mean:,.0f} tokens in, {run.output_tokens_mean:,.0f} out")
    if run.rate_per_s is not None:
        parts.append(f"{run.rate_per_s:.4g} requests/s")
    if run.concurrency is not None:
        parts.append(f"{run.concurrency} in flight")
    if run.prefix_hit_fraction is not None:
        parts.append(f"prefix hits {run.prefix_hit_fraction:.1%}")
    accepted = run.accepted
    if accepted is not None:
        drafts = f" at K = {accepted.draft_tokens}" if accepted.draft_tokens else ""
        parts.append(f"AL {accepted.acceptance_length:.3f}{drafts}")
        if accepted.per_position:
            parts.append(f"by position {', '.join(f'{share:.3f}' for share in accepted.per_position)} (unconditional)")
    means = [(name, times["mean"]) for name, times in run.times.items() if "mean" in times]
    parts += [f"{name} {mean_s / SECONDS_PER_MS:.4g} ms" for name, mean_s in means]
    if run.steps:
        parts.append(f"{len(run.steps)} forward passes")
    return "; ".join(parts) or "nothing a scenario holds"
