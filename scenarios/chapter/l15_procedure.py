"""L15: the procedure: a latency-sensitive workload, a proposer, measured acceptance, a decision on the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, at_load, round_at, service
from scenarios.files import TRACE_FOLDER
from scenarios.imports.token_logs import TokenLog
from scenarios.questions.break_even import speculating_arm
from scenarios.questions.load_run import ArmAtLoad, CaseAtLoad
from scenarios.questions.replay import measured_by_position, replay_log
from simulator.matchers import SuffixMatcher

_SLO = ("tpot_p95=7ms",)
_RATE_PER_S = 8.0
_LOAD = {"requests": 400, "rate_per_s": _RATE_PER_S}
_ONE_B = {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "draft_tokens": 4}
_PUBLISHED_ROUNDS = (2, 3, 4)
"""K of the issue whose AL and time per token are known."""


def procedure(seed: int) -> Row:
    """The four steps on one service, and S predicted for a published case whose acceptance was measured."""
    candidates = _candidates(seed)
    outcomes = {name: at_load(made, "rate", _RATE_PER_S) for name, made in candidates.items()}
    gains = {name: case.tpot_speedup.estimate for name, each in outcomes.items() if (case := each.middle) is not None}
    plain = next(iter(outcomes.values())).off
    best = max(gains, key=lambda name: gains[name])
    best_case = outcomes[best].middle
    assert best_case is not None, "every candidate has an acceptance"
    return Row(
        id="L15",
        title="The procedure",
        says="identify a latency-sensitive workload, choose a proposer, measure acceptance and speed-up, decide on the "
        "data",
        command=f"specdec decide {DENSE} --rate 8 --slo tpot_p95=7ms",
        claims=(
            _latency_sensitive(plain, best, best_case),
            _choice_matters(gains, best),
            _predicted(seed),
            Claim(
                "acceptance and speed-up as a service measured them",
                missing="benchmark or metrics files of one service, off and on",
            ),
        ),
        tables=(
            Table(
                f"Three proposers at {_RATE_PER_S:g} req/s, 8B on H100",
                ("proposer", "AL", "AL needed", "S(TPOT)", "answer"),
                tuple(_line(name, outcomes[name]) for name in outcomes),
            ),
        ),
        note="Acceptance of suffix decoding is measured by replaying a log; the other two are assumed. AL needed is "
        "where the decision flips.",
    )


def _latency_sensitive(plain: ArmAtLoad, best: str, best_case: CaseAtLoad) -> Claim:
    return Claim(
        "the workload is latency-sensitive: plain decoding misses its objective, speculation meets it",
        1.0,
        1.0,
        found=(
            Quantity("plain decoding misses tpot_p95=7ms (1 = yes)", float(plain.meets_slo is False), "assumed"),
            Quantity(f"{best} meets it (1 = yes)", float(best_case.on.meets_slo is True), "assumed"),
        ),
        beside=(
            Quantity("TPOT p95 plain", plain.tpot_s[1] * 1e3, "calibrated", "ms"),
            Quantity(f"TPOT p95, {best}", best_case.on.tpot_s[1] * 1e3, "assumed", "ms"),
        ),
    )


def _choice_matters(gains: dict[str, float], best: str) -> Claim:
    return Claim(
        "the choice of the proposer matters",
        1.1,
        None,
        found=(Quantity("S(TPOT), best over worst proposer", gains[best] / min(gains.values()), "assumed"),),
    )


def _candidates(seed: int) -> dict[str, Service]:
    report = replay_log(TokenLog(TRACE_FOLDER / "streams" / "python_code.jsonl"), SuffixMatcher(draft_tokens=4))
    fractions, shares = measured_by_position(report.best.overall)
    suffix: dict[str, Any] = {
        "method": "suffix",
        "draft": None,
        "draft_tokens": 4,
        "proposal_fraction": None,
        "proposal_fractions": list(fractions),
    }
    measured = {"per_position": list(shares), "measured_on": "python_code"}
    given: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "EAGLE-3, AL 2.5@3": ({}, {"length": "2.5@3"}),
        "1B draft, AL 2.8@4": (_ONE_B, {"length": "2.8@4"}),
        "suffix, replayed": (suffix, measured),
    }
    return {
        name: service(
            DENSE, seed, slo=_SLO, speculation=drafting, acceptance=acceptance, workload=_LOAD, run={"seeds": 2}
        )
        for name, (drafting, acceptance) in given.items()
    }


def _predicted(seed: int) -> Claim:
    """S = AL / R with R computed, for published AL at batch 1 on an H100."""
    arm = speculating_arm(service(DENSE, seed))
    found: list[Quantity] = []
    errors: list[float] = []
    for k in _PUBLISHED_ROUNDS:
        length, measured = published(f"eagle3_al_at_{k}").value, published(f"eagle3_speedup_at_{k}").value
        predicted = length / round_at(arm, 1, draft_tokens=k, context_tokens=300).ratio
        errors.append(abs(predicted / measured - 1.0))
        found.append(Quantity(f"S predicted over measured, EAGLE-3 on 8B, K = {k}", predicted / measured, "calibrated"))
    return Claim(
        "predicted from measured acceptance, S is what was measured",
        1.0,
        1.0,
        tolerance_fraction=0.15,
        found=tuple(found),
        beside=(Quantity("median error", float(np.median(errors)), "calibrated"),),
    )


def _line(name: str, outcome: Any) -> tuple[str, ...]:
    case = outcome.middle
    needed = f"{outcome.break_even.length:.2f}" if outcome.break_even.kind == "at" else outcome.break_even.kind
    return (name, f"{case.on.acceptance_length:.2f}", needed, f"{case.tpot_speedup.estimate:.2f}", case.word)
