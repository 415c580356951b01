"""`--explain`: the byte and flop account of one plain step and one verification, operator by operator."""

from __future__ import annotations

from roofline.account import AccountRow, pass_account
from roofline.units import BYTES_PER_GB, FLOPS_PER_TFLOP
from scenarios.build import Service
from scenarios.questions.decide import Decision
from scenarios.report.verdict_text import reference_load
from scenarios.report.words import duration_text, grid, number, time_text


def explain_lines(service: Service, decision: Decision) -> list[str]:
    """Account of the passes at the batch of the decisive load, on one GPU."""
    load = reference_load(decision)
    batch, drafts = load.round.batch, load.round.draft_tokens
    context_tokens = decision.context_tokens
    lines: list[str] = []
    passes = [("Plain step", service.target, 1), (f"Verification of K = {drafts}", service.target, drafts + 1)]
    for title, model, rows_each in passes:
        rows = pass_account(
            model,
            service.deployment.shard(),
            batch=batch,
            rows_each=rows_each,
            context_tokens=context_tokens,
        )
        lines += [f"{title}: {batch} sequences, {context_tokens:,} tokens of context each, one GPU", *_table(rows), ""]
    if service.draft is not None:
        rows = pass_account(
            service.draft,
            service.deployment.shard(draft=True),
            batch=batch,
            rows_each=1,
            context_tokens=context_tokens,
        )
        lines += [f"One later draft pass: {batch} sequences, one GPU", *_table(rows), ""]
    host, sampler = service.deployment.calibration.host, service.deployment.calibration.sampler
    lines.append(
        f"Host: {duration_text(host.step_s)} a step, {duration_text(host.round_s)} more a round, "
        f"{duration_text(host.draft_pass_s)} a draft pass; choosing tokens: "
        f"{duration_text(sampler.plain_base_s)} plain, "
        f"{duration_text(sampler.verify_base_s)} verify, before what grows with the batch"
    )
    return [*lines, "", *published_lines(decision)]


def published_lines(decision: Decision) -> list[str]:
    """How far off published rows of this kind were, with their sources and the result they come from."""
    published = decision.published
    lines = [f"Checked against: {published.text}"]
    if published.rows:
        lines.append(f"  sources {', '.join(published.sources)} of `specdec validate`, result {published.result}")
    return lines


def _table(rows: tuple[AccountRow, ...]) -> list[str]:
    header = ["  operator", "term", "GB", "TFLOP", "time ms", "floor ms", "launches"]
    cells = [_cells(f"  {row.name}", row.term, row) for row in rows]
    total = AccountRow(
        name="total",
        term="",
        hbm_bytes=sum(row.hbm_bytes for row in rows),
        flops=sum(row.flops for row in rows),
        seconds=sum(row.seconds for row in rows),
        launches=sum(row.launches for row in rows),
        floor_s=sum(row.floor_s for row in rows),
    )
    return grid(header, [*cells, _cells("  total", "", total)])


def _cells(name: str, term: str, row: AccountRow) -> list[str]:
    return [
        name,
        term,
        number(row.hbm_bytes / BYTES_PER_GB),
        number(row.flops / FLOPS_PER_TFLOP),
        time_text(row.seconds),
        time_text(row.floor_s),
        str(row.launches),
    ]
