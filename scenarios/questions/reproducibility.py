"""Would the same requests be computed in the same batch shapes again? Where not, outputs need not be the same bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.operators import padded_tokens
from scenarios.build import Arm, Service, build_service
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.simulate import asked_arm, asked_load
from scenarios.schema import Scenario
from simulator.acceptance import Acceptance
from simulator.replica import simulate
from simulator.result import Result
from simulator.workload import Workload

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """A second run of the same requests.

    `requests_fraction` of them had a step of another shape, or another number of steps; `steps_fraction` is the share
    of the steps of a request, one after the other, whose shape differs, a mean over requests.
    """

    name: str
    requests_fraction: float
    steps_fraction: float


@dataclass(frozen=True, slots=True)
class Reproducibility:
    """A run and what becomes of its batch shapes in others; `shapes`: how many different ones it had."""

    name: str
    arm: Literal["on", "off"]
    point: LoadPoint
    requests: int
    shapes: int
    changes: tuple[ShapeChange, ...]


def reproducibility(scenario: Scenario, *, arm: Literal["on", "off"] = "on", at: str | None = None) -> Reproducibility:
    """The run again with other arrivals, and without speculation.

    A shape is the number of new tokens of the step, padded to the captured graph; a kernel is chosen by it, and with it
    the order of its sums. Lengths, luck and order of the requests are the same in all runs.

    Raises
    ------
    InvalidInput
        Turns of sessions wait for answers, so no two runs hold the same requests at once.
    """
    service = build_service(scenario)
    chosen, cases = asked_arm(service, arm)
    point = asked_load(service, at)
    requests = workload_at(scenario, point, trace=service.trace, seed=0)
    if requests.sessions is not None:
        raise InvalidInput(
            "turns of sessions come when answers are there, so their batches are never the same; ask about an open "
            "or a closed workload"
        )
    models = cases[0].models if cases else ()
    first = _traced(service, chosen, requests, models)
    runs = [("the same requests at other times", _traced(service, chosen, _at_other_times(requests), models))]
    if arm == "on":
        runs.append(("without speculation", _traced(service, service.off, requests, ())))
    own = _shapes_by_request(service, first)
    return Reproducibility(
        name=scenario.name,
        arm=arm,
        point=point,
        requests=len(requests),
        shapes=len(np.unique(np.concatenate(own))),
        changes=tuple(_change(name, own, _shapes_by_request(service, result)) for name, result in runs),
    )


def _at_other_times(requests: Workload) -> Workload:
    """The same requests in the same order, the gaps between their arrivals in reverse."""
    gaps_s = np.diff(requests.arrival_s)[::-1]
    return replace(requests, arrival_s=np.concatenate(([0.0], np.cumsum(gaps_s))))


def _traced(service: Service, arm: Arm, requests: Workload, models: tuple[Acceptance, ...]) -> Result:
    return simulate(
        requests,
        costs=arm.costs,
        limits=arm.limits,
        speculation=arm.speculation(models),
        seed=service.scenario.run.seed,
        trace_steps=True,
    )


def _shapes_by_request(service: Service, result: Result) -> list[IntArray]:
    """Padded tokens of the steps between a request's admission and its end; empty where it was refused."""
    steps = result.steps
    assert steps is not None
    shapes = padded_tokens(steps.new_tokens, service.deployment.graph_tokens)
    first = np.searchsorted(steps.start_s, np.nan_to_num(result.admitted_s, nan=np.inf))
    last = np.searchsorted(steps.start_s, np.nan_to_num(result.finished_s, nan=-np.inf))
    return [shapes[start : max(start, end)] for start, end in zip(first, last, strict=True)]


def _change(name: str, own: list[IntArray], others: list[IntArray]) -> ShapeChange:
    differing: list[float] = []
    for mine, other in zip(own, others, strict=True):
        longest, common = max(len(mine), len(other)), min(len(mine), len(other))
        if longest:
            same = int(np.count_nonzero(mine[:common] == other[:common]))
            differing.append(1.0 - same / longest)
    fractions = np.array(differing)
    return ShapeChange(name, float((fractions > 0).mean()), float(fractions.mean()))
