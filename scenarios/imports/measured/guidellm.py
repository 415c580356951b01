"""GuideLLM 0.8 `benchmarks.json` and `.csv` (three header rows); a file holds one run a strategy.

GuideLLM's time_per_output_token divides the whole latency, first token included, by all output tokens; its
inter_token_latency is our TPOT. Tokens per streaming iteration hint at the acceptance length but name no K.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence

import numpy as np

from roofline.errors import InvalidInput
from roofline.units import SECONDS_PER_MS
from scenarios.imports.measured.fields import Fields, FloatArray
from scenarios.imports.measured.vocabulary import MeasuredRun, Note, Requests

_TPOT = Note(
    "converted", "GuideLLM's inter_token_latency is TPOT here; its time_per_output_token counts the first token"
)
_STATISTICS = {"mean": "mean", "median": "p50"}
_PERCENTILES = ("p50", "p90", "p95", "p99")


def benchmark_run(item: Fields, source: str, model: str | None) -> MeasuredRun:
    """One benchmark of the JSON."""
    metrics = item.table("metrics")
    if metrics is None:
        raise InvalidInput(f"{item.where}: has no metrics; the file looks cut off: run GuideLLM again")
    times = {
        "latency": _statistics(metrics, "request_latency", 1.0),
        "ttft": _statistics(metrics, "time_to_first_token_ms", SECONDS_PER_MS),
        "tpot": _statistics(metrics, "inter_token_latency_ms", SECONDS_PER_MS),
    }
    rate_per_s, concurrency = _strategy(item)
    totals = metrics.table("request_totals")
    failed = (totals.whole("errored") or 0) if totals is not None else 0
    return MeasuredRun(
        format="guidellm json",
        source=source,
        model=model,
        duration_s=item.number("duration"),
        finished=totals.whole("successful") if totals is not None else None,
        failed=failed,
        rate_per_s=rate_per_s,
        concurrency=concurrency,
        input_tokens_mean=_mean(metrics, "prompt_token_count"),
        output_tokens_mean=_mean(metrics, "output_token_count"),
        output_tokens_per_s=_output_per_s(metrics, item.number("duration")),
        requests=_requests(item),
        times={name: known for name, known in times.items() if known},
        notes=(_TPOT, *_acceptance_note(_mean(metrics, "output_tokens_per_iteration"))),
    )


def _successful(metrics: Fields, name: str) -> Fields | None:
    table = metrics.table(name)
    return table.table("successful") if table is not None else None


def _mean(metrics: Fields, name: str) -> float | None:
    table = _successful(metrics, name)
    return table.number("mean") if table is not None else None


def _output_per_s(metrics: Fields, duration_s: float | None) -> float | None:
    table = _successful(metrics, "output_token_count")
    total = table.number("total_sum") if table is not None else None
    return total / duration_s if total is not None and duration_s else None


def _statistics(metrics: Fields, name: str, unit_s: float) -> dict[str, float]:
    table = _successful(metrics, name)
    if table is None or table.whole("count") == 0:
        return {}
    found = {ours: table.number(theirs) for theirs, ours in _STATISTICS.items()}
    shares = table.table("percentiles")
    found |= {name: shares.number(name) for name in _PERCENTILES} if shares is not None else {}
    return {name: value * unit_s for name, value in found.items() if value is not None}


def _strategy(item: Fields) -> tuple[float | None, int | None]:
    """(requests per second, requests in flight) as asked."""
    config = item.table("config")
    strategy = config.table("strategy") if config is not None else None
    if strategy is None:
        return None, None
    kind = strategy.text("type_") or ""
    if kind == "concurrent":
        return None, strategy.whole("streams", least=1)
    if kind == "synchronous":
        return None, 1
    return (strategy.number("rate") or None) if kind in ("constant", "poisson", "async") else None, None


def _acceptance_note(tokens_per_iteration: float | None) -> tuple[Note, ...]:
    if tokens_per_iteration is None or not tokens_per_iteration > 1.01:
        return (Note("missing", "acceptance: GuideLLM does not ask the server for it"),)
    return (
        Note(
            "missing",
            f"acceptance: {tokens_per_iteration:.2f} tokens came per streamed chunk, which hints at the acceptance "
            "length but says no K; take it from the server's metrics",
        ),
    )


def _requests(item: Fields) -> Requests | None:
    requests = item.table("requests")
    rows = requests.tables("successful") if requests is not None else []
    if not rows:
        return None
    columns = {name: [row.number(name) for row in rows] for name in _REQUEST_FIELDS}
    known = {name: _array(values) for name, values in columns.items()}
    start_s, latency_s = known["request_start_time"], known["request_latency"]
    ttft = known["time_to_first_token_ms"]
    return Requests(
        prompt_tokens=_whole(known["prompt_tokens"]),
        output_tokens=_whole(known["output_tokens"]),
        arrival_s=None if start_s is None else start_s - start_s.min(),
        ttft_s=None if ttft is None else ttft * SECONDS_PER_MS,
        latency_s=latency_s,
    )


_REQUEST_FIELDS = ("request_start_time", "request_latency", "time_to_first_token_ms", "prompt_tokens", "output_tokens")


def _array(values: Sequence[float | None]) -> FloatArray | None:
    return None if any(value is None for value in values) else np.array(values, dtype=np.float64)


def _whole(values: FloatArray | None) -> np.ndarray | None:
    return None if values is None else values.astype(np.int64)


def csv_runs(text: str, source: str) -> list[MeasuredRun]:
    """One run a row below the three rows of headings.

    Raises
    ------
    InvalidInput
        The headings or a row are cut off.
    """
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InvalidInput(f"{source}: is no CSV ({error}); export it again") from None
    if len(rows) < 4:
        raise InvalidInput(
            f"{source}: has {len(rows)} rows where three of headings and one a run are due; export it again"
        )
    heads = list(zip(*rows[:3], strict=False))
    return [_csv_run(dict(zip(heads, row, strict=False)), source, place) for place, row in enumerate(rows[3:]) if row]


Cells = dict[tuple[str, str, str], str]


def _csv_run(cells: Cells, source: str, place: int) -> MeasuredRun:
    where = f"{source}: row {place + 4}"

    def number(group: str, column: str, part: str = "Mean") -> float | None:
        text = cells.get((group, column, part), "")
        if text == "":
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise InvalidInput(
                f"{where}: {group} {column} {part} must be a number of at least 0, got {text[:40]!r}; correct it"
            )
        return value

    times: dict[str, dict[str, float]] = {}
    for name, group, unit, unit_s in _CSV_TIMES:
        known = {ours: number(group, f"Successful {unit}", theirs) for theirs, ours in _CSV_STATISTICS.items()}
        times[name] = {key: value * unit_s for key, value in known.items() if value is not None}
    concurrency = re.fullmatch(r"concurrent@([0-9]+)", cells.get(("Benchmark", "Strategy", ""), ""))
    rate = re.fullmatch(r"(?:constant|poisson|async)@([0-9.]+)", cells.get(("Benchmark", "Strategy", ""), ""))
    finished = number("Request Counts", "Successful", "")
    if finished is None:
        raise InvalidInput(f"{where}: names no count of successful requests; the file looks cut off: export it again")
    return MeasuredRun(
        format="guidellm csv",
        source=source,
        duration_s=number("Timings", "Duration", "Sec"),
        finished=round(finished),
        failed=round(number("Request Counts", "Errored", "") or 0),
        rate_per_s=float(rate[1]) if rate and rate[1].count(".") < 2 else None,
        concurrency=int(concurrency[1]) if concurrency else None,
        input_tokens_mean=number("Token Metrics", "Successful Input Tokens"),
        output_tokens_mean=number("Token Metrics", "Successful Output Tokens"),
        times={name: known for name, known in times.items() if known},
        notes=(_TPOT, *_acceptance_note(None)),
    )


_CSV_TIMES = (
    ("latency", "Request Latency", "Sec", 1.0),
    ("ttft", "Time to First Token", "ms", SECONDS_PER_MS),
    ("tpot", "Inter Token Latency", "ms", SECONDS_PER_MS),
)
_CSV_STATISTICS = {"Mean": "mean", "Median": "p50"}
