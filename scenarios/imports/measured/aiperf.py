"""AIPerf 0.13: `profile_export_aiperf.json` (statistics with units) and `profile_export.jsonl` (a line a request).

AIPerf's inter_token_latency is (request latency - TTFT) / (output length - 1), our TPOT; its inter_chunk_latency is the
gap between chunks, our ITL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from roofline.errors import InvalidInput
from roofline.units import SECONDS_PER_MS, SECONDS_PER_US
from scenarios.imports.measured.fields import Fields, FloatArray
from scenarios.imports.measured.vocabulary import (
    Accepted,
    MeasuredRun,
    Note,
    Requests,
    accepted_from,
    statistics_of,
    unconditional_from_histogram,
)

_TIMES = {
    "request_latency": "latency",
    "time_to_first_token": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
}
_SECONDS = {"ms": SECONDS_PER_MS, "us": SECONDS_PER_US, "ns": 1e-9, "s": 1.0, "sec": 1.0, "seconds": 1.0}
Read = Callable[[Fields], float | None]
_STATISTIC = re.compile(r"avg|p[0-9]+")
_TPOT = Note("converted", "AIPerf's inter_token_latency is TPOT here, its inter_chunk_latency ITL")


def summary_run(item: Fields, source: str) -> MeasuredRun:
    """The statistics of one run."""
    times: dict[str, dict[str, float]] = {}
    for metric, name in _TIMES.items():
        table = item.table(metric)
        if table is not None:
            seconds = _unit(table)
            known = {key: table.number(key) for key in table.item if _STATISTIC.fullmatch(key)}
            times[name] = {
                "mean" if key == "avg" else key: value * seconds for key, value in known.items() if value is not None
            }
    accepted, notes = _accepted(item)
    rate_per_s, concurrency = _load(item)
    finished = _average(item, "request_count")
    return MeasuredRun(
        format="aiperf summary",
        source=source,
        model=_model(item),
        duration_s=_average(item, "benchmark_duration"),
        finished=None if finished is None else round(finished),
        rate_per_s=rate_per_s,
        concurrency=concurrency,
        input_tokens_mean=_average(item, "input_sequence_length"),
        output_tokens_mean=_average(item, "output_sequence_length"),
        output_tokens_per_s=_average(item, "output_token_throughput"),
        accepted=accepted,
        times=times,
        notes=(*notes, *([_TPOT] if "tpot" in times else [])),
    )


def _unit(table: Fields) -> float:
    unit = (table.text("unit") or "").lower()
    if unit not in _SECONDS:
        raise table.refuse("unit", f"a unit of time ({', '.join(_SECONDS)})")
    return _SECONDS[unit]


def _average(item: Fields, metric: str) -> float | None:
    table = item.table(metric)
    return None if table is None else table.number("avg")


def _sum(item: Fields, metric: str) -> float | None:
    table = item.table(metric)
    return None if table is None else table.number("sum")


def _accepted(item: Fields) -> tuple[Accepted | None, tuple[Note, ...]]:
    histogram = item.numbers("pooled_spec_decode_acceptance_histogram")
    if histogram is not None and histogram.sum() > 0:
        return accepted_from(per_position=unconditional_from_histogram([float(count) for count in histogram]))
    rounds, drafts = _sum(item, "spec_decode_steps"), _sum(item, "spec_decode_accepted_draft_tokens")
    drafted = _sum(item, "spec_decode_draft_tokens")
    if rounds and drafts is not None:
        draft_tokens = max(1, round(drafted / rounds)) if drafted else None
        return accepted_from(length=1.0 + drafts / rounds, draft_tokens=draft_tokens)
    length = _average(item, "spec_decode_acceptance_length")
    if length is None:
        return None, (Note("missing", "acceptance: the server told none"),)
    accepted, notes = accepted_from(length=max(1.0, length))
    return accepted, (*notes, Note("mixed", "the acceptance length is a mean over requests, not over rounds"))


def _load(item: Fields) -> tuple[float | None, int | None]:
    config = item.table("input_config")
    loadgen = config.table("loadgen") if config is not None else None
    if loadgen is None:
        return None, None
    return loadgen.number("request_rate") or None, loadgen.whole("concurrency", least=1)


def _model(item: Fields) -> str | None:
    config = item.table("input_config")
    endpoint = config.table("endpoint") if config is not None else None
    names: object = endpoint.item.get("model_names") if endpoint is not None else None
    match names:
        case [str() as name]:
            return name
        case _:
            return None  # several models, or none told


def requests_run(items: Sequence[Fields], source: str) -> MeasuredRun:
    """A run from its lines, one a request; lines with an error are counted and left out.

    Raises
    ------
    InvalidInput
        No line is of a finished request.
    """
    good = [item for item in items if "error" not in item and "metrics" in item]
    if not good:
        raise InvalidInput(f"{source}: none of its {len(items)} requests finished; nothing was measured")
    start_s = _column(good, _start_s)
    latency_s, ttft_s = _column(good, _timed("request_latency")), _column(good, _timed("time_to_first_token"))
    prompt, output = _column(good, _counted("input_sequence_length")), _column(good, _counted("output_sequence_length"))
    tpot_s = _column(good, _timed("inter_token_latency"))
    known = {"ttft": ttft_s, "latency": latency_s, "tpot": tpot_s}
    accepted, notes = _accepted_by_request(good)
    failed = len(items) - len(good)
    mixed = [Note("mixed", f"{failed} requests failed; they are in no statistic")] if failed else []
    return MeasuredRun(
        format="aiperf requests",
        source=source,
        finished=len(good),
        failed=failed,
        input_tokens_mean=None if prompt is None else float(prompt.mean()),
        output_tokens_mean=None if output is None else float(output.mean()),
        accepted=accepted,
        requests=Requests(
            prompt_tokens=None if prompt is None else prompt.astype(np.int64),
            output_tokens=None if output is None else output.astype(np.int64),
            arrival_s=None if start_s is None else start_s - start_s.min(),
            ttft_s=ttft_s,
            latency_s=latency_s,
        ),
        times={name: statistics_of(values) for name, values in known.items() if values is not None},
        notes=(*mixed, *notes, *([_TPOT] if tpot_s is not None else [])),
    )


def _column(items: Sequence[Fields], read: Read) -> FloatArray | None:
    """Values of all requests, None where one lacks it."""
    values = [read(item) for item in items]
    return None if any(value is None for value in values) else np.array(values, dtype=np.float64)


def _start_s(item: Fields) -> float | None:
    table = item.table("metadata")
    value = table.number("request_start_ns") if table is not None else None
    return None if value is None else value * 1e-9


def _timed(metric: str) -> Read:
    def read(item: Fields) -> float | None:
        table = _metric(item, metric)
        value = table.number("value") if table is not None else None
        return None if value is None or table is None else value * _unit(table)

    return read


def _counted(metric: str) -> Read:
    def read(item: Fields) -> float | None:
        table = _metric(item, metric)
        return table.number("value") if table is not None else None

    return read


def _metric(item: Fields, metric: str) -> Fields | None:
    metrics = item.table("metrics")
    return metrics.table(metric) if metrics is not None else None


def _accepted_by_request(items: Sequence[Fields]) -> tuple[Accepted | None, tuple[Note, ...]]:
    """Histograms of all requests added up: every round weighs alike."""
    histograms = [
        counts
        for item in items
        if (table := item.table("spec_decode_acceptance")) is not None
        and (counts := table.numbers("acceptance_histogram")) is not None
    ]
    if not histograms:
        return None, (Note("missing", "acceptance: the server told none"),)
    lengths = {len(counts) for counts in histograms}
    if len(lengths) > 1:
        drafts = ", ".join(str(length - 1) for length in sorted(lengths))
        return None, (Note("mixed", f"requests ran with K of {drafts}; their acceptance is left out"),)
    pooled = np.sum(histograms, axis=0)
    return accepted_from(per_position=unconditional_from_histogram([float(count) for count in pooled]))
