"""Why two scenarios differ: the time of a request split into terms, and how much each of them moved.

A request waits (`queue`), gets its first token (`prefill`), and then N more in rounds: with v, d and h the seconds of
verifying, drafting and the host in a round as a decoding request sees it, and AL the tokens it gets in one,

    latency = queue + prefill + N ((v + d + h) / AL + held),

`held` being what a request spends in no round of its own (preempted, or beyond the step's budget). Differences of
products are split evenly between their factors, so the terms add up to the difference exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios.build import Arm, Service, build_service
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.domain import check_before
from scenarios.questions.served import check_served
from scenarios.questions.simulate import asked_load
from scenarios.schema import Scenario
from simulator.acceptance import Acceptance
from simulator.compare import half_width
from simulator.replica import simulate
from simulator.result import Result
from simulator.workload import Workload

ArmName = Literal["on", "off"]
TERMS = ("queue", "prefill", "verify", "draft", "host", "acceptance", "held", "lengths")


@dataclass(frozen=True, slots=True)
class RequestTime:
    """Means over finished requests: waiting and prefill once, the rest per decode round or token; `batch` decodes."""

    queue_s: float
    prefill_s: float
    verify_s: float
    draft_s: float
    host_s: float
    acceptance_length: float
    held_s: float
    later_tokens: float
    batch: float

    @property
    def round_s(self) -> float:
        """Seconds of a round."""
        return self.verify_s + self.draft_s + self.host_s

    @property
    def tpot_s(self) -> float:
        """Seconds per token after the first, every token weighing alike."""
        return self.round_s / self.acceptance_length + self.held_s

    @property
    def latency_s(self) -> float:
        """Arrival to the last token."""
        return self.queue_s + self.prefill_s + self.later_tokens * self.tpot_s


@dataclass(frozen=True, slots=True)
class Moved:
    """What a term adds to the mean latency from A to B, with its 95 % interval over seeds (open with one)."""

    name: str
    estimate_s: float
    half_width_s: float

    @property
    def is_tie(self) -> bool:
        """Whether 0 lies inside the interval: the runs do not tell."""
        return not abs(self.estimate_s) > self.half_width_s


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two scenarios at one load each; `total` is the difference of mean latencies, the sum of `moved`."""

    names: tuple[str, str]
    arms: tuple[ArmName, ArmName]
    loads: tuple[LoadPoint, LoadPoint]
    times: tuple[RequestTime, RequestTime]
    total: Moved
    moved: tuple[Moved, ...]
    labels: tuple[str, str]
    saturated: tuple[bool, bool]
    seeds: int


def compare(
    first: Scenario, second: Scenario, *, arms: tuple[ArmName | None, ArmName | None] = (None, None),
    at: str | None = None,
) -> Comparison:  # fmt: skip
    """Simulate both on paired seeds and say which term moved.

    The arm is the speculating one where the scenario says how much is accepted, else plain decoding.

    Raises
    ------
    InvalidInput
        An arm that the scenario cannot serve; see also `build_service`.
    """
    services = (build_service(first), build_service(second))
    chosen = (_arm_name(services[0], arms[0]), _arm_name(services[1], arms[1]))
    loads = (asked_load(services[0], at), asked_load(services[1], at))
    seeds = first.run.seeds
    runs = [
        [_run(service, arm, point, seed) for seed in range(seeds)]
        for service, arm, point in zip(services, chosen, loads, strict=True)
    ]
    times = [[request_time(result) for result in results] for results in runs]
    parts = np.array([_split(a, b) for a, b in zip(*times, strict=True)])
    return Comparison(
        names=(first.name, second.name),
        arms=chosen,
        loads=loads,
        times=(mean_time(times[0]), mean_time(times[1])),
        total=_moved("latency", parts.sum(axis=1)),
        moved=tuple(_moved(name, parts[:, place]) for place, name in enumerate(TERMS)),
        labels=(services[0].deployment.calibration.label, services[1].deployment.calibration.label),
        saturated=(_mostly_saturated(runs[0]), _mostly_saturated(runs[1])),
        seeds=seeds,
    )


def _arm_name(service: Service, asked: ArmName | None) -> ArmName:
    able = service.on is not None and bool(service.cases)
    if asked == "on" and not able:
        raise InvalidInput(
            f"scenario {service.scenario.name!r} has no speculating arm to compare (speculation or acceptance is "
            "missing); give both, or compare its plain arm with off"
        )
    return asked or ("on" if able else "off")


def _run(service: Service, arm: ArmName, point: LoadPoint, seed: int) -> Result:
    chosen = service.on if arm == "on" and service.on is not None else service.off
    requests = workload_at(service.scenario, point, trace=service.trace, seed=seed)
    check_before(service, requests, draft_tokens=service.draft_tokens if arm == "on" else None)
    models = service.middle_case.models if arm == "on" else ()
    return traced_run(chosen, requests, models=models, seed=service.scenario.run.seed + seed)


def traced_run(arm: Arm, requests: Workload, *, models: tuple[Acceptance, ...], seed: int) -> Result:
    """A run whose steps are kept, to split the time of its requests by.

    Raises
    ------
    InvalidInput
        The requests are turns of sessions, or the engine refuses every request.
    """
    if requests.sessions is not None:
        raise InvalidInput(
            "the time of requests is split by the steps of a run, and those of sessions are not kept; "
            "use a workload of kind poisson, gamma, closed or trace"
        )
    result = simulate(
        requests, costs=arm.costs, limits=arm.limits, speculation=arm.speculation(models), seed=seed, trace_steps=True
    )
    check_served(result, arm.limits)
    return result


def request_time(result: Result) -> RequestTime:
    """The terms of a run whose steps were traced; every decoding request weighs alike in a step."""
    steps = result.steps
    if steps is None:
        raise AssertionError("the steps of this run were not traced")
    done = ~np.isnan(result.finished_s)
    decoding = steps.decoding.astype(float)
    rounds = max(1.0, float(decoding.sum()))
    later_tokens = float((result.output_tokens[done] - 1).sum())
    decode_s = float((result.finished_s - result.first_token_s)[done].sum())
    verify_s, draft_s, host_s = (
        float((decoding * term_s).sum()) / rounds for term_s in (steps.verify_s, steps.draft_s, steps.host_s)
    )
    length = later_tokens / rounds if later_tokens else 1.0
    tokens = max(1.0, later_tokens)
    return RequestTime(
        queue_s=float((result.admitted_s - result.arrival_s)[done].mean()),
        prefill_s=float((result.first_token_s - result.admitted_s)[done].mean()),
        verify_s=verify_s,
        draft_s=draft_s,
        host_s=host_s,
        acceptance_length=length,
        held_s=decode_s / tokens - (verify_s + draft_s + host_s) / length if later_tokens else 0.0,
        later_tokens=later_tokens / float(done.sum()),
        batch=float((decoding**2).sum()) / rounds,
    )


def _split(a: RequestTime, b: RequestTime) -> list[float]:
    """Seconds by which each of `TERMS` moves the mean latency from a to b."""
    tokens = (a.later_tokens + b.later_tokens) / 2
    per_token = (1 / a.acceptance_length + 1 / b.acceptance_length) / 2
    round_s = (a.round_s + b.round_s) / 2
    return [
        b.queue_s - a.queue_s,
        b.prefill_s - a.prefill_s,
        tokens * per_token * (b.verify_s - a.verify_s),
        tokens * per_token * (b.draft_s - a.draft_s),
        tokens * per_token * (b.host_s - a.host_s),
        tokens * round_s * (1 / b.acceptance_length - 1 / a.acceptance_length),
        tokens * (b.held_s - a.held_s),
        (b.later_tokens - a.later_tokens) * (a.tpot_s + b.tpot_s) / 2,
    ]


def _moved(name: str, seconds: NDArray[np.float64]) -> Moved:
    half_s = float(half_width(seconds)) if len(seconds) > 1 else float("inf")
    return Moved(name, float(seconds.mean()), half_s)


def mean_time(times: Sequence[RequestTime]) -> RequestTime:
    """Every term's mean over repetitions."""
    names = [field.name for field in fields(RequestTime)]
    return RequestTime(**{name: float(np.mean([getattr(time, name) for time in times])) for name in names})


def _mostly_saturated(results: Sequence[Result]) -> bool:
    return 2 * sum(result.saturation.saturated for result in results) > len(results)
