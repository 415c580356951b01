"""The ways of decoding that are compared on one deployment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.errors import InvalidInput
from scenarios.acceptance import AcceptanceCase
from scenarios.build import Arm, Service
from scenarios.plan.question import Mode
from scenarios.questions.advice import advise, following
from scenarios.questions.load_run import decode_context_tokens
from simulator.cluster import Engine
from simulator.controllers.throughput_optimal import ThroughputOptimal
from simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class ModeEngine:
    """An engine in one mode; `draft_tokens` is its largest K, `length` the acceptance length there."""

    mode: Mode
    engine: Engine
    draft_tokens: int
    length: float


def check_modes(service: Service, modes: tuple[Mode, ...]) -> tuple[Mode, ...]:
    """The modes that mean something here.

    Raises
    ------
    InvalidInput
        The scenario speculates and nobody said how much is accepted.
    """
    if service.scenario.speculation.method == "none":
        if "off" not in modes:
            raise InvalidInput("speculation.method is 'none', so off is the only mode; give --method and a draft")
        return ("off",)
    if not service.cases and modes != ("off",):
        raise InvalidInput(
            "acceptance is missing and none is invented; give --acceptance-length 2.4@3, --alpha, --per-position or "
            "--task, or plan with --modes off"
        )
    chain = service.scenario.speculation.tree is None and service.scenario.speculation.control is None
    return tuple(mode for mode in modes if chain or mode in ("off", "static"))


def engine_of(service: Service, mode: Mode, requests: Workload) -> ModeEngine:
    """The arm in that mode, under the middle acceptance."""
    if mode == "off" or service.on is None:
        return ModeEngine("off", _engine(service.off, None), 0, 1.0)
    case = service.middle_case
    arm, drafts = service.on, service.draft_tokens
    if mode in ("schedule", "dynamic"):
        advice = advise(
            arm,
            case,
            context_tokens=decode_context_tokens(requests),
            max_draft_tokens=service.scenario.run.max_draft_tokens,
        )
        arm, drafts = following(arm, advice), advice.largest
        if mode == "dynamic" and drafts:
            arm = replace(arm, policy=ThroughputOptimal(drafts))
    return ModeEngine(mode, _engine(arm, case), drafts, case.length(drafts) if drafts else 1.0)


def _engine(arm: Arm, case: AcceptanceCase | None) -> Engine:
    return Engine(arm.costs, arm.limits, arm.speculation(case.models if case is not None else ()))
