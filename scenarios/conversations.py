"""Sessions of a scenario as the simulator plays them: when they start, what each turn brings, how alike turns are."""

from __future__ import annotations

import numpy as np

from scenarios.arrivals import RequestKind, SessionWorkload
from scenarios.drafting import AcceptanceGiven
from scenarios.lengths import drawn_lengths
from simulator.rng import Streams
from simulator.workload import Sessions, Workload, poisson_arrivals, session_workload


def sessions_at(workload: SessionWorkload, rate_per_s: float, streams: Streams) -> Workload:
    """Turns of all sessions in order of their start, at `rate_per_s` turns a second."""
    sessions = max(1, round(workload.requests / workload.turns))
    count = sessions * workload.turns
    first = np.arange(count) % workload.turns == 0
    wait_s = np.full(count, workload.think_s)
    if workload.think_sigma > 0.0:
        log_mean = -(workload.think_sigma**2) / 2
        wait_s *= streams.get("think times").lognormal(log_mean, workload.think_sigma, size=count)
    wait_s[first] = poisson_arrivals(sessions, rate_per_s / workload.turns, streams.get("arrivals"))
    new_tokens = drawn_lengths(workload.input_tokens, count, streams=streams, purpose="prompt_lengths")
    if workload.first_input_tokens is not None:
        new_tokens[first] = drawn_lengths(
            workload.first_input_tokens, sessions, streams=streams, purpose="first_prompt_lengths"
        )
    starts = [item.from_turn for item in workload.acceptance_by_turn] or [1]
    turn = np.arange(count) % workload.turns + 1
    return session_workload(
        Sessions(
            session_id=np.repeat(np.arange(sessions), workload.turns),
            wait_s=wait_s,
            new_tokens=new_tokens,
            output_tokens=drawn_lengths(workload.output_tokens, count, streams=streams, purpose="output_lengths"),
            keeps_cache=workload.keeps_cache,
        ),
        class_id=np.searchsorted(starts, turn, side="right") - 1,
        class_names=tuple(kind.name for kind in turn_kinds(workload)),
    )


def turn_kinds(workload: SessionWorkload) -> tuple[RequestKind, ...]:
    """One class for all turns, or one for each acceptance by turn."""
    by_turn = workload.acceptance_by_turn
    if not by_turn:
        return (_kind(workload, "turns", 1.0, None),)
    ends = [*(item.from_turn - 1 for item in by_turn[1:]), workload.turns]
    return tuple(
        _kind(
            workload, f"turns {item.from_turn} to {end}", (end - item.from_turn + 1) / workload.turns, item.acceptance
        )
        for item, end in zip(by_turn, ends, strict=True)
    )


def mean_context_tokens(workload: SessionWorkload) -> float | None:
    """Tokens of a session half way through an answer, a mean over turns; None where lengths are drawn from a trace."""
    first = workload.input_tokens if workload.first_input_tokens is None else workload.first_input_tokens
    means = [
        item if isinstance(item, int) else item.mean_tokens
        for item in (first, workload.input_tokens, workload.output_tokens)
    ]
    if means[0] is None or means[1] is None or means[2] is None:
        return None
    return means[0] + (workload.turns - 1) / 2 * (means[1] + means[2]) + means[2] / 2


def _kind(
    workload: SessionWorkload, name: str, share_fraction: float, acceptance: AcceptanceGiven | None
) -> RequestKind:
    return RequestKind(
        name=name,
        share_fraction=share_fraction,
        input_tokens=workload.input_tokens,
        output_tokens=workload.output_tokens,
        acceptance=acceptance,
    )
