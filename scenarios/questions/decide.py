"""Does speculative decoding pay for this service, in which loads, with how many drafts, and how sure is that?"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from roofline.calibration import Calibration
from roofline.errors import InvalidInput
from roofline.memory import MemoryAccount
from scenarios.acceptance import AcceptanceCase
from scenarios.build import Arm, Service, build_service
from scenarios.imports.serve_command import FlagReport, parse_serve_command
from scenarios.loads import load_points, workload_at
from scenarios.questions.advice import Advice, advise
from scenarios.questions.against_catalogue import moved_from_catalogue
from scenarios.questions.assumptions import Assumption, assumptions_of, extrapolated, keeps_up_assumption
from scenarios.questions.break_even import longest_length
from scenarios.questions.domain import check_before, domain_findings
from scenarios.questions.load_run import LoadOutcome, decode_context_tokens
from scenarios.questions.pool import Progress, run_loads
from scenarios.questions.shapes import Shape, shapes_of
from scenarios.questions.verdict import JudgedLoad, Verdict, Word, judge
from scenarios.schema import Scenario
from scenarios.validate.like_this import LikeThis, like_this


@dataclass(frozen=True, slots=True)
class DraftWindow:
    """A draft head that sees fewer tokens than the service's contexts grow to."""

    window_tokens: int
    requests_beyond_fraction: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer with all it rests on: verdict, loads, advice, memory, assumptions, flags.

    `published`: how far off predictions of published rows of the same kind were.
    """

    scenario: Scenario
    verdict: Verdict
    loads: tuple[LoadOutcome, ...]
    cases: tuple[AcceptanceCase, ...]
    draft_tokens: int
    context_tokens: int
    advice: Advice | None
    memory: MemoryAccount
    window: DraftWindow | None
    assumptions: tuple[Assumption, ...]
    flags: tuple[FlagReport, ...]
    published: LikeThis
    calibration: Calibration
    requests: int
    version: str
    longest_length: float
    shapes: tuple[Shape, ...] = ()

    def report(self) -> str:
        """What the command prints: verdict, reasons, table of loads, assumptions, flags."""
        from scenarios.report.decision_text import decision_text

        return decision_text(self)

    @property
    def saturated_everywhere(self) -> bool:
        """No load of the sweep can be carried by either arm."""
        return self.verdict.headline == "SATURATED"


def decide(scenario: Scenario, *, workers: int = 1, progress: Progress | None = None) -> Decision:
    """Simulate both arms over the sweep and judge.

    `workers` above 1 starts processes (a script must then guard its entry); the result does not depend on it.
    Without an acceptance, the verdict is CANNOT SAY and every load has its break-even.

    Raises
    ------
    InvalidInput
        The scenario speculates nothing, or a field is wrong.
    DoesNotFit
        The model does not fit the GPUs; the message holds the byte account.
    """
    return decide_service(build_service(scenario), workers=workers, progress=progress)


def _decidable(service: Service) -> Arm:
    """The speculating arm, where there is one and its break-even can be looked for."""
    if service.on is None:
        raise InvalidInput(
            "speculation.method is 'none', so there is nothing to decide; give --speculative-config in "
            "the serve "
            "line, or method, draft and draft_tokens in [speculation]"
        )
    if service.scenario.speculation.tree is not None and not service.cases:
        raise InvalidInput(
            "acceptance is missing, and the break-even of a tree depends on its second choices; give acceptance with "
            "sibling_fractions, or remove speculation.tree"
        )
    return service.on


def decide_service(service: Service, *, workers: int = 1, progress: Progress | None = None) -> Decision:
    """`decide` for a service that is already built."""
    scenario = service.scenario
    on = _decidable(service)
    points = load_points(scenario, service.trace)
    requests = workload_at(scenario, points[0], trace=service.trace, seed=0)
    check_before(service, requests, draft_tokens=service.draft_tokens)
    context_tokens = decode_context_tokens(requests)
    advice = None
    if service.cases:
        advice = advise(
            on,
            service.middle_case,
            context_tokens=context_tokens,
            max_draft_tokens=scenario.run.max_draft_tokens,
        )
    loads = run_loads(service, points, advice=advice, workers=workers, progress=progress)
    mean_batch = max(arm.mean_batch for load in loads for arm in (load.off, *(case.on for case in load.cases)))
    outside = extrapolated(domain_findings(service, requests, mean_batch=mean_batch, draft_tokens=service.draft_tokens))
    moved = moved_from_catalogue(service, [load.off.mean_batch for load in loads], context_tokens)
    return Decision(
        scenario=scenario,
        verdict=judge([_judged(load) for load in loads]),
        loads=loads,
        cases=service.cases,
        draft_tokens=service.draft_tokens,
        context_tokens=context_tokens,
        advice=advice,
        memory=on.memory,
        window=_window(service, requests.prompt_tokens + requests.output_tokens),
        assumptions=(*assumptions_of(service), *_too_short(loads), *outside, *moved),
        flags=parse_serve_command(scenario.serve).flags if scenario.serve else (),
        published=like_this(service.deployment.gpu, engine=service.engine.name, method=scenario.speculation.method),
        calibration=service.deployment.calibration,
        requests=len(requests),
        version=package_version(),
        longest_length=longest_length(service),
        shapes=shapes_of(service, context_tokens=context_tokens),
    )


def _too_short(loads: tuple[LoadOutcome, ...]) -> tuple[Assumption, ...]:
    """The loads at which a run is too short to tell whether its arm keeps up."""
    short = [
        load.point.text
        for load in loads
        if not all(arm.saturation_known for arm in (load.off, *(case.on for case in load.cases)))
    ]
    return (keeps_up_assumption(short),) if short else ()


def _judged(load: LoadOutcome) -> JudgedLoad:
    """One word for a load: the cases of a preset must agree, and no acceptance is no answer."""
    if not load.cases:
        flips: dict[str, Word] = {"never": "OFF", "always": "ON", "at": "CANNOT SAY", "unknown": "CANNOT SAY"}
        kind = load.break_even.kind
        word = "SATURATED" if load.off.saturated and kind == "never" else flips[kind]
        return JudgedLoad(load.point.value, word, np.nan, np.nan, np.nan)
    words = {case.word for case in load.cases}
    middle = load.cases[len(load.cases) // 2]
    metric = "throughput_speedup" if words == {"SATURATED"} else "tpot_speedup"
    speedups = [getattr(case, metric) for case in load.cases]
    return JudgedLoad(
        value=load.point.value,
        word=middle.word if len(words) == 1 else "CANNOT SAY",
        speedup=getattr(middle, metric).estimate,
        low=min(interval.low for interval in speedups),
        high=max(interval.high for interval in speedups),
    )


def _window(service: Service, contexts: np.ndarray) -> DraftWindow | None:
    limit = service.draft.max_context_tokens if service.draft is not None else None
    served = contexts[contexts <= (service.off.limits.max_context_tokens or np.inf)]
    beyond = float(np.sum(served > limit)) / len(contexts) if limit else 0.0
    return DraftWindow(limit, beyond) if limit and beyond > 0 else None


def package_version() -> str:
    """Version of the installed distribution."""
    try:
        return version("specdec-sim")
    except PackageNotFoundError:
        return "not installed"
