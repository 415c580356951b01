"""What arrives: times, lengths and classes of requests, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Turns `(n,)`, those of a session together and in order.

    Attributes
    ----------
    session_id
        Non-decreasing.
    wait_s
        Before the turn: of a session's first from time 0, of the others from the end of the answer before (thinking, or
        a tool that runs).
    new_tokens, output_tokens
        What the turn adds to the prompt, and its answer. The prompt is everything before and the new tokens.
    keeps_cache
        Everything before the new tokens is found in the prefix cache; else it is computed again.
    """

    session_id: IntArray
    wait_s: FloatArray
    new_tokens: IntArray
    output_tokens: IntArray
    keeps_cache: bool = True

    def __post_init__(self) -> None:
        """Refuse turns that cannot be played."""
        lengths = {len(self.session_id), len(self.wait_s), len(self.new_tokens), len(self.output_tokens)}
        if len(lengths) != 1 or not len(self.session_id):
            raise InvalidInput(f"turns of sessions need arrays of one length above 0, got {sorted(lengths)}")
        if np.any(np.diff(self.session_id) < 0):
            raise InvalidInput("session_id must not fall: list the turns of a session together and in order")
        if not np.all(np.isfinite(self.wait_s) & (self.wait_s >= 0)):
            raise InvalidInput("wait_s must be finite times of 0 or more; give the seconds before every turn")

    def turns(self) -> list[range]:
        """Turns of every session."""
        starts = [0, *(np.flatnonzero(np.diff(self.session_id)) + 1).tolist(), len(self.session_id)]
        return [range(start, end) for start, end in pairwise(starts)]


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in order of arrival.

    Attributes
    ----------
    arrival_s : (n,)
        Non-decreasing. In a closed loop (`concurrency` set) only the order counts: a request arrives
        when an earlier one leaves.
    prompt_tokens, output_tokens : (n,)
        At least 1 each.
    prefix_hit_tokens : (n,)
        Prompt tokens found in the prefix cache; below `prompt_tokens`.
    class_id : (n,)
        Index into `class_names`.
    concurrency
        Requests in flight of a closed loop; None is open.
    sessions
        Requests are turns of these, in order; when a turn arrives is then a result, and `arrival_s` says nothing.
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    prefix_hit_tokens: IntArray
    class_id: IntArray
    class_names: tuple[str, ...] = ("default",)
    concurrency: int | None = None
    sessions: Sessions | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be simulated, and make the arrays read-only."""
        lengths = {len(array) for array in self._arrays().values()}
        if len(lengths) != 1:
            raise InvalidInput(
                f"workload arrays must have one length, got {sorted(lengths)}; give one entry per request"
            )
        if not len(self.arrival_s):
            raise InvalidInput("a workload needs at least one request, got 0; give a non-empty trace or more requests")
        self._check("arrival_s", ~np.isfinite(self.arrival_s) | (self.arrival_s < 0), "a finite time >= 0")
        self._check("arrival_s", np.diff(self.arrival_s, prepend=0.0) < 0, "non-decreasing times")
        self._check("prompt_tokens", self.prompt_tokens < 1, "at least 1 token")
        self._check("output_tokens", self.output_tokens < 1, "at least 1 token")
        hits = (self.prefix_hit_tokens < 0) | (self.prefix_hit_tokens >= self.prompt_tokens)
        self._check("prefix_hit_tokens", hits, "0 .. prompt_tokens - 1")
        self._check(
            "class_id",
            (self.class_id < 0) | (self.class_id >= len(self.class_names)),
            "an index of class_names",
        )
        if self.concurrency is not None and self.concurrency < 1:
            raise InvalidInput(f"concurrency must be at least 1, got {self.concurrency}; leave it out for an open loop")
        for array in self._arrays().values():
            array.flags.writeable = False

    def _arrays(self) -> dict[str, NDArray[np.generic]]:
        names = ("arrival_s", "prompt_tokens", "output_tokens", "prefix_hit_tokens", "class_id")
        return {name: getattr(self, name) for name in names}

    def _check(self, field: str, wrong: NDArray[np.bool_], allowed: str) -> None:
        if wrong.any():
            index = int(np.argmax(wrong))
            value = self._arrays()[field][index]
            raise InvalidInput(f"{field}[{index}] must be {allowed}, got {value}; correct or drop that request")

    def __len__(self) -> int:
        """Requests."""
        return len(self.arrival_s)

    @property
    def rate_per_s(self) -> float:
        """Mean arrival rate over the span of arrivals; NaN for a closed loop or a single instant."""
        span_s = float(self.arrival_s[-1] - self.arrival_s[0])
        return (len(self) - 1) / span_s if self.concurrency is None and span_s > 0 else float("nan")

    def scaled(self, rate_factor: float) -> Workload:
        """The same requests arriving `rate_factor` times as fast."""
        if not (np.isfinite(rate_factor) and rate_factor > 0):
            raise InvalidInput(f"rate factor must be a positive number, got {rate_factor}; use e.g. 0.5 or 2")
        return replace(self, arrival_s=self.arrival_s / rate_factor)


def make_workload(
    arrival_s: ArrayLike,
    *,
    prompt_tokens: ArrayLike,
    output_tokens: ArrayLike,
    prefix_hit_fraction: float = 0.0,
    concurrency: int | None = None,
) -> Workload:
    """One-class workload from plain arrays; `prefix_hit_fraction` of each prompt is found in the cache."""
    if not 0.0 <= prefix_hit_fraction < 1.0:
        raise InvalidInput(
            f"prefix_hit_fraction must be in [0, 1), got {prefix_hit_fraction}; give a share, not percent"
        )
    arrivals = np.array(arrival_s, dtype=np.float64)
    prompts = np.array(prompt_tokens, dtype=np.int64)
    return Workload(
        arrival_s=arrivals,
        prompt_tokens=prompts,
        output_tokens=np.array(output_tokens, dtype=np.int64),
        prefix_hit_tokens=np.minimum((prompts * prefix_hit_fraction).astype(np.int64), prompts - 1),
        class_id=np.zeros(len(arrivals), dtype=np.int64),
        concurrency=concurrency,
    )


def session_workload(
    sessions: Sessions, *, class_id: ArrayLike | None = None, class_names: tuple[str, ...] = ("default",)
) -> Workload:
    """Turns as requests, each prompt with all that was said before; `simulator.sessions` plays them."""
    count = len(sessions.session_id)
    said = np.zeros(count, dtype=np.int64)
    for turns in sessions.turns():
        both = sessions.new_tokens[turns.start : turns.stop] + sessions.output_tokens[turns.start : turns.stop]
        said[turns.start + 1 : turns.stop] = np.cumsum(both)[:-1]
    prompts = said + sessions.new_tokens
    return Workload(
        arrival_s=np.zeros(count),
        prompt_tokens=prompts,
        output_tokens=np.array(sessions.output_tokens, dtype=np.int64),
        prefix_hit_tokens=np.minimum(said, prompts - 1) * int(sessions.keeps_cache),
        class_id=np.zeros(count, dtype=np.int64) if class_id is None else np.array(class_id, dtype=np.int64),
        class_names=class_names,
        sessions=sessions,
    )


def poisson_arrivals(requests: int, rate_per_s: float, generator: np.random.Generator) -> FloatArray:
    """Arrival times `(requests,)` of a Poisson process."""
    return gamma_arrivals(requests, rate_per_s, generator, burstiness=1.0)


def gamma_arrivals(
    requests: int, rate_per_s: float, generator: np.random.Generator, *, burstiness: float
) -> FloatArray:
    """Arrival times with gamma gaps of shape `burstiness` (1: Poisson; smaller: burstier), as `vllm bench serve`."""
    for name, value in (("rate_per_s", rate_per_s), ("burstiness", burstiness)):
        if not (np.isfinite(value) and value > 0):
            raise InvalidInput(f"{name} must be a positive number, got {value}; give e.g. 4.0")
    return np.cumsum(generator.gamma(burstiness, 1.0 / (rate_per_s * burstiness), size=requests))


def swinging_arrivals(
    requests: int, phases: tuple[tuple[float, float], ...], generator: np.random.Generator
) -> FloatArray:
    """Arrival times of a Poisson process whose rate runs through (seconds, rate per second) phases over and over."""
    spans_s, rates_per_s = (np.array(column, dtype=np.float64) for column in zip(*phases, strict=True))
    if not (np.all(np.isfinite(spans_s) & (spans_s > 0)) and np.all(np.isfinite(rates_per_s) & (rates_per_s >= 0))):
        raise InvalidInput(f"phases must be (seconds above 0, rate of 0 or more) pairs, got {phases}; e.g. (60, 8.0)")
    expected = np.concatenate(([0.0], np.cumsum(spans_s * rates_per_s)))
    starts_s = np.concatenate(([0.0], np.cumsum(spans_s)))
    if expected[-1] <= 0:
        raise InvalidInput(f"some phase must have a rate above 0, got {phases}; nothing would ever arrive")
    cycles, left = np.divmod(np.cumsum(generator.exponential(size=requests)), expected[-1])
    phase = np.searchsorted(expected, left, side="right") - 1
    return cycles * starts_s[-1] + starts_s[phase] + (left - expected[phase]) / rates_per_s[phase]


def on_off_phases(
    mean_per_s: float, *, on_s: float, off_s: float, quiet_fraction: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """A burst of `on_s`, then quiet for `off_s` at `quiet_fraction` of the burst's rate; the mean rate is kept."""
    burst_per_s = mean_per_s * (on_s + off_s) / (on_s + quiet_fraction * off_s)
    return ((on_s, burst_per_s), (off_s, quiet_fraction * burst_per_s))


def diurnal_phases(
    mean_per_s: float, *, period_s: float, swing_fraction: float, steps: int = 48
) -> tuple[tuple[float, float], ...]:
    """A sine around the mean rate, from its trough, in `steps` constant parts a period."""
    if not 0.0 <= swing_fraction <= 1.0:
        raise InvalidInput(f"swing_fraction must be in 0..1, got {swing_fraction}; 0.8 goes from 20 % to 180 %")
    middles = (np.arange(steps) + 0.5) / steps
    rates_per_s = mean_per_s * (1.0 - swing_fraction * np.cos(2 * np.pi * middles))
    return tuple((period_s / steps, float(rate_per_s)) for rate_per_s in rates_per_s)


def bursts_within(
    phases: tuple[tuple[float, float], ...], *, on_s: float, off_s: float, quiet_fraction: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """Bursts of about `on_s` every `on_s + off_s` around the rate of each phase, whole ones; mean rates are kept."""
    found: list[tuple[float, float]] = []
    for span_s, rate_per_s in phases:
        bursts = max(1, round(span_s / (on_s + off_s)))
        fit = span_s / bursts / (on_s + off_s)
        found += on_off_phases(rate_per_s, on_s=fit * on_s, off_s=fit * off_s, quiet_fraction=quiet_fraction) * bursts
    return tuple(found)


def rollout_workload(
    prompts: int, samples: int, *, prompt_tokens: IntArray, output_tokens: IntArray, shared_prefix: bool = True
) -> Workload:
    """A synchronous batch of reinforcement learning: `samples` answers to each prompt, all there at time 0.

    `prompt_tokens` `(prompts,)`, `output_tokens` `(prompts * samples,)` in order of prompts. With `shared_prefix`
    the cache holds a prompt after its first answer began. What counts is when the last answer ends: `Result.end_s`.
    """
    count = prompts * samples
    prompt = np.repeat(np.asarray(prompt_tokens, dtype=np.int64), samples)
    first = np.arange(count) % samples == 0
    return Workload(
        arrival_s=np.zeros(count),
        prompt_tokens=prompt,
        output_tokens=np.array(output_tokens, dtype=np.int64),
        prefix_hit_tokens=np.where(first | (not shared_prefix), 0, prompt - 1),
        class_id=np.zeros(count, dtype=np.int64),
    )


def fixed_lengths(requests: int, tokens: int) -> IntArray:
    """The same length for every request."""
    return np.full(requests, tokens, dtype=np.int64)


def lognormal_lengths(
    requests: int, mean_tokens: float, generator: np.random.Generator, *, sigma: float, max_tokens: int
) -> IntArray:
    """Log-normal lengths with that mean (before clipping to 1..max_tokens) and log-scale spread `sigma`."""
    if not (np.isfinite(mean_tokens) and mean_tokens >= 1 and np.isfinite(sigma) and sigma >= 0):
        raise InvalidInput(
            f"mean_tokens must be >= 1 and sigma >= 0, got {mean_tokens} and {sigma}; give e.g. 512 and 0.8"
        )
    drawn = generator.lognormal(np.log(mean_tokens) - sigma**2 / 2, sigma, size=requests)
    return np.clip(np.round(drawn), 1, max_tokens).astype(np.int64)


def empirical_lengths(requests: int, values: ArrayLike, generator: np.random.Generator) -> IntArray:
    """Lengths drawn with replacement from observed values."""
    return generator.choice(np.asarray(values, dtype=np.int64), size=requests, replace=True)
