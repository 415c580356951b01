"""What a simulation found: immutable arrays and the figures planners ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.saturation import Saturation, saturation_test

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Metric = Literal["ttft", "tpot", "latency"]


@dataclass(frozen=True, slots=True)
class Slo:
    """One service-level objective: a request meets it when its `metric` is at most `limit_s`.

    `quantile` is the share of requests that must meet it for the service to comply (0.95 for "p95"). `class_id`
    limits it to one request class; None is all of them.
    """

    metric: Metric
    quantile: float
    limit_s: float
    class_id: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits nobody can mean."""
        if not (np.isfinite(self.limit_s) and self.limit_s > 0):
            raise InvalidInput(
                f"SLO {self.metric} limit must be a positive time, got {self.limit_s}; write e.g. tpot_p95=40ms"
            )
        if not 0.0 < self.quantile <= 1.0:
            raise InvalidInput(f"SLO {self.metric} quantile must be in (0, 1], got {self.quantile}; write e.g. p95")


@dataclass(frozen=True, slots=True)
class Goodput:
    """Requests that met every SLO: per second of the run, and as a share of the requests that were offered."""

    requests_per_s: float
    fraction: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the requests are at the stop: arrived = finished + running + waiting + refused."""

    arrived: int
    finished: int
    running: int
    waiting: int
    refused: int


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One row per step, read-only arrays `(steps,)`.

    `waiting` counts the queue as the step was scheduled; `plain_s`-like parts: `verify_s` is the target's pass with
    sampling (also of a plain step), `draft_s` drafting for the next round, `host_s` the host.
    """

    start_s: FloatArray
    verify_s: FloatArray
    draft_s: FloatArray
    host_s: FloatArray
    new_tokens: IntArray
    decoding: IntArray
    prefilling: IntArray
    draft_tokens: IntArray
    emitted_tokens: IntArray
    waiting: IntArray


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the run: step time by term, what was moved and computed on one GPU, and time integrals.

    `system_request_s` integrates the requests in the system over time, `running_request_s` the running ones over
    busy time. `hbm_bytes`, `flops` are the target's; `peak_*` the ceilings of one GPU.
    """

    steps: int
    step_tokens: int
    busy_s: float
    verify_s: float
    draft_s: float
    host_s: float
    system_request_s: float
    running_request_s: float
    hbm_bytes: float
    flops: float
    peak_hbm_bytes_per_s: float
    peak_flops_per_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """Per-request outcome `(n,)`, NaN where a request did not get so far; totals; how it was made.

    `end_s` is the simulated time of the stop. `seed` and `label` (measured, calibrated, catalogue, assumed: of the
    costs) travel with the numbers.
    """

    arrival_s: FloatArray
    admitted_s: FloatArray
    first_token_s: FloatArray
    finished_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    emitted_tokens: IntArray
    rounds: IntArray
    drafted_tokens: IntArray
    accepted_tokens: IntArray
    preemptions: IntArray
    class_id: IntArray
    refused: NDArray[np.bool_]
    counts: Counts
    totals: Totals
    end_s: float
    open_loop: bool
    seed: int
    label: str
    steps: StepTrace | None = None

    @property
    def ttft_s(self) -> FloatArray:
        """Time to first token."""
        return self.first_token_s - self.arrival_s

    @property
    def tpot_s(self) -> FloatArray:
        """(end - first token) / (output tokens - 1); NaN for one-token outputs and the unfinished."""
        gaps = self.output_tokens - 1
        spans_s = self.finished_s - self.first_token_s
        return np.divide(spans_s, gaps, out=np.full(len(spans_s), np.nan), where=gaps > 0)

    @property
    def latency_s(self) -> FloatArray:
        """Arrival to last token."""
        return self.finished_s - self.arrival_s

    def metric_s(self, metric: Metric) -> FloatArray:
        """Values of a metric by request."""
        if metric == "ttft":
            return self.ttft_s
        return self.tpot_s if metric == "tpot" else self.latency_s

    def percentile(self, metric: Metric, quantile: float, *, class_id: int | None = None) -> float:
        """Quantile (0..1) over the requests (of a class) that have the metric; NaN where none has."""
        values = self.metric_s(metric)
        values = values[~np.isnan(values) & self._of_class(class_id)]
        return float(np.quantile(values, quantile)) if len(values) else float("nan")

    def _of_class(self, class_id: int | None) -> NDArray[np.bool_]:
        return np.ones(len(self.class_id), dtype=np.bool_) if class_id is None else self.class_id == class_id

    def mean(self, metric: Metric) -> float:
        """Mean over the requests that have the metric; NaN where none has."""
        values = self.metric_s(metric)
        values = values[~np.isnan(values)]
        return float(values.mean()) if len(values) else float("nan")

    @property
    def span_s(self) -> float:
        """First arrival to the stop."""
        return self.end_s - float(np.nanmin(self.arrival_s))

    @property
    def throughput_tokens_per_s(self) -> float:
        """Output tokens per second from the first arrival to the stop."""
        return _per(float(self.emitted_tokens.sum()), self.span_s)

    @property
    def throughput_requests_per_s(self) -> float:
        """Finished requests per second from the first arrival to the stop."""
        return _per(self.counts.finished, self.span_s)

    @property
    def acceptance_length(self) -> float:
        """AL: tokens per round that had drafts, bonus included; not cut at a request's end, as engines count."""
        rounds = int(self.rounds.sum())
        return 1.0 + float(self.accepted_tokens.sum()) / rounds if rounds else 1.0

    @property
    def mean_batch(self) -> float:
        """Running requests, weighted by step time."""
        return self.totals.running_request_s / self.totals.busy_s if self.totals.busy_s else 0.0

    @property
    def busy_fraction(self) -> float:
        """Share of the span in which a step was running."""
        return _per(self.totals.busy_s, self.span_s)

    @property
    def memory_utilisation_fraction(self) -> float:
        """Share of the HBM bandwidth the target's passes used while busy."""
        return _per(self.totals.hbm_bytes, self.totals.busy_s * self.totals.peak_hbm_bytes_per_s)

    @property
    def compute_utilisation_fraction(self) -> float:
        """Share of the peak arithmetic the target's passes used while busy."""
        return _per(self.totals.flops, self.totals.busy_s * self.totals.peak_flops_per_s)

    def goodput(self, slos: tuple[Slo, ...]) -> Goodput:
        """Requests inside every SLO; a refused or unfinished request is outside, a metric a request lacks is met."""
        good = ~np.isnan(self.finished_s)
        for slo in slos:
            values = self.metric_s(slo.metric)
            good &= np.isnan(values) | (values <= slo.limit_s) | ~self._of_class(slo.class_id)
        offered = self.counts.arrived
        return Goodput(_per(float(good.sum()), self.span_s), _per(float(good.sum()), offered))

    def meets(self, slos: tuple[Slo, ...]) -> bool:
        """Whether every SLO holds at its own quantile; one that nobody is subject to holds."""
        reached_s = [self.percentile(slo.metric, slo.quantile, class_id=slo.class_id) for slo in slos]
        return all(np.isnan(value_s) or value_s <= slo.limit_s for slo, value_s in zip(slos, reached_s, strict=True))

    @property
    def saturation(self) -> Saturation:
        """Whether the backlog grew over the arrivals (`simulator.saturation`); a closed loop has no backlog."""
        served = ~self.refused & (self.arrival_s <= self.end_s)  # later ones are no backlog: nobody offered them yet
        return saturation_test(
            self.arrival_s[served], self.admitted_s[served], self.finished_s[served], open_loop=self.open_loop
        )


def _per(amount: float, whole: float) -> float:
    """A rate or share; NaN where nothing was served, so that there is nothing to divide by."""
    return amount / whole if whole > 0 else float("nan")
