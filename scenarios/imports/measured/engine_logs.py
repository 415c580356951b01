"""Log lines of engines: vLLM's SpecDecoding and Engine lines, SGLang's Decode batch lines, llama.cpp's draft summary.

Every line covers one interval; intervals weigh by their rounds. vLLM prints the acceptance length with the bonus token
and unconditional rates by position; SGLang the length with the bonus; llama.cpp accepted over drafted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from roofline.errors import InvalidInput
from scenarios.imports.measured.vocabulary import Accepted, MeasuredRun, Note, accepted_from

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_SPEC = re.compile(
    rf"SpecDecoding metrics: Mean acceptance length: {_NUMBER}.*?Accepted: ([0-9]+) tokens, Drafted: ([0-9]+) tokens, "
    rf"Per-position acceptance rate: ((?:{_NUMBER}(?:, )?)+)"
)
_ENGINE = re.compile(rf"Avg generation throughput: {_NUMBER} tokens/s, Running: ([0-9]+) reqs, Waiting: ([0-9]+) reqs")
_PREFIX = re.compile(rf"Prefix cache hit rate: {_NUMBER}%")
_CACHE = re.compile(r"GPU KV cache size: ([0-9,]+) tokens")
_SGLANG = re.compile(rf"Decode batch.*?#running-req: ([0-9]+).*?accept len: {_NUMBER}(?:.*?accept rate: {_NUMBER})?")
_LLAMACPP = re.compile(rf"draft acceptance(?: rate)? = {_NUMBER} \(\s*([0-9]+) accepted /\s*([0-9]+) generated\)")
_LINES = (
    "SpecDecoding metrics:",
    "Avg generation throughput:",
    "Decode batch",
    "draft acceptance",
    "GPU KV cache size:",
)


@dataclass
class _Seen:
    """What the lines said, added up."""

    rounds: float = 0.0
    positions: list[float] = field(default_factory=list[float])
    drafts: set[int] = field(default_factory=set[int])
    sglang: list[tuple[float, float, float | None]] = field(default_factory=list[tuple[float, float, float | None]])
    llamacpp: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    running: list[int] = field(default_factory=list[int])
    waiting: list[int] = field(default_factory=list[int])
    tokens_per_s: list[float] = field(default_factory=list[float])
    hit_fraction: float | None = None
    cache_tokens: int | None = None


def is_engine_log(text: str) -> bool:
    """Whether a line is one of those read here."""
    return any(word in text for word in _LINES)


def log_run(text: str, source: str) -> MeasuredRun:
    """The run the lines tell of.

    Raises
    ------
    InvalidInput
        Lines of an engine, none of which can be read, or of two engines.
    """
    seen = _Seen()
    for line in text.splitlines():
        _read_line(line, seen)
    engines = [
        name
        for name, there in (
            ("vllm", seen.rounds or seen.running or seen.cache_tokens),
            ("sglang", seen.sglang),
            ("llamacpp", seen.llamacpp),
        )
        if there
    ]
    if not engines:
        raise InvalidInput(
            f"{source}: has lines of an engine's log, but none whole enough to read; give the log with its lines uncut"
        )
    if len(engines) > 1:
        raise InvalidInput(f"{source}: mixes log lines of {' and '.join(engines)}; give one engine's")
    accepted, notes = _accepted(seen)
    told = [*notes]
    if accepted is None and not notes:
        told.append(Note("missing", "acceptance: no line of the log tells it"))
    if seen.running:
        told.append(Note("mixed", f"{_spread(seen.running)} requests ran and {_spread(seen.waiting)} waited, by line"))
    told.append(Note("missing", "lengths, rate and latencies: the log does not tell them"))
    return MeasuredRun(
        format=f"{engines[0]} log",
        source=source,
        engine=engines[0],
        window="the lines of the log",
        output_tokens_per_s=_mean(seen.tokens_per_s),
        prefix_hit_fraction=seen.hit_fraction,
        accepted=accepted,
        settings={} if seen.cache_tokens is None else {"kv_cache_tokens": seen.cache_tokens},
        notes=tuple(told),
    )


def _read_line(line: str, seen: _Seen) -> None:
    if shape := _SPEC.search(line):
        shares = [float(part) for part in shape[4].rstrip(", ").split(", ")]
        rounds = float(shape[3]) / len(shares)  # drafted = rounds x K
        seen.drafts.add(len(shares))
        seen.positions = [
            (seen.positions[place] if place < len(seen.positions) else 0.0) + rounds * share
            for place, share in enumerate(shares)
        ]
        seen.rounds += rounds
    if shape := _ENGINE.search(line):
        seen.tokens_per_s.append(float(shape[1]))
        seen.running.append(int(shape[2]))
        seen.waiting.append(int(shape[3]))
    if shape := _PREFIX.search(line):
        seen.hit_fraction = min(1.0, float(shape[1]) / 100.0)
    if shape := _CACHE.search(line):
        seen.cache_tokens = int(shape[1].replace(",", ""))
    if shape := _SGLANG.search(line):
        seen.sglang.append((float(shape[1]), float(shape[2]), float(shape[3]) if shape[3] else None))
    if shape := _LLAMACPP.search(line):
        seen.llamacpp.append((int(shape[2]), int(shape[3])))


def _accepted(seen: _Seen) -> tuple[Accepted | None, tuple[Note, ...]]:
    if len(seen.drafts) > 1:
        drafts = ", ".join(str(count) for count in sorted(seen.drafts))
        return None, (Note("mixed", f"lines were printed with K of {drafts}; give those of one K"),)
    if seen.rounds:
        return accepted_from(per_position=[total / seen.rounds for total in seen.positions])
    if seen.sglang:
        length = _weighted([(weight, value) for weight, value, _ in seen.sglang])
        rates = [(weight, rate) for weight, _, rate in seen.sglang if rate is not None]
        return accepted_from(length=max(1.0, length), rate_fraction=_weighted(rates) if rates else None)
    if seen.llamacpp:
        accepted, drafted = (sum(column) for column in zip(*seen.llamacpp, strict=True))
        return accepted_from(rate_fraction=min(1.0, accepted / drafted) if drafted else 0.0)
    return None, ()


def _weighted(pairs: list[tuple[float, float]]) -> float:
    """Mean of (weight, value) pairs."""
    return sum(weight * value for weight, value in pairs) / max(1.0, sum(weight for weight, _ in pairs))


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _spread(values: list[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"
