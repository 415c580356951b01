"""`vllm bench serve | latency | throughput | forward` JSON (vLLM 0.33 and older), and SGLang's bench_serving lines.

serve: times in milliseconds, `spec_decode_acceptance_rate` in percent (accepted over drafted), per-position rates
unconditional fractions, the acceptance length with the bonus token; `request_rate` may be the text "inf". SGLang's
lines have the same times, `accept_length` (with the bonus token), and `num_draft_tokens` that count the root.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from roofline.units import SECONDS_PER_MS, SECONDS_PER_US
from scenarios.imports.measured.fields import Fields, FloatArray
from scenarios.imports.measured.vocabulary import (
    MeasuredRun,
    Note,
    Requests,
    StepTime,
    accepted_from,
    agree,
    statistics_of,
)

_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "latency", "e2e_latency": "latency"}
_STATISTIC = re.compile(r"(mean|median|p[0-9.]+)_(ttft|tpot|itl|e2el|e2e_latency)_ms")


def serve_run(item: Fields, source: str) -> MeasuredRun:
    """One run of `vllm bench serve`."""
    accepted, notes = accepted_from(
        per_position=_list(item.numbers("spec_decode_per_position_acceptance_rates", most=1.0)),
        length=item.number("spec_decode_acceptance_length", least=1.0),
        rate_fraction=_percent(item, "spec_decode_acceptance_rate"),
        drafted_per_round=_drafted_per_round(item),
    )
    run = _client_run(item, source, format="vllm bench serve", engine="vllm")
    return _checked(item, replace(run, accepted=accepted, notes=(*run.notes, *notes)))


def sglang_run(item: Fields, source: str) -> MeasuredRun:
    """One line of SGLang's bench_serving."""
    server = item.table("server_info")
    drafts = server.whole("speculative_num_draft_tokens", least=1) if server else None
    topk = server.whole("speculative_eagle_topk") if server else None
    chain = drafts - 1 if drafts and topk in (None, 1) else None
    accepted, notes = accepted_from(length=item.number("accept_length", least=1.0), draft_tokens=chain or None)
    told: list[Note] = [*notes]
    if chain:
        told.append(Note("converted", f"K = {chain}: SGLang's num_draft_tokens {drafts} count the root"))
    if drafts and topk not in (None, 1):
        told.append(
            Note("mixed", f"drafts are a tree (topk {topk}): its acceptance length fits no chain, K is left out")
        )
    run = _client_run(item, source, format="sglang bench_serving", engine="sglang")
    settings = {**run.settings, "dataset": item.text("dataset_name") or ""}
    return _checked(item, replace(run, accepted=accepted, settings=settings, notes=(*run.notes, *told)))


def _client_run(item: Fields, source: str, *, format: str, engine: str) -> MeasuredRun:
    requests = _requests(item)
    rate_per_s, notes = _rate(item)
    concurrency = item.whole("max_concurrency", least=1)
    prompts = item.whole("num_prompts", least=1)
    if concurrency is None and prompts is not None and _unlimited(item):
        concurrency = prompts
        notes.append(
            Note("converted", f"all {prompts} requests were sent at once: a closed loop with as many in flight")
        )
    finished = item.whole("completed")
    duration_s = item.number("duration")
    return MeasuredRun(
        format=format,
        source=source,
        model=item.text("model_id"),
        engine=engine,
        duration_s=duration_s,
        finished=finished,
        failed=item.whole("failed") or 0,
        rate_per_s=rate_per_s,
        burstiness=item.number("burstiness"),
        concurrency=concurrency,
        input_tokens_mean=_per_request(item.number("total_input_tokens"), finished),
        output_tokens_mean=_per_request(item.number("total_output_tokens"), finished),
        output_tokens_per_s=item.number("output_throughput"),
        requests=requests,
        times={**_times_of(requests), **_times(item)},
        notes=tuple(notes),
    )


def _times_of(requests: Requests | None) -> dict[str, dict[str, float]]:
    if requests is None:
        return {}
    known = {"ttft": requests.ttft_s, "latency": requests.latency_s, "queue": requests.queue_s}
    return {name: statistics_of(values_s) for name, values_s in known.items() if values_s is not None and len(values_s)}


def _rate(item: Fields) -> tuple[float | None, list[Note]]:
    """Requests per second as asked; all at once is no rate. A text other than inf is refused."""
    if _unlimited(item):
        return None, []
    rate_per_s = item.number("request_rate")
    achieved = item.number("request_throughput")
    if item.item.get("ramp_up_strategy"):
        return None, [Note("mixed", "the rate was ramped up over the run; it has no one rate")]
    if rate_per_s and achieved and achieved < 0.9 * rate_per_s:
        text = f"{rate_per_s:g} requests/s were asked and {achieved:.3g} finished: the run may be saturated or short"
        return rate_per_s, [Note("mixed", text)]
    return rate_per_s or None, []


def _unlimited(item: Fields) -> bool:
    """A text in vLLM's files, JSON's Infinity in others."""
    return item.item.get("request_rate") in ("inf", float("inf"))


def _checked(item: Fields, run: MeasuredRun) -> MeasuredRun:
    """Notes on what the file says twice, and what it does not say."""
    notes = [*run.notes]
    tpot, itl = run.times.get("tpot", {}).get("mean"), run.times.get("itl", {}).get("mean")
    length = run.accepted.acceptance_length if run.accepted else None
    if length and tpot and itl and not 0.75 < itl / tpot / length < 1.33:
        notes.append(Note("contradicts", f"ITL / TPOT = {itl / tpot:.2f}, but the acceptance length is {length:.2f}"))
    throughput = item.number("output_throughput")
    total, duration_s = item.number("total_output_tokens"), run.duration_s
    if throughput and total and duration_s and not agree(total / duration_s, throughput):
        notes.append(
            Note("contradicts", f"output_throughput {throughput:.4g} is not total_output_tokens / duration; left out")
        )
        run = replace(run, output_tokens_per_s=None)
    if run.failed:
        notes.append(Note("mixed", f"{run.failed} requests failed; they are in no statistic"))
    if run.accepted is None and not any(note.kind == "contradicts" for note in run.notes):
        notes.append(Note("missing", "acceptance: the server's counters did not move, or it runs without speculation"))
    return replace(run, notes=tuple(notes))


def _drafted_per_round(item: Fields) -> float | None:
    rounds = item.number("spec_decode_num_drafts")
    drafted = item.number("spec_decode_draft_tokens")
    return drafted / rounds if rounds and drafted else None


def _requests(item: Fields) -> Requests | None:
    names = {"prompt": "input_lens", "output": "output_lens", "ttft": "ttfts", "latency": "latencies"}
    found = {name: item.numbers(key) for name, key in names.items()}
    found["start"], found["queue"] = item.numbers("start_times"), item.numbers("server_queue_times")
    lengths = {len(values) for values in found.values() if values is not None and len(values)}
    if not lengths:
        return None
    if len(lengths) > 1:
        raise item.refuse("input_lens", f"as long as the other lists of requests, which have {sorted(lengths)} entries")
    kept = {name: values if values is not None and len(values) else None for name, values in found.items()}
    start_s = kept["start"]
    return Requests(
        prompt_tokens=_whole(kept["prompt"]),
        output_tokens=_whole(kept["output"]),
        arrival_s=None if start_s is None else start_s - start_s.min(),
        ttft_s=kept["ttft"],
        latency_s=kept["latency"],
        queue_s=kept["queue"],
    )


def _whole(values: FloatArray | None) -> np.ndarray | None:
    return None if values is None else values.astype(np.int64)


def _times(item: Fields) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for key in item.item:
        shape = _STATISTIC.fullmatch(key)
        value = item.number(key) if shape else None
        if shape is not None and value is not None:
            name = "p50" if shape[1] == "median" else shape[1]
            found.setdefault(_METRICS[shape[2]], {})[name] = value * SECONDS_PER_MS
    return found


def _percent(item: Fields, key: str) -> float | None:
    value = item.number(key, most=100.0)
    return None if value is None else value / 100.0


def _per_request(total: float | None, finished: int | None) -> float | None:
    return total / finished if total is not None and finished else None


def _list(values: FloatArray | None) -> list[float]:
    return [] if values is None else [float(value) for value in values]


def latency_run(item: Fields, source: str) -> MeasuredRun:
    """`vllm bench latency`: one batch again and again; the file does not say its size and lengths."""
    shares = item.table("percentiles")
    times = {"mean": mean} if (mean := item.number("avg_latency")) is not None else {}
    for key in shares.item if shares else ():
        if shares is not None and (value := shares.number(key)) is not None:
            times[f"p{key}"] = value
    repeats = item.numbers("latencies")
    return MeasuredRun(
        format="vllm bench latency",
        source=source,
        model=item.text("model_id"),
        engine="vllm",
        finished=None if repeats is None else len(repeats),
        times={"latency": times},
        notes=(Note("missing", "batch size and lengths: `vllm bench latency` does not write them down"),),
    )


def throughput_run(item: Fields, source: str) -> MeasuredRun:
    """`vllm bench throughput`: all requests at once; tokens count prompts and outputs together."""
    return MeasuredRun(
        format="vllm bench throughput",
        source=source,
        model=item.text("model_id"),
        engine="vllm",
        duration_s=item.number("elapsed_time"),
        finished=item.whole("num_requests"),
        notes=(Note("missing", "output tokens: total_num_tokens counts prompts and outputs together"),),
    )


def forward_run(items: list[Fields], source: str) -> MeasuredRun:
    """`vllm bench forward`: medians of single forward passes, in microseconds."""
    steps: list[StepTime] = []
    for item in items:
        requests = item.tables("requests")
        queries = {request.whole("query_len", least=1) for request in requests}
        median_us = item.number("median_us")
        if len(queries) != 1 or None in queries or median_us is None:
            continue
        [query] = queries
        contexts = [request.number("kv_len") or 0.0 for request in requests]
        steps.append(
            StepTime(
                case=item.text("case") or "",
                batch=len(requests),
                query_tokens=query or 1,
                context_tokens=float(np.mean(contexts)),
                median_s=median_us * SECONDS_PER_US,
            )
        )
    notes: list[Note] = []
    if len(steps) < len(items):
        notes.append(Note("mixed", f"{len(items) - len(steps)} of {len(items)} cases mix query lengths; left out"))
    return MeasuredRun(
        format="vllm bench forward", source=source, engine="vllm", steps=tuple(steps), notes=tuple(notes)
    )
