"""Two arms on the same requests: ratios with intervals, from pairs that share arrivals and luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]

from roofline.errors import InvalidInput
from simulator.result import Result

LEVEL = 0.95
BLOCKS = 8
"""Consecutive blocks of requests a run is cut into: within-run pairs that also carry how the load varies."""
Ratio = Literal["tpot", "throughput", "ttft", "latency"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its two-sided 95 % interval, and from how many pairs."""

    estimate: float
    low: float
    high: float
    pairs: int

    @property
    def is_tie(self) -> bool:
        """Whether 1 (no difference) lies inside."""
        return self.low <= 1.0 <= self.high


def half_width(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the width of Student's t interval of a mean, two-sided at `LEVEL`, over the last axis; NaN of one value."""
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    wide = float(stdtrit(count - 1, 0.5 + LEVEL / 2))
    return np.asarray(wide * values.std(axis=-1, ddof=1) / np.sqrt(count))


def paired_speedup(off: Sequence[Result], on: Sequence[Result], *, metric: Ratio = "tpot") -> Interval:
    """How many times better `on` is than `off`: time ratio off/on, or throughput ratio on/off.

    Each run pairs with the run of the same seed. Times are compared over blocks of consecutive requests as well,
    so that one run already has an interval; throughput, a property of the whole run, over runs. Runs over the same
    arrivals (a replayed trace under several seeds) are no independent evidence on how the load varies: their
    blocks are averaged first. The interval is Student's t on the logarithms.
    """
    if len(off) != len(on) or not off or any(a.seed != b.seed for a, b in zip(off, on, strict=True)):
        raise InvalidInput(
            f"both arms need the same seeds in the same order, got {[r.seed for r in off]} and {[r.seed for r in on]}; "
            "simulate both arms with each seed"
        )
    if metric == "throughput":
        pairs = [(a.throughput_tokens_per_s, b.throughput_tokens_per_s) for a, b in zip(off, on, strict=True)]
        return _interval(np.array([np.log(b / a) for a, b in pairs if a > 0 and b > 0]))
    by_arrivals: dict[bytes | int, list[list[float]]] = {}
    for a, b in zip(off, on, strict=True):
        blocks = _block_logs(a.metric_s(metric), b.metric_s(metric))
        by_arrivals.setdefault(a.arrival_s.tobytes() if a.open_loop else a.seed, []).append(blocks)
    return _interval(np.concatenate([np.mean(same, axis=0) for same in by_arrivals.values()]))


def _block_logs(off_s: NDArray[np.float64], on_s: NDArray[np.float64]) -> list[float]:
    """Log ratio of means over requests that have the metric in both arms, by block."""
    both = ~(np.isnan(off_s) | np.isnan(on_s))
    pairs = np.stack([off_s[both], on_s[both]])
    if pairs.shape[1] < 2 * BLOCKS:
        return [float(np.log(pairs[0].mean() / pairs[1].mean()))] if pairs.shape[1] else []
    return [float(np.log(block[0].mean() / block[1].mean())) for block in np.array_split(pairs, BLOCKS, axis=1)]


def _interval(logs: NDArray[np.float64]) -> Interval:
    if not len(logs):
        return Interval(float("nan"), float("nan"), float("nan"), 0)
    centre = float(logs.mean())
    if len(logs) == 1:
        return Interval(float(np.exp(centre)), 0.0, float("inf"), 1)
    half = float(half_width(logs))
    return Interval(float(np.exp(centre)), float(np.exp(centre - half)), float(np.exp(centre + half)), len(logs))
