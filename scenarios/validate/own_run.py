"""A user's own run against its prediction: which part of a request's time is off, and what host time explains."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from roofline.calibration import Calibration
from roofline.errors import InvalidInput
from scenarios.build import Arm, Service, build_service
from scenarios.loads import LoadPoint, workload_at
from scenarios.measured import Measured, Times
from scenarios.questions.compare import RequestTime, mean_time, request_time, traced_run
from scenarios.questions.domain import check_before
from scenarios.questions.simulate import asked_load
from scenarios.schema import Scenario
from simulator.result import Metric, Result

STEPS = 8
TOLERANCE_FRACTION = 0.002
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the run: measured, predicted, and predicted with the fitted host time (NaN where there is none)."""

    name: str
    measured: float
    predicted: float
    with_host: float

    @property
    def error_fraction(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds of the mean latency that are measured beyond what is predicted, by part of a request's time."""

    name: str
    residual_s: float
    with_host_s: float


@dataclass(frozen=True, slots=True)
class HostTime:
    """Host time a step beyond the calibration's that makes predicted and measured mean TPOT agree.

    `refused` says why there is none: the prediction is slower already, or more host time does not help.
    """

    extra_s: float
    calibration: Calibration | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class OwnRun:
    """The comparison with all it rests on."""

    scenario: Scenario
    arm: str
    point: LoadPoint
    label: str
    lines: tuple[Line, ...]
    parts: tuple[Part, ...]
    host: HostTime
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Simulated repetitions of the run."""

    results: tuple[Result, ...]
    time: RequestTime

    def quantile_s(self, metric: Metric, quantile: float) -> float:
        return float(np.mean([result.percentile(metric, quantile) for result in self.results]))

    def mean_s(self, metric: Metric) -> float:
        return float(np.mean([result.mean(metric) for result in self.results]))

    @property
    def tokens_per_s(self) -> float:
        return float(np.mean([result.throughput_tokens_per_s for result in self.results]))


def own_run(scenario: Scenario) -> OwnRun:
    """Simulate what was measured and hold the two against each other.

    The host time is fitted on mean TPOT alone and reported apart: it enters no prediction of this comparison.

    Raises
    ------
    InvalidInput
        The scenario holds no measured times, or what was measured cannot be simulated.
    """
    measured = scenario.measured
    if measured is None or not (measured.ttft_s or measured.tpot_s or measured.latency_s):
        raise InvalidInput(
            f"scenario {scenario.name!r} holds no measured times to compare with; make it with `specdec import FILE`"
        )
    service = build_service(scenario)
    speculates = service.on is not None and bool(service.cases)
    arm = service.on if speculates and service.on is not None else service.off
    point = asked_load(service, None)
    predicted = _simulated(service, arm, point)
    host = _host_time(service, arm, point, measured=measured, predicted=predicted)
    again = predicted
    if host.calibration is not None:
        costs = replace(arm.costs, step_host_s=arm.costs.step_host_s + host.extra_s)
        again = _simulated(service, replace(arm, costs=costs), point)
    return OwnRun(
        scenario=scenario,
        arm="on" if speculates else "off",
        point=point,
        label=service.deployment.calibration.label,
        lines=tuple(_lines(measured, predicted, again if host.calibration is not None else None)),
        parts=tuple(_parts(measured, predicted, again)),
        host=host,
        notes=tuple(_notes(service, measured, speculates=speculates)),
    )


def _simulated(service: Service, arm: Arm, point: LoadPoint) -> _Runs:
    speculates = arm.proposer is not service.off.proposer
    models = service.middle_case.models if speculates else ()
    first_seed = service.scenario.run.seed
    seeds = range(service.scenario.run.seeds if speculates or service.trace is None else 1)
    results: list[Result] = []
    for seed in seeds:
        requests = workload_at(service.scenario, point, trace=service.trace, seed=seed)
        check_before(service, requests, draft_tokens=service.draft_tokens if speculates else None)
        results.append(traced_run(arm, requests, models=models, seed=first_seed + seed))
    return _Runs(tuple(results), mean_time([request_time(result) for result in results]))


def _host_time(service: Service, arm: Arm, point: LoadPoint, *, measured: Measured, predicted: _Runs) -> HostTime:
    """Secant on the extra host seconds a step, from predicted to measured mean TPOT."""
    wanted_s = measured.tpot_s.mean if measured.tpot_s is not None else None
    if not wanted_s:
        return HostTime(0.0, None, "no mean TPOT was measured to fit it to")
    told_s = predicted.mean_s("tpot")
    if told_s > wanted_s:
        return HostTime(
            0.0,
            None,
            "the prediction is slower than the measurement, so no host time is missing; the forward pass is off",
        )
    tried = [(0.0, told_s)]
    extra_s = (wanted_s - told_s) * predicted.time.acceptance_length
    for _ in range(STEPS):
        costs = replace(arm.costs, step_host_s=arm.costs.step_host_s + extra_s)
        tried.append((extra_s, _simulated(service, replace(arm, costs=costs), point).mean_s("tpot")))
        (x_0, y_0), (x_1, y_1) = tried[-2:]
        if abs(y_1 - wanted_s) <= TOLERANCE_FRACTION * wanted_s:
            return HostTime(extra_s, _with_host(service, extra_s))
        if y_1 == y_0:
            break
        extra_s = max(0.0, x_1 + (wanted_s - y_1) * (x_1 - x_0) / (y_1 - y_0))
    return HostTime(0.0, None, "more host time does not bring TPOT to what was measured")


def _with_host(service: Service, extra_s: float) -> Calibration:
    calibration = service.deployment.calibration
    host = calibration.host.model_copy(update={"step_s": calibration.host.step_s + extra_s})
    name = f"{calibration.name}, host time of {service.scenario.name}"
    return calibration.model_copy(update={"host": host, "name": name})


def _lines(measured: Measured, predicted: _Runs, again: _Runs | None) -> list[Line]:
    metrics: tuple[tuple[Metric, str, Times | None], ...] = (
        ("ttft", "TTFT", measured.ttft_s),
        ("tpot", "TPOT", measured.tpot_s),
        ("latency", "latency", measured.latency_s),
    )
    found: list[Line] = []
    for metric, name, times in metrics:
        for statistic in ("mean", *QUANTILES):
            value: float | None = getattr(times, statistic) if times is not None else None
            if value:
                after = None if again is None else _of(again, metric, statistic)
                found.append(_line(f"{name} {statistic} s", value, _of(predicted, metric, statistic), again=after))
    after = [None, None, None] if again is None else _single(again)
    names = ("queue mean s", "ITL mean s", "output tokens per s")
    told = (
        measured.queue_s.mean if measured.queue_s else None,
        measured.itl_s.mean if measured.itl_s else None,
        measured.output_tokens_per_s,
    )
    for name, value, before, then in zip(names, told, _single(predicted), after, strict=True):
        if value:
            found.append(_line(name, value, before, again=then))
    return found


def _single(runs: _Runs) -> list[float]:
    """Waiting, time of a step as a decoding request sees it, tokens per second."""
    return [runs.time.queue_s, runs.time.round_s, runs.tokens_per_s]


def _line(name: str, measured: float, predicted: float, *, again: float | None) -> Line:
    return Line(name, measured, predicted, float("nan") if again is None else again)


def _of(runs: _Runs, metric: Metric, statistic: str) -> float:
    return runs.mean_s(metric) if statistic == "mean" else runs.quantile_s(metric, QUANTILES[statistic])


def _parts(measured: Measured, predicted: _Runs, again: _Runs) -> list[Part]:
    """The residual of the mean latency over queue, prefill and decode, as far as they were measured."""
    ttft_s, latency_s, queue_s = (
        times.mean if times is not None else None for times in (measured.ttft_s, measured.latency_s, measured.queue_s)
    )
    if ttft_s is None:
        return []
    told: list[list[float]] = []
    names: list[str] = []
    for runs in (predicted, again):
        time = runs.time
        if queue_s is None:
            parts = [("queue and prefill", ttft_s - time.queue_s - time.prefill_s)]
        else:
            parts = [("queue", queue_s - time.queue_s), ("prefill", ttft_s - queue_s - time.prefill_s)]
        if latency_s is not None:
            parts += _decode(latency_s - ttft_s, measured.itl_s, time)
        told.append([residual_s for _, residual_s in parts])
        names = [name for name, _ in parts]
    return [Part(name, before, after) for name, before, after in zip(names, *told, strict=True)]


def _decode(decode_s: float, itl_s: Times | None, time: RequestTime) -> list[tuple[str, float]]:
    """One part, or two where gaps between chunks tell a step from its tokens; their product is split evenly."""
    step_s = itl_s.mean if itl_s is not None else None
    if not step_s:
        return [("decode", decode_s - time.later_tokens * time.tpot_s)]
    per_token = decode_s / (time.later_tokens * step_s)  # rounds a token, as measured
    told = time.tpot_s / time.round_s
    return [
        ("step", time.later_tokens * (step_s - time.round_s) * (per_token + told) / 2),
        ("acceptance", time.later_tokens * (per_token - told) * (step_s + time.round_s) / 2),
    ]


def _notes(service: Service, measured: Measured, *, speculates: bool) -> list[str]:
    """What makes the comparison less than it looks."""
    found: list[str] = []
    if measured.acceptance_length is not None and measured.acceptance_length > 1.0 and not speculates:
        found.append(
            "the run accepted drafts, but the scenario names no method to draft with: plain decoding was simulated"
        )
    if service.trace is None:
        found.append("arrivals and lengths are drawn, not those of the run: percentiles compare loosely")
    if service.scenario.hardware.tensor_parallel > 1:
        found.append(
            "over several GPUs a missing time of the links looks like host time: a run on one GPU tells them apart"
        )
    if service.deployment.calibration.label == "catalogue":
        found.append("step times are the catalogue's, not measured on this GPU")
    return found
