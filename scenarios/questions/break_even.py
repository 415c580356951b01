"""The acceptance length at which speculation and plain decoding are equally good at a load, by simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
from scipy.optimize import brentq  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

from scenarios.build import Arm, Service
from scenarios.questions.served import check_served
from simulator.acceptance import Acceptance, LengthAcceptance, PerPositionAcceptance
from simulator.compare import paired_speedup
from simulator.plan import expected_length
from simulator.proposers.base import TreeProposer
from simulator.replica import simulate
from simulator.result import Result
from simulator.sessions import simulate_sessions
from simulator.varied_acceptance import VariedAcceptance
from simulator.workload import Workload

STEPS = 8
LEVEL_TOLERANCE = 1e-4
TOLERANCE = 0.005
"""The search ends when the logarithm of the speed-up is this near 0."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Acceptance length at which the answer flips; `never`/`always`: outside 1..K + 1.

    `unknown`: the speed-up is not defined, or the search did not settle. The length is NaN but for `at`.
    """

    kind: Literal["at", "never", "always", "unknown"]
    length: float


def speculating_arm(service: Service) -> Arm:
    """The arm with the draft loaded; callers have checked that there is one."""
    if service.on is None:
        raise AssertionError("callers check that the scenario speculates")
    return service.on


def simulate_arm(arm: Arm, workload: Workload, *, models: tuple[Acceptance, ...] = (), seed: int) -> Result:
    """Serve the requests with one arm.

    Raises
    ------
    InvalidInput
        The engine refuses every request.
    """
    play = simulate if workload.sessions is None else simulate_sessions
    result = play(workload, costs=arm.costs, limits=arm.limits, speculation=arm.speculation(models), seed=seed)
    check_served(result, arm.limits)
    return result


def break_even(
    service: Service,
    workload: Workload,
    *,
    plain: Result,
    guess: float,
    metric: Literal["tpot", "throughput"],
    steps: int = STEPS,
) -> BreakEven:
    """Secant on log(speed-up) over log(AL) from the closed form AL = R, on the seed of `plain`."""
    largest = longest_length(service)
    tried: list[tuple[float, float]] = []
    length = min(max(guess, 1.0), largest)
    for _ in range(steps):
        model = acceptance_of_length(service, length)
        speculating = simulate_arm(speculating_arm(service), workload, models=(model,), seed=plain.seed)
        speedup = paired_speedup([plain], [speculating], metric=metric).estimate
        if not math.isfinite(speedup) or speedup <= 0:
            return BreakEven("unknown", math.nan)
        tried.append((math.log(length), math.log(speedup)))
        if abs(tried[-1][1]) < TOLERANCE:
            return BreakEven("at", length)
        if length >= largest and speedup < 1:
            return BreakEven("never", math.nan)
        if length <= 1.0 and speedup > 1:
            return BreakEven("always", math.nan)
        step = _next(tried)
        length = 1.0 if step <= 0 else largest if step >= math.log(largest) else math.exp(step)
    return BreakEven("unknown", math.nan)


def longest_length(service: Service) -> float:
    """AL where every draft is accepted: K + 1, or the depth of the tree and 1."""
    tree = service.cases[0].tree if service.cases else None
    if not isinstance(tree, TreeProposer):
        return service.draft_tokens + 1.0
    return expected_length(tree, _moved(service, tree, 2.0), service.draft_tokens)


def acceptance_of_length(service: Service, length: float) -> Acceptance:
    """An acceptance with this AL at the scenario's K; of a tree, in the proportions of its case."""
    tree = service.cases[0].tree if service.cases else None
    if not isinstance(tree, TreeProposer):
        return LengthAcceptance(length=length, at_draft_tokens=service.draft_tokens)

    def excess(level: float) -> float:
        return expected_length(tree, _moved(service, tree, level), service.draft_tokens) - length

    if excess(2.0) <= 0.0:
        return _moved(service, tree, 2.0)
    root = brentq(excess, 0.0, 2.0, xtol=LEVEL_TOLERANCE)  # pyright: ignore[reportUnknownVariableType]
    return _moved(service, tree, cast("float", root))


def _moved(service: Service, tree: TreeProposer, level: float) -> VariedAcceptance:
    """The middle case with all its acceptances times `level` up to 1; beyond, first choices go to certainty at 2."""
    model = service.middle_case.models[0]
    varied = model if isinstance(model, VariedAcceptance) else VariedAcceptance(model)
    if level <= 1.0:
        return replace(varied, ceiling=level * varied.ceiling)
    given = varied.mean.conditional(tree.depth)
    raised = np.cumprod(given + (level - 1.0) * (1.0 - given))
    return replace(varied, mean=PerPositionAcceptance(tuple(float(share) for share in raised)))


def _next(tried: Sequence[tuple[float, float]]) -> float:
    """Log length where the line through the last two points meets 0; slope 1 while there is one point."""
    x_1, y_1 = tried[-1]
    if len(tried) == 1:
        return x_1 - y_1
    x_0, y_0 = tried[-2]
    return x_1 - y_1 * (x_1 - x_0) / (y_1 - y_0) if y_1 != y_0 else x_1 - y_1
