"""Prometheus text dumps of vLLM and SGLang: one scrape (since the server started) or the difference of two.

Names may carry a prefix, and an underscore for the colon (`frontend_vllm_prompt_tokens_total`). vLLM's
`spec_decode_num_accepted_tokens_per_pos` over `spec_decode_num_drafts` is unconditional; lengths count the bonus token.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from roofline.errors import InvalidInput
from scenarios.imports.measured.vocabulary import Accepted, MeasuredRun, Note, accepted_from

SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?[0-9]+)?")
_NAME = re.compile(r"(?:.*?[_:])??(vllm|sglang)[:_](.+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_GAUGES = ("spec_accept_length", "spec_accept_rate", "spec_num_draft_tokens", "cache_hit_rate")
_TIMES = {
    "time_to_first_token_seconds": "ttft",
    "request_time_per_output_token_seconds": "tpot",
    "inter_token_latency_seconds": "itl",
    "time_per_output_token_seconds": "itl",
    "e2e_request_latency_seconds": "latency",
    "request_queue_time_seconds": "queue",
}

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Scrape:
    """Values summed over servers, by metric and position or bucket; gauges as the mean over servers."""

    source: str
    engine: str
    models: tuple[str, ...]
    values: Mapping[Key, float]
    gauges: Mapping[str, float]


def is_prometheus(text: str) -> bool:
    """Whether a line names a metric of an engine."""
    for line in text.splitlines():
        shape = SAMPLE.fullmatch(line.strip())
        if shape is not None and _NAME.fullmatch(shape[1]):
            return True
    return False


def read_scrape(text: str, source: str) -> Scrape:
    """One dump.

    Raises
    ------
    InvalidInput
        A line of an engine's metric that cannot be read, or metrics of two engines.
    """
    values: dict[Key, float] = defaultdict(float)
    gauges: dict[str, list[float]] = defaultdict(list)
    engines: set[str] = set()
    models: set[str] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        shape = SAMPLE.fullmatch(line.strip())
        known = _NAME.fullmatch(shape[1] if shape else line.split("{")[0].split(" ")[0])
        if known is None:
            continue  # a metric of Python or of the process
        if shape is None:
            raise InvalidInput(f"{source}: line {number} is cut off ({line[:60]!r}); fetch the metrics again")
        labels = dict(_LABEL.findall(shape[2] or ""))
        value = _value(shape[3], source, number)
        engines.add(known[1])
        models.update([labels["model_name"]] if "model_name" in labels else [])
        metric = known[2].removesuffix("_total")
        if metric in _GAUGES:
            gauges[metric].append(value)
        else:
            values[(metric, labels.get("position", labels.get("le", "")))] += value
    if len(engines) > 1:
        raise InvalidInput(f"{source}: mixes metrics of {' and '.join(sorted(engines))}; give one engine's")
    means = {name: sum(each) / len(each) for name, each in gauges.items()}
    return Scrape(source, next(iter(engines), ""), tuple(sorted(models)), dict(values), means)


def _value(text: str, source: str, number: int) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{source}: line {number}: {text[:40]!r} is no number; fetch the metrics again") from None


def scrape_run(scrape: Scrape, before: Scrape | None = None) -> MeasuredRun:
    """The run that one scrape tells of, or the window between two.

    Raises
    ------
    InvalidInput
        Counters fall between the scrapes, or nothing was counted.
    """
    values = dict(scrape.values) if before is None else _difference(before, scrape)
    notes: list[Note] = []
    if len(scrape.models) > 1:
        notes.append(Note("mixed", f"metrics of {len(scrape.models)} models are added up: {', '.join(scrape.models)}"))
    if before is None:
        notes.append(Note("mixed", "one scrape counts since the server started, warm-up included; two give a window"))
    accepted, more = _accepted(scrape, values)
    times, converted = _times(values)
    finished = _finished(values)
    if accepted is None and not more:
        notes.append(Note("missing", "acceptance: no drafts were counted"))
    notes.append(Note("missing", "rate and duration: a dump carries no time; give --rate with what you know"))
    return MeasuredRun(
        format="prometheus dump",
        source=scrape.source if before is None else f"{before.source} to {scrape.source}",
        model=scrape.models[0] if len(scrape.models) == 1 else None,
        engine=scrape.engine,
        window="since the server started" if before is None else "between two scrapes",
        finished=finished,
        input_tokens_mean=_mean(values, "request_prompt_tokens", "prompt_tokens", finished),
        output_tokens_mean=_mean(values, "request_generation_tokens", "generation_tokens", finished),
        prefix_hit_fraction=_prefix_hits(scrape, values),
        accepted=accepted,
        times=times,
        notes=(*notes, *more, *converted),
    )


def _difference(before: Scrape, after: Scrape) -> dict[Key, float]:
    if before.engine != after.engine:
        raise InvalidInput(
            f"{after.source}: is of {after.engine}, the first scrape of {before.engine}; give one engine's"
        )
    changed: dict[Key, float] = {}
    for key, value in after.values.items():
        moved = value - before.values.get(key, 0.0)
        if moved < 0 and key[0].startswith(("spec_decode", "prompt_tokens", "generation_tokens", "request_success")):
            raise InvalidInput(
                f"{after.source}: {key[0]} falls from {before.values[key]:g} to {value:g}; the server was restarted in "
                "between, or the scrapes are in the wrong order"
            )
        changed[key] = moved
    return changed


def _accepted(scrape: Scrape, values: Mapping[Key, float]) -> tuple[Accepted | None, tuple[Note, ...]]:
    if scrape.engine == "sglang":
        gauges = scrape.gauges
        drafts = gauges.get("spec_num_draft_tokens")
        length = gauges.get("spec_accept_length") or None
        if length is None or length < 1.0:
            return None, ()
        accepted, notes = accepted_from(
            length=length,
            rate_fraction=gauges.get("spec_accept_rate"),
            draft_tokens=round(drafts) - 1 if drafts and drafts >= 2 else None,
        )
        return accepted, (
            *notes,
            Note("mixed", "SGLang's acceptance is a gauge of the last interval, not of the window"),
        )
    rounds = values.get(("spec_decode_num_drafts", ""), 0.0)
    if rounds <= 0:
        return None, ()
    by_position = {
        int(place): count
        for (metric, place), count in values.items()
        if metric == "spec_decode_num_accepted_tokens_per_pos" and place.isdecimal()
    }
    shares = [by_position.get(place, 0.0) / rounds for place in range(max(by_position, default=-1) + 1)]
    drafted = values.get(("spec_decode_num_draft_tokens", ""), 0.0) / rounds
    counted = values.get(("spec_decode_num_accepted_tokens", ""))
    return accepted_from(
        per_position=[max(0.0, share) for share in shares],
        length=None if counted is None else 1.0 + counted / rounds,
        draft_tokens=None if shares else max(1, round(drafted)),
    )


def _times(values: Mapping[Key, float]) -> tuple[dict[str, dict[str, float]], list[Note]]:
    found: dict[str, dict[str, float]] = {}
    for metric, name in _TIMES.items():
        count, total_s = values.get((f"{metric}_count", ""), 0.0), values.get((f"{metric}_sum", ""), 0.0)
        if count > 0 and name not in found:
            found[name] = {"mean": total_s / count, **_quantiles(values, metric, count)}
    if not found:
        return found, []
    return found, [Note("converted", "percentiles are read off histogram buckets, linear within a bucket")]


def _quantiles(values: Mapping[Key, float], metric: str, count: float) -> dict[str, float]:
    """p50, p95, p99 where they lie below the last finite bucket."""
    edges = sorted(
        (edge, cumulated)
        for (name, place), cumulated in values.items()
        if name == f"{metric}_bucket" and (edge := _edge(place)) is not None
    )
    found: dict[str, float] = {}
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        low_s, below = 0.0, 0.0
        for edge, cumulated in edges:
            if cumulated >= share * count and cumulated > below:
                found[name] = low_s + (edge - low_s) * (share * count - below) / (cumulated - below)
                break
            low_s, below = edge, cumulated
    return found


def _edge(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _finished(values: Mapping[Key, float]) -> int | None:
    for metric in ("request_success", "num_requests", "e2e_request_latency_seconds_count"):
        count = values.get((metric, ""), 0.0)
        if count > 0:
            return round(count)
    return None


def _mean(values: Mapping[Key, float], histogram: str, counter: str, finished: int | None) -> float | None:
    count = values.get((f"{histogram}_count", ""), 0.0)
    if count > 0:
        return values.get((f"{histogram}_sum", ""), 0.0) / count
    total = values.get((counter, ""), 0.0)
    return total / finished if total > 0 and finished else None


def _prefix_hits(scrape: Scrape, values: Mapping[Key, float]) -> float | None:
    queries = values.get(("prefix_cache_queries", ""), 0.0)
    if queries > 0:
        return min(1.0, max(0.0, values.get(("prefix_cache_hits", ""), 0.0) / queries))
    rate = scrape.gauges.get("cache_hit_rate")
    return rate if rate is not None and 0.0 <= rate <= 1.0 else None
