"""One vocabulary for what was measured, whatever tool wrote it down; seconds, tokens, fractions.

`per_position` is unconditional (share of rounds in which at least i drafts were accepted), `acceptance_length` counts
the bonus token, `draft_tokens` is K, TPOT is (end - first token) / (output tokens - 1). Readers convert to this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

NoteKind = Literal["missing", "mixed", "contradicts", "converted"]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
TOLERANCE_FRACTION = 0.02
"""Two tellings of one number that differ by more contradict each other; counters and rounded prints differ by less."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something the reader of an import must know."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Requests:
    """What is known of each request, arrays of one length; None where the file does not say. Times start at 0."""

    prompt_tokens: IntArray | None = None
    output_tokens: IntArray | None = None
    arrival_s: FloatArray | None = None
    ttft_s: FloatArray | None = None
    latency_s: FloatArray | None = None
    queue_s: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many drafts were accepted. None where neither told nor computable from what was."""

    draft_tokens: int | None = None
    per_position: tuple[float, ...] = ()
    acceptance_length: float | None = None


@dataclass(frozen=True, slots=True)
class StepTime:
    """One forward pass measured alone: `batch` sequences of `query_tokens` new tokens each."""

    case: str
    batch: int
    query_tokens: int
    context_tokens: float
    median_s: float


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run, or one window of a service's life.

    `times` holds statistics in seconds by metric (ttft, tpot, itl, latency, queue) and name (mean, p50, p95, …).
    `window` says what the numbers cover where that is not one benchmark run.
    """

    format: str
    source: str
    model: str | None = None
    engine: str | None = None
    window: str | None = None
    duration_s: float | None = None
    finished: int | None = None
    failed: int = 0
    rate_per_s: float | None = None
    burstiness: float | None = None
    concurrency: int | None = None
    input_tokens_mean: float | None = None
    output_tokens_mean: float | None = None
    output_tokens_per_s: float | None = None
    prefix_hit_fraction: float | None = None
    accepted: Accepted | None = None
    requests: Requests | None = None
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    steps: tuple[StepTime, ...] = ()
    trace: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    notes: tuple[Note, ...] = ()


def agree(one: float, other: float) -> bool:
    """Whether two tellings of one number are the same but for rounding."""
    return abs(one - other) <= TOLERANCE_FRACTION * max(abs(one), abs(other), 1e-9)


def accepted_from(
    *,
    draft_tokens: int | None = None,
    per_position: Sequence[float] = (),
    length: float | None = None,
    rate_fraction: float | None = None,
    drafted_per_round: float | None = None,
) -> tuple[Accepted | None, tuple[Note, ...]]:
    """What the tellings of a tool amount to, and where they contradict each other.

    `per_position` is unconditional, `length` counts the bonus token, `rate_fraction` is accepted over drafted. Each
    follows from the others at a K: length = 1 + sum(per_position) = 1 + K rate; where some rounds drafted less than K,
    the rate is over `drafted_per_round`.
    """
    if not per_position and length is None and rate_fraction is None:
        return None, ()
    notes: list[Note] = []
    drafts = draft_tokens or (len(per_position) or None)
    if drafts is None and length is not None and rate_fraction:
        drafts = max(1, round((length - 1.0) / rate_fraction))
        notes.append(Note("converted", f"K = {drafts} from acceptance length and rate, (AL - 1) / rate"))
    shares = tuple(min(1.0, share) for share in per_position)
    if any(after > before + 1e-9 for before, after in pairwise(shares)):
        notes.append(Note("contradicts", "acceptance by position rises, which unconditional shares cannot; left out"))
        shares = ()
    if shares and drafts is not None and len(shares) != drafts:
        notes.append(Note("contradicts", f"{len(shares)} positions were told for K = {drafts}; positions left out"))
        shares = ()
    told = [("positions", 1.0 + sum(shares))] if shares else []
    if length is not None:
        told.append(("acceptance length", length))
    if rate_fraction is not None and drafts is not None:
        told.append(("acceptance rate", 1.0 + (drafted_per_round or drafts) * rate_fraction))
    if not told:
        notes.append(Note("missing", "an acceptance rate without K says nothing about tokens per round"))
        return None, tuple(notes)
    if drafts is not None and any(value > drafts + 1 + TOLERANCE_FRACTION for _, value in told):
        notes.append(
            Note("contradicts", f"more than {drafts + 1} tokens per round at K = {drafts}; acceptance left out")
        )
        return None, tuple(notes)
    if any(not agree(told[0][1], value) for _, value in told):
        listed = ", ".join(f"{value:.3f} by its {name}" for name, value in told)
        notes.append(Note("contradicts", f"tokens per round are {listed}; acceptance left out"))
        return None, tuple(notes)
    return Accepted(drafts, shares, length if length is not None else told[0][1]), tuple(notes)


def unconditional_from_histogram(counts: Sequence[float]) -> tuple[float, ...]:
    """Shares of rounds with at least 1, 2, … accepted drafts, from counts of rounds with 0, 1, … of them."""
    total = sum(counts)
    return tuple(sum(counts[place:]) / total for place in range(1, len(counts))) if total else ()


def statistics_of(values_s: FloatArray) -> dict[str, float]:
    """Mean and percentiles of per-request times."""
    kept = values_s[~np.isnan(values_s)]
    if not len(kept):
        return {}
    quantiles = np.quantile(kept, (0.5, 0.9, 0.95, 0.99))
    names = ("p50", "p90", "p95", "p99")
    return {"mean": float(kept.mean()), **{name: float(q) for name, q in zip(names, quantiles, strict=True)}}
