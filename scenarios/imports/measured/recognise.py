"""Which format a file is in, by what stands in it, never by its name; and the runs it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios.imports.measured import aiperf, engine_logs, guidellm, prometheus, request_times, vllm_bench
from scenarios.imports.measured.fields import Fields
from scenarios.imports.measured.vocabulary import MeasuredRun, Note, Requests
from scenarios.imports.traces import AZURE_COLUMNS, BURSTGPT_COLUMNS, read_trace

FORMATS = (
    "`vllm bench serve|latency|throughput|forward` JSON, SGLang bench_serving lines, AIPerf JSON or JSONL, GuideLLM "
    "JSON or CSV, Prometheus dumps, engine logs, request timestamps, and Azure, Mooncake, BurstGPT and Qwen-Bailian "
    "traces"
)
_DATED = re.compile(r"\[[0-9]{4}-[0-9]{2}-")  # a line of a log, not a list
_CUT = "the file looks cut off: fetch it again"


def read_measured(path: Path) -> list[MeasuredRun]:
    """The runs of a file.

    Raises
    ------
    InvalidInput
        Not readable, empty, of no known format, cut off, or a field of another kind than the format has.
    """
    text = read_text(path)
    source = path.name
    head = text.lstrip()
    if head.startswith(("{", "[")) and not _DATED.match(head):
        return _from_json(documents(head, source), source, path)
    first = head.splitlines()[0]
    if first.startswith("Run Info,"):
        return guidellm.csv_runs(head, source)
    heads = [cell.strip() for cell in first.split(",")]
    if AZURE_COLUMNS[0] in heads or BURSTGPT_COLUMNS[1] in heads:
        return [_trace_run(path, source)]
    if prometheus.is_prometheus(text):
        return [prometheus.scrape_run(prometheus.read_scrape(text, source))]
    if engine_logs.is_engine_log(text):
        return [engine_logs.log_run(text, source)]
    raise InvalidInput(f"{source}: is in no format that is known here; give one of {FORMATS}")


def read_text(path: Path) -> str:
    """The file as text.

    Raises
    ------
    InvalidInput
        It cannot be read, is no text, or is empty.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror}); give a readable file") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name}: is no UTF-8 text; give one of {FORMATS}") from None
    if not text.strip():
        raise InvalidInput(f"{path.name}: is empty; run the measurement again")
    return text


def documents(text: str, source: str) -> list[Any]:
    """JSON documents one after the other: a single one, lines, or what `--append-result` piles up."""
    decoder = json.JSONDecoder(parse_constant=_no_number)
    found: list[Any] = []
    place = 0
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, place) + 1
            why = getattr(error, "msg", "nested too deeply")
            raise InvalidInput(f"{source}: is not JSON from line {line} on ({why}); {_CUT}") from None
        found.append(document)
        while place < len(text) and text[place] in " \t\r\n":
            place += 1
    return found


def _no_number(text: str) -> float:
    # `vllm bench` writes an unlimited rate as Infinity where it is no text; NaN is no measurement.
    if text == "Infinity":
        return float("inf")
    raise json.JSONDecodeError(f"{text} is no number", text, 0)


def _from_json(found: Sequence[Any], source: str, path: Path) -> list[MeasuredRun]:
    items = [
        Fields(cast("dict[str, Any]", item), f"{source}: object {place}")
        for place, item in enumerate(_objects(found, source), start=1)
    ]
    if not items:
        raise InvalidInput(f"{source}: is an empty list; run the measurement again")
    kinds = [_kind(item) for item in items]
    if None in kinds:
        place = kinds.index(None)
        keys = ", ".join(list(items[place].item)[:6]) or "none"
        raise InvalidInput(
            f"{items[place].where}: is in no format that is known here (keys {keys}); give one of {FORMATS}"
        )
    if len(set(kinds)) > 1:
        names = " and ".join(sorted({str(kind) for kind in kinds}))
        raise InvalidInput(f"{source}: mixes {names}; give a file for each")
    return _READERS[str(kinds[0])](items, source, path)


def _objects(found: Sequence[Any], source: str) -> list[Any]:
    flat = [item for each in found for item in (cast("list[Any]", each) if isinstance(each, list) else [each])]
    if not all(isinstance(item, dict) for item in flat):
        raise InvalidInput(f"{source}: holds JSON that is no object; give one of {FORMATS}")
    return flat


def _kind(item: Fields) -> str | None:
    """By the keys that only this format has."""
    keys = set(item.item)
    for kind, needed in _KEYS:
        if needed <= keys:
            return kind
    return None


_KEYS: tuple[tuple[str, set[str]], ...] = (
    ("guidellm", {"benchmarks"}),
    ("vllm bench forward", {"case", "requests"}),
    ("aiperf requests", {"metadata", "metrics"}),
    ("aiperf requests", {"metadata", "error"}),
    ("request timestamps", {"input_toks", "output_toks"}),
    ("qwen-bailian trace", {"chat_id", "timestamp"}),
    ("mooncake trace", {"timestamp", "input_length"}),
    ("vllm bench latency", {"avg_latency"}),
    ("vllm bench throughput", {"elapsed_time", "total_num_tokens"}),
    ("sglang bench_serving", {"mean_e2e_latency_ms"}),
    ("sglang bench_serving", {"accept_length", "backend"}),
    ("vllm bench serve", {"num_prompts", "completed"}),
    ("aiperf summary", {"request_latency"}),
    ("aiperf summary", {"request_throughput", "schema_version"}),
)

Reader = Callable[[list[Fields], str, Path], list[MeasuredRun]]


def _guidellm(items: list[Fields], source: str, path: Path) -> list[MeasuredRun]:
    runs = [
        guidellm.benchmark_run(benchmark, source, _guidellm_model(item))
        for item in items
        for benchmark in item.tables("benchmarks")
    ]
    if not runs:
        raise InvalidInput(f"{source}: holds no benchmark; run GuideLLM again")
    return runs


def _guidellm_model(item: Fields) -> str | None:
    config = item.table("config")
    spec = config.table("spec") if config is not None else None
    backend = spec.table("backend") if spec is not None else None
    return backend.text("model") if backend is not None else None


def _trace(items: list[Fields], source: str, path: Path) -> list[MeasuredRun]:
    return [_trace_run(path, source)]


_READERS: dict[str, Reader] = {
    "guidellm": _guidellm,
    "vllm bench forward": lambda items, source, path: [vllm_bench.forward_run(items, source)],
    "aiperf requests": lambda items, source, path: [aiperf.requests_run(items, source)],
    "request timestamps": lambda items, source, path: [request_times.times_run(items, source, path)],
    "qwen-bailian trace": _trace,
    "mooncake trace": _trace,
    "vllm bench latency": lambda items, source, path: [vllm_bench.latency_run(item, source) for item in items],
    "vllm bench throughput": lambda items, source, path: [vllm_bench.throughput_run(item, source) for item in items],
    "sglang bench_serving": lambda items, source, path: [vllm_bench.sglang_run(item, source) for item in items],
    "vllm bench serve": lambda items, source, path: [vllm_bench.serve_run(item, source) for item in items],
    "aiperf summary": lambda items, source, path: [aiperf.summary_run(item, source) for item in items],
}


def _trace_run(path: Path, source: str) -> MeasuredRun:
    """A trace of requests; what a cache that never evicts would hit, where blocks are named."""
    trace = read_trace(path)
    notes = [Note("missing", "acceptance and latencies: a trace of requests tells neither")]
    if trace.skipped:
        notes.append(Note("mixed", f"{trace.skipped} requests failed or wrote nothing; left out"))
    hits = float(trace.prefix_hit_tokens.sum() / trace.prompt_tokens.sum()) if trace.hashed else None
    if hits is not None:
        notes.append(
            Note("converted", f"{hits:.1%} of prompt tokens lie in blocks seen before: hits of an endless cache")
        )
    rate_per_s = trace.rate_per_s
    return MeasuredRun(
        format=f"{trace.format} trace",
        source=source,
        duration_s=float(trace.arrival_s[-1]),
        finished=trace.requests,
        rate_per_s=rate_per_s if rate_per_s == rate_per_s else None,
        input_tokens_mean=float(trace.prompt_tokens.mean()),
        output_tokens_mean=float(trace.output_tokens.mean()),
        prefix_hit_fraction=hits,
        requests=Requests(
            prompt_tokens=trace.prompt_tokens, output_tokens=trace.output_tokens, arrival_s=trace.arrival_s
        ),
        trace=path.resolve(),
        notes=tuple(notes),
    )
