"""Which K to use at which batch size, from AL(K) / R(K, B) over the cost table."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roofline.cost import round_cost
from roofline.errors import InvalidInput
from scenarios.acceptance import AcceptanceCase
from scenarios.build import Arm
from simulator.plan import expected_lengths, proposed_fractions
from simulator.policy import DraftByBatch
from simulator.proposers.base import ParticularProposer

TOLERANCE_FRACTION = 0.03
"""A range keeps its K while that K stays within this share of the best speed-up."""
_BATCHES_PER_DOUBLING = 8

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DraftRange:
    """The K to use for batches `first`..`last`, and the speed-up at its first batch."""

    first: int
    last: int
    draft_tokens: int
    speedup: float


@dataclass(frozen=True, slots=True)
class Advice:
    """K by batch size for one acceptance. `speedups`: (K + 1, batches), row 0 is 1."""

    ranges: tuple[DraftRange, ...]
    batches: tuple[int, ...]
    speedups: FloatArray

    @property
    def largest(self) -> int:
        """The K to load the engine with."""
        return max(item.draft_tokens for item in self.ranges)

    def at(self, batch: float) -> DraftRange:
        """The range that holds a batch."""
        return next((item for item in self.ranges if batch <= item.last), self.ranges[-1])

    def engine_json(self) -> str:
        """The schedule as vLLM's speculative-config reads it."""
        rows = [[item.first, item.last, item.draft_tokens] for item in self.ranges]
        return json.dumps(
            {"num_speculative_tokens": max(1, self.largest), "num_speculative_tokens_per_batch_size": rows}
        )


def following(arm: Arm, advice: Advice) -> Arm:
    """The speculating arm with the advised schedule."""
    ranges = tuple((item.first, item.last, item.draft_tokens) for item in advice.ranges)
    lookahead_tokens = arm.proposer.lookahead_tokens(advice.largest)
    return replace(
        arm,
        policy=DraftByBatch(ranges=ranges),
        limits=arm.limits.model_copy(update={"lookahead_tokens": lookahead_tokens}),
    )


def advise(arm: Arm, case: AcceptanceCase, *, context_tokens: int, max_draft_tokens: int) -> Advice:
    """The best K by batch, 0 where plain decoding wins; neighbouring batches share a K where it costs next to nothing.

    Closed form at a steady decode batch of equal contexts: S = AL(K) / R(K, B). Where rounds have fewer
    drafts or none (n-gram, suffix decoding), AL and R are means over rounds. K of a tree counts its first nodes.
    """
    table = arm.costs
    most = table.max_draft_tokens if case.tree is not None else max_draft_tokens
    reach = min(most, table.max_draft_tokens, case.known_draft_tokens or most)
    # A tree need not be whole to be worth it: batches go on where only a part of it fits the step.
    batches = _batches(min(table.max_sequences, table.max_tokens // (2 if case.tree is not None else reach + 1)))
    lengths = np.mean([expected_lengths(arm.proposer, model, reach) for model in case.models], axis=0)
    ratios = np.array([_ratios(arm, batch, context_tokens=context_tokens, reach=reach) for batch in batches]).T
    speedups = np.ones((reach + 1, len(batches)))
    for drafts in range(1, reach + 1):
        if not _can_draft(arm, drafts):
            speedups[drafts] = 0.0
            continue
        found = np.concatenate(([1.0], proposed_fractions(arm.proposer, drafts), [0.0]))
        shares = found[:-1] - found[1:]  # of rounds with exactly 0, 1, … drafts
        some = shares > 0
        speedups[drafts] = lengths[drafts] / (shares[some] @ ratios[: drafts + 1][some])
    return Advice(_ranges(speedups, batches), tuple(batches), speedups)


def _ratios(arm: Arm, batch: int, *, context_tokens: int, reach: int) -> FloatArray:
    """R of 0..reach drafts, `(reach + 1,)`; infinite where a round does not fit the step."""
    ratios = np.full(reach + 1, np.inf)
    ratios[0] = 1.0
    for drafts in range(1, min(reach, arm.costs.max_tokens // batch - 1) + 1):
        cost = round_cost(arm.costs, batch=batch, context_tokens=context_tokens, draft_tokens=drafts)
        ratios[drafts] = cost.ratio
    return ratios


def _can_draft(arm: Arm, draft_tokens: int) -> bool:
    """Whether the proposer drafts that many (MTP layers: multiples of them)."""
    if not isinstance(arm.proposer, ParticularProposer):
        return True
    try:
        arm.proposer.check_draft_tokens(draft_tokens)
    except InvalidInput:
        return False
    return True


def _batches(largest: int) -> list[int]:
    exact = range(1, min(largest, 16) + 1)
    spaced = 2 ** np.arange(4, np.log2(max(largest, 16)) + 1e-9, 1 / _BATCHES_PER_DOUBLING)
    return sorted({*exact, *(round(float(value)) for value in spaced if value <= largest), largest})


def _ranges(speedups: FloatArray, batches: list[int]) -> tuple[DraftRange, ...]:
    best = speedups.max(axis=0)
    chosen: list[DraftRange] = []
    start = 0
    while start < len(batches):
        drafts, end = _longest_run(speedups, best, start)
        last = batches[end] if end == len(batches) - 1 else batches[end + 1] - 1
        chosen.append(DraftRange(batches[start], last, drafts, float(speedups[drafts, start])))
        start = end + 1
    return tuple(chosen)


def _longest_run(speedups: FloatArray, best: FloatArray, start: int) -> tuple[int, int]:
    """The K that stays near the best for the longest run of batches from `start`; the smaller K on a draw."""
    near = speedups[:, start:] >= best[start:] * (1.0 - TOLERANCE_FRACTION)
    runs = [int(np.argmin(row)) if not row.all() else len(row) for row in near]
    drafts = int(np.argmax(runs))
    return drafts, start + runs[drafts] - 1
