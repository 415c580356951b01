"""What an answer rests on, each with a label: measured, calibrated, catalogue or assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibrate.environment import host_id
from roofline.calibration import Label
from roofline.counts import weight_formats
from scenarios.acceptance import AcceptanceCase
from scenarios.arrivals import ClosedWorkload, OpenWorkload, SessionWorkload, TraceWorkload
from scenarios.build import Service
from scenarios.parallel import parts_text
from simulator.saturation import MIN_REQUESTS


@dataclass(frozen=True, slots=True)
class Assumption:
    """One thing taken as given, and how well founded it is."""

    label: Label
    text: str


def assumptions_of(service: Service, *, cases: tuple[AcceptanceCase, ...] | None = None) -> tuple[Assumption, ...]:
    """Kernel and host times, GPU, models, acceptance, workload.

    `cases` are the acceptances that were simulated, all of them where it is left out; with none, the draft and what
    it is worth are no part of the answer and are left out.
    """
    calibration, gpu = service.deployment.calibration, service.deployment.gpu
    scenario = service.scenario
    found = [
        Assumption(calibration.label, _calibration_text(service)),
        Assumption("catalogue", f"{gpu.name}: {gpu.source.title} ({gpu.source.retrieved})"),
        Assumption("catalogue", f"{service.target.name}: shapes and number formats of its config.json"),
    ]
    if service.draft is not None and cases != ():
        found.append(Assumption("catalogue", f"draft {service.draft.name}: shapes of its config.json"))
    found += [
        Assumption(case.label, f"acceptance: {case.text}") for case in (service.cases if cases is None else cases)
    ]
    if cases != () and scenario.acceptance is not None and scenario.acceptance.length is not None:
        found.append(Assumption("assumed", "the same acceptance at every draft position when another K is considered"))
    parts = parts_text(scenario)
    if parts is not None:
        found.append(Assumption("assumed", parts))
    found.append(Assumption("measured" if service.trace else "assumed", _workload_text(service)))
    return tuple(found)


def extrapolated(findings: Sequence[str]) -> tuple[Assumption, ...]:
    """What lies outside the measured ranges, taken to go on as inside."""
    return tuple(Assumption("assumed", f"extrapolated: {text}") for text in findings)


def keeps_up_assumption(loads: Sequence[str]) -> Assumption:
    """What is taken for granted at loads whose runs are too short for the test of saturation."""
    return Assumption(
        "assumed",
        f"that the service keeps up at {', '.join(loads)}: too few requests to tell; give more than "
        f"{MIN_REQUESTS} with --requests",
    )


def _calibration_text(service: Service) -> str:
    calibration = service.deployment.calibration
    if calibration.label == "catalogue":
        return (
            f"kernel, link and host times of {service.engine.name} on "
            f"{service.deployment.gpu.architecture}: published "
            "constants, not measured on your machine (measure it with `specdec calibrate`)"
        )
    models = [model for model in (service.target, service.draft) if model is not None]
    verdict = calibration.verdict_on({name for model in models for name in weight_formats(model)})
    state = "" if verdict.stable else f", NOT STABLE: {'; '.join(verdict.reasons)}"
    elsewhere = calibration.machine.host not in ("", host_id())
    origin = ", made on another machine" if elsewhere else ""
    return f"step times: {calibration.name} of {calibration.created} on {calibration.machine.device}{origin}{state}"


def _workload_text(service: Service) -> str:
    workload = service.scenario.workload
    match workload:
        case TraceWorkload() if service.trace is not None:
            hits = "" if workload.prefix_hits == "none" else ", prefix hits of a cache that never evicts"
            name = Path(workload.path).name
            return (
                f"{service.trace.requests:,} recorded requests of {name}, arrivals scaled{hits or ', no prefix hits'}"
            )
        case OpenWorkload():
            return f"{workload.requests:,} {workload.kind} arrivals per seed and load"
        case ClosedWorkload():
            return f"{workload.requests:,} requests per seed in a closed loop"
        case SessionWorkload():
            cache = "kept in the prefix cache" if workload.keeps_cache else "computed again every turn"
            return (
                f"{workload.requests:,} turns per seed and load in sessions of {workload.turns}, "
                f"{workload.think_s:g} s of thought before each, what was said {cache}"
            )
        case _:
            return "workload"
