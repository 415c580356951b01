"""What `specdec simulate` prints and writes: a summary and one row a request."""

from __future__ import annotations

import csv
import io
import json
import math

from scenarios.questions.simulate import OneRun
from scenarios.report import words

HEAD_ROWS = 20
_COLUMNS = (
    "request", "class", "arrival_s", "prompt_tokens", "output_tokens", "ttft_s", "tpot_s", "latency_s", "rounds",
    "drafted_tokens", "accepted_tokens", "preemptions", "refused",
)  # fmt: skip


def summary_lines(run: OneRun) -> list[str]:
    """The figures of the run and what they rest on."""
    result, counts = run.result, run.result.counts
    times = [
        f"{metric.upper()} p50/p95/p99 "
        + words.durations_text([result.percentile(metric, quantile) for quantile in (0.5, 0.95, 0.99)])
        for metric in ("ttft", "tpot", "latency")
    ]
    state = "keeps up" if result.saturation.enough_data else "too few requests to tell whether it keeps up"
    if result.saturation.saturated:
        state = "SATURATED: the backlog grows"
    return [
        f"{run.scenario.name}, {'with speculation' if run.arm == 'on' else 'plain'}, at {run.point.text}: {state}",
        f"  requests    {counts.arrived:,} arrived, {counts.finished:,} finished, {counts.refused:,} refused",
        f"  times       {', '.join(times)}",
        f"  throughput  {words.number(result.throughput_tokens_per_s)} tokens/s, "
        f"{words.number(result.throughput_requests_per_s)} requests/s",
        f"  batch       {words.number(result.mean_batch)} running on average, busy "
        f"{words.share_text(result.busy_fraction)}",
        f"  AL          {result.acceptance_length:.2f} tokens a round",
        f"  ceilings    {words.share_text(result.memory_utilisation_fraction)} of the memory bandwidth, "
        f"{words.share_text(result.compute_utilisation_fraction)} of the arithmetic, while busy",
        "Rests on",
        *(words.labelled_text(item.label, item.text) for item in run.assumptions),
    ]


def request_lines(run: OneRun) -> list[str]:
    """The first requests as a table."""
    rows = [[_short(cell) for cell in row] for row in _rows(run)[:HEAD_ROWS]]
    more = len(run.result.arrival_s) - len(rows)
    return [*words.grid(list(_COLUMNS), rows, left=0), *([f"… and {more:,} more (--out FILE)"] if more > 0 else [])]


def requests_csv(run: OneRun) -> str:
    """All requests."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows([_cell(cell) for cell in row] for row in _rows(run))
    return stream.getvalue()


def run_json(run: OneRun) -> str:
    """The summary as JSON."""
    result = run.result
    content = {
        "scenario": run.scenario.model_dump(mode="json"),
        "arm": run.arm,
        "load": {"kind": run.point.kind, "value": run.point.value},
        "seed": result.seed,
        "label": result.label,
        "saturated": result.saturation.saturated,
        "saturation_known": result.saturation.enough_data,
        "requests": {name: getattr(result.counts, name) for name in ("arrived", "finished", "refused")},
        **{
            f"{metric}_p{100 * quantile:.0f}_s": _finite(result.percentile(metric, quantile))
            for metric in ("ttft", "tpot", "latency")
            for quantile in (0.5, 0.95, 0.99)
        },
        "throughput_tokens_per_s": result.throughput_tokens_per_s,
        "throughput_requests_per_s": result.throughput_requests_per_s,
        "mean_batch": result.mean_batch,
        "busy_fraction": result.busy_fraction,
        "acceptance_length": result.acceptance_length,
        "assumptions": [{"label": item.label, "text": item.text} for item in run.assumptions],
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _rows(run: OneRun) -> list[list[float | int | str | bool]]:
    result = run.result
    columns = [
        range(len(result.arrival_s)),
        [int(index) for index in result.class_id],
        *(
            [float(value) for value in values] if values.dtype.kind == "f" else [int(value) for value in values]
            for values in (
                result.arrival_s,
                result.prompt_tokens,
                result.output_tokens,
                result.ttft_s,
                result.tpot_s,
                result.latency_s,
                result.rounds,
                result.drafted_tokens,
                result.accepted_tokens,
                result.preemptions,
                result.refused,
            )
        ),
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _short(cell: float | int | str | bool) -> str:
    return words.number(cell) if isinstance(cell, float) else str(cell)


def _cell(cell: float | int | str | bool) -> float | int | str:
    if isinstance(cell, float):
        return f"{cell:.9g}" if math.isfinite(cell) else ""
    return cell


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
