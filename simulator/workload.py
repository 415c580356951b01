"""What arrives: times, lengths and classes of requests, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
    """

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    prefix_hit_tokens: IntArray
    class_id: IntArray
    class_names: tuple[str, ...] = ("default",)
    concurrency: int | None = None

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
