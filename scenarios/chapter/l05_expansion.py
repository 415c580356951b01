"""L5: drafts become tokens of the step, lengths become ragged, memory is reserved for the worst case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from scenarios.build import Arm, Service
from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, closed, label_of, round_at, service, traced
from scenarios.loads import LoadPoint
from scenarios.questions.break_even import speculating_arm
from simulator.result import Result

_BATCH = 64
_SHAPES: dict[str, dict[str, Any]] = {
    "a chain of 3": {"draft_tokens": 3},
    "a tree of 4 x 2 x 1 branches, 20 nodes": {"draft_tokens": None, "tree": {"widths": [4, 2, 1]}},
}
_ACCEPTANCE = {"alpha": 0.7, "sibling_fractions": [0.4, 0.25, 0.15]}
_FRACTIONS = (0.8, 0.5, 0.3, 0.2)
"""Share of rounds in which suffix decoding proposes at least 1, 2, … drafts (assumed)."""
_SUFFIX: dict[str, Any] = {
    "method": "suffix",
    "draft": None,
    "draft_tokens": len(_FRACTIONS),
    "proposal_fraction": _FRACTIONS[0],
    "proposal_fractions": list(_FRACTIONS),
}


def expansion(seed: int) -> Row:
    """Tokens of a step by shape, padded against unpadded drafting, and what reserving whole outputs costs."""
    return Row(
        id="L5",
        title="Batch expansion",
        says="N drafts become N virtual tokens per sequence (all branches of a tree); lengths are ragged; drafter "
        "batches are padded or not; memory is reserved for the worst case",
        command=f"specdec simulate {DENSE} --arm on --at 20 --draft-tokens 5",
        claims=(*_virtual_tokens(seed), _ragged(seed), _unpadded(seed), *_reserved(seed)),
        note="Reserved slots beyond the drafts' own (look-ahead) cost little; reserving every output in full, as "
        "engines do that never evict, costs admission.",
    )


def _steps(made: Service, **limits: int | bool) -> Result:
    """A closed loop of the speculating arm, step by step."""
    return traced(made, LoadPoint(0, "concurrency", _BATCH), **limits)


def _rows_each(result: Result) -> float:
    """Tokens per decoding sequence of the steps that decode only."""
    steps = result.steps
    assert steps is not None, "steps were traced"
    alone = (steps.prefilling == 0) & (steps.decoding > 0)
    return float(steps.new_tokens[alone].sum() / steps.decoding[alone].sum())


def _virtual_tokens(seed: int) -> tuple[Claim, ...]:
    claims: list[Claim] = []
    for name, drafting in _SHAPES.items():
        made = service(DENSE, seed, speculation=drafting, acceptance=_ACCEPTANCE, workload=closed(_BATCH, 160))
        rows = made.draft_tokens + 1.0
        claims.append(
            Claim(
                f"{name} puts {rows:g} tokens per sequence into a step",
                rows,
                rows,
                tolerance_fraction=0.01,
                found=(Quantity("tokens per decoding sequence and step", _rows_each(_steps(made)), label_of(made)),),
            )
        )
    return tuple(claims)


def _ragged(seed: int) -> Claim:
    given = {"per_position": [0.6, 0.5, 0.4, 0.3]}
    made = service(DENSE, seed, speculation=_SUFFIX, acceptance=given, workload=closed(_BATCH, 160))
    expected = 1.0 + sum(_FRACTIONS)
    return Claim(
        "where proposals differ in length the step holds their sum, not the widest",
        expected,
        expected,
        tolerance_fraction=0.03,
        found=(
            Quantity("tokens per decoding sequence, suffix proposals of 0 to 4", _rows_each(_steps(made)), "assumed"),
        ),
        beside=(Quantity("if padded to the widest", 5.0, "assumed"),),
    )


def _unpadded(seed: int) -> Claim:
    """The first draft pass runs over every row of the verification, or leaves the rejected ones out."""
    found: list[Quantity] = []
    drafting_s: dict[bool, float] = {}
    for padded in (True, False):
        drafting = {"padded": padded, "draft_tokens": 5}
        made = service(DENSE, seed, speculation=drafting, acceptance={"alpha": 0.6}, workload=closed(_BATCH, 200))
        result = _steps(made)
        drafting_s[padded] = result.totals.draft_s / result.totals.steps
    found.append(
        Quantity(
            "draft time of a step, unpadded over padded, batch 64", drafting_s[False] / drafting_s[True], "assumed"
        )
    )
    return Claim("leaving the padding out makes drafting cheaper", None, 0.99, found=tuple(found))


def _reserved(seed: int) -> tuple[Claim, Claim]:
    made = service(
        DENSE,
        seed,
        speculation={"draft_tokens": 5},
        acceptance={"alpha": 0.7},
        engine={"kv_blocks": 2000},
        workload=closed(_BATCH, 256, input_tokens=300, output_tokens=400),
    )
    arm = speculating_arm(made)
    free, reserving = _steps(made), _steps(made, reserve_full_output=True)
    lookahead = float(arm.limits.lookahead_tokens)
    small = replace(made, on=replace(arm, limits=arm.limits.model_copy(update={"lookahead_tokens": 0})))
    without = _steps(small)
    return (
        _worst_case(reserving, free),
        _lookahead(arm, free, lookahead, without),
    )


def _worst_case(reserving: Result, free: Result) -> Claim:
    return Claim(
        "reserving the worst case admits fewer requests",
        None,
        0.97,
        found=(
            Quantity("mean batch, whole outputs reserved over not", reserving.mean_batch / free.mean_batch, "assumed"),
        ),
        published=(published("sglang_running_cap"),),
        beside=(
            Quantity("preemptions without reservation", float(free.preemptions.sum()), "assumed"),
            Quantity("preemptions with it", float(reserving.preemptions.sum()), "assumed"),
            Quantity(
                "mean time to first token, with over without",
                float(np.mean(reserving.ttft_s) / np.mean(free.ttft_s)),
                "assumed",
            ),
        ),
    )


def _lookahead(arm: Arm, free: Result, lookahead: float, without: Result) -> Claim:
    return Claim(
        "the drafts' look-ahead slots alone do so too",
        None,
        0.99,
        found=(Quantity("mean batch, look-ahead reserved over not", free.mean_batch / without.mean_batch, "assumed"),),
        beside=(
            Quantity("look-ahead slots per sequence", lookahead, "assumed"),
            Quantity("R at this batch", round_at(arm, _BATCH, draft_tokens=5).ratio, "calibrated"),
        ),
    )
