"""One arm at one load: what happens to every request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.acceptance import AcceptanceCase
from scenarios.build import Arm, Service, build_service
from scenarios.loads import LoadPoint, load_points, own_load, workload_at
from scenarios.questions.assumptions import Assumption, assumptions_of, extrapolated, keeps_up_assumption
from scenarios.questions.break_even import simulate_arm
from scenarios.questions.domain import check_before, domain_findings
from scenarios.schema import Scenario
from simulator.result import Result


@dataclass(frozen=True, slots=True)
class OneRun:
    """A result with the question that led to it and all it rests on."""

    scenario: Scenario
    arm: Literal["on", "off"]
    point: LoadPoint
    result: Result
    assumptions: tuple[Assumption, ...]


def simulate_one(scenario: Scenario, *, arm: Literal["on", "off"] = "on", at: str | None = None) -> OneRun:
    """Simulate one arm at one load; `at` is a load, or a multiple of the workload's own like `2x`.

    Raises
    ------
    InvalidInput
        The speculating arm has no acceptance, or speculates nothing.
    OutsideDomain
        The calibration was not measured there, and the scenario does not accept extrapolation.
    """
    service = build_service(scenario)
    chosen, cases = asked_arm(service, arm)
    point = asked_load(service, at)
    draft_tokens = service.draft_tokens if arm == "on" else None
    requests = workload_at(scenario, point, trace=service.trace, seed=0)
    check_before(service, requests, draft_tokens=draft_tokens)
    models = cases[0].models if cases else ()
    result = simulate_arm(chosen, requests, models=models, seed=scenario.run.seed)
    outside = domain_findings(service, requests, mean_batch=result.mean_batch, draft_tokens=draft_tokens)
    assumptions = [*assumptions_of(service, cases=cases), *extrapolated(outside)]
    if not result.saturation.enough_data:
        assumptions.append(keeps_up_assumption([point.text]))
    return OneRun(scenario=scenario, arm=arm, point=point, result=result, assumptions=tuple(assumptions))


def asked_arm(service: Service, arm: Literal["on", "off"]) -> tuple[Arm, tuple[AcceptanceCase, ...]]:
    """The arm and the one acceptance it runs under; none for plain decoding.

    Raises
    ------
    InvalidInput
        The speculating arm has no acceptance, or speculates nothing.
    """
    if arm == "off":
        return service.off, ()
    if service.on is None:
        raise InvalidInput("speculation.method is 'none', so there is no speculating arm; use --arm off")
    if not service.cases:
        raise InvalidInput(
            "acceptance is missing and none is invented; give --acceptance-length 2.4@3, --alpha, "
            "--per-position or "
            "--task, or ask `specdec decide` for the break-even"
        )
    return service.on, (service.middle_case,)


def asked_load(service: Service, at: str | None) -> LoadPoint:
    """The load to simulate: as asked, a multiple of the workload's own like `2x`, or that itself.

    Raises
    ------
    InvalidInput
        It cannot be read, or the workload has no load of its own.
    """
    points = load_points(service.scenario, service.trace)
    value = _load(at, own_load(service.scenario, service.trace) or points[0].value)
    return LoadPoint(0, points[0].kind, value)


def _load(at: str | None, own: float) -> float:
    if at is None:
        return own
    value = notation.finite(at.removesuffix("x"), field="--at", example="4 or 2x")
    if value <= 0:
        raise InvalidInput(f"--at must be above 0, got {at}; write it like 4 or 2x")
    return value * own if at.endswith("x") else value
