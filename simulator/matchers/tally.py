# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: numba infers the types of the named tuple of arrays.
"""Judging a proposal against the response, and counting the round in each of its groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.compiled import compiled
from simulator.matchers.counts import BY_CLASS, BY_CONTEXT, BY_OUTPUT, BY_TURN, MAX_TURN, OVERALL, SIZE_BUCKETS


class Tally(NamedTuple):
    """Counts of one way of proposing: rounds `(groups, K + 1, K + 1)`, without_bonus `(groups,)`."""

    rounds: NDArray[np.int64]
    without_bonus: NDArray[np.int64]


def empty_tally(draft_tokens: int, classes: int) -> Tally:
    """Nothing counted yet."""
    groups = BY_CLASS + classes
    return Tally(
        np.zeros((groups, draft_tokens + 1, draft_tokens + 1), dtype=np.int64), np.zeros(groups, dtype=np.int64)
    )


def grown_tally(tally: Tally, classes: int) -> Tally:
    """The same counts with room for more classes."""
    groups = BY_CLASS + classes
    if groups <= len(tally.rounds):
        return tally
    larger = empty_tally(tally.rounds.shape[1] - 1, 2 * classes)
    larger.rounds[: len(tally.rounds)] = tally.rounds
    larger.without_bonus[: len(tally.rounds)] = tally.without_bonus
    return larger


@compiled
def accepted_of(tokens, known, end, drafts, drafted):
    """How many of the drafts are the tokens that follow the first `known` (an index into `tokens`)."""
    accepted = 0
    while accepted < drafted and known + accepted < end and drafts[accepted] == tokens[known + accepted]:
        accepted += 1
    return accepted


@compiled
def _bucket(size):
    bits = 0
    while size > 0 and bits < SIZE_BUCKETS - 1:
        size >>= 1
        bits += 1
    return bits


@compiled
def count_round(tally, batch, request, known, drafted, accepted):
    """Count a round that knew `batch.tokens` up to index `known`."""
    context = known - batch.start[request]
    emitted = known - batch.response_start[request]
    whole = known + accepted == batch.start[request + 1]
    turn = min(batch.turn[request], MAX_TURN) - 1
    for group in (
        OVERALL,
        BY_CONTEXT + _bucket(context),
        BY_OUTPUT + _bucket(emitted),
        BY_TURN + turn,
        BY_CLASS + batch.class_id[request],
    ):
        tally.rounds[group, drafted, accepted] += 1
        if whole:
            tally.without_bonus[group] += 1
