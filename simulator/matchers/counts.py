"""What a replay counts: rounds by drafts proposed and drafts accepted, in all and by group."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Groups of a round, one row of counts each.
SIZE_BUCKETS = 25
MAX_TURN = 16
OVERALL = 0
BY_CONTEXT = 1
BY_OUTPUT = BY_CONTEXT + SIZE_BUCKETS
BY_TURN = BY_OUTPUT + SIZE_BUCKETS
BY_CLASS = BY_TURN + MAX_TURN


@dataclass(frozen=True)
class RoundCounts:
    """Rounds of some group, counted exactly.

    A round knows the first n tokens of a response (n >= 1: the first comes out of the prefill) and proposes up to K.

    Attributes
    ----------
    by_drafted_accepted : (K + 1, K + 1)
        Rounds by (drafts proposed, drafts accepted).
    without_bonus : int
        Rounds whose accepted drafts were the rest of the response, so that no further token came.
    """

    by_drafted_accepted: IntArray
    without_bonus: int

    @property
    def draft_tokens(self) -> int:
        """K."""
        return len(self.by_drafted_accepted) - 1

    @property
    def rounds(self) -> int:
        """Steps of the target."""
        return int(self.by_drafted_accepted.sum())

    @property
    def proposing_rounds(self) -> int:
        """Rounds with at least one draft."""
        return self.rounds - int(self.by_drafted_accepted[0].sum())

    @cached_property
    def accepted_histogram(self) -> IntArray:
        """Rounds by accepted drafts, `(K + 1,)`."""
        return self.by_drafted_accepted.sum(axis=0)

    @cached_property
    def drafted_histogram(self) -> IntArray:
        """Rounds by proposed drafts, `(K + 1,)`."""
        return self.by_drafted_accepted.sum(axis=1)

    @property
    def drafted_tokens(self) -> int:
        """Drafts proposed."""
        return int(self.drafted_histogram @ np.arange(self.draft_tokens + 1))

    @property
    def accepted_tokens(self) -> int:
        """Drafts accepted."""
        return int(self.accepted_histogram @ np.arange(self.draft_tokens + 1))

    @property
    def emitted_tokens(self) -> int:
        """Response tokens that came out of these rounds."""
        return self.rounds + self.accepted_tokens - self.without_bonus

    @property
    def proposal_fraction(self) -> float:
        """Share of rounds with at least one draft; NaN without rounds."""
        return _ratio(self.proposing_rounds, self.rounds)

    @property
    def acceptance_rate_fraction(self) -> float:
        """Accepted / drafted; NaN without drafts."""
        return _ratio(self.accepted_tokens, self.drafted_tokens)

    @property
    def acceptance_length(self) -> float:
        """Tokens a round, bonus included, over all rounds: `1 + accepted / rounds`, as engines count it."""
        return 1.0 + _ratio(self.accepted_tokens, self.rounds)

    @property
    def acceptance_length_when_proposing(self) -> float:
        """The same over rounds with a draft (vLLM's counter sees only these)."""
        return 1.0 + _ratio(self.accepted_tokens, self.proposing_rounds)

    @property
    def tokens_per_round(self) -> float:
        """Emitted tokens a round: below the acceptance length by the bonus tokens that ends of responses cost."""
        return _ratio(self.emitted_tokens, self.rounds)

    @property
    def drafts_per_proposing_round(self) -> float:
        """Mean number of drafts where there are any."""
        return _ratio(self.drafted_tokens, self.proposing_rounds)

    @cached_property
    def per_position(self) -> FloatArray:
        """p_i: share of *proposing* rounds in which at least i drafts were accepted, `(K,)`; NaN without any."""
        at_least = self.accepted_histogram[::-1].cumsum()[::-1][1:]
        return np.divide(at_least, self.proposing_rounds) if self.proposing_rounds else np.full(len(at_least), np.nan)

    @cached_property
    def proposed_fractions(self) -> FloatArray:
        """Share of all rounds with at least 1, 2, … drafts, `(K,)`; NaN without rounds."""
        at_least = self.drafted_histogram[::-1].cumsum()[::-1][1:]
        return np.divide(at_least, self.rounds) if self.rounds else np.full(len(at_least), np.nan)

    @cached_property
    def conditional(self) -> FloatArray:
        """c_i: accepted, among rounds that proposed an i-th draft and accepted all before it, `(K,)`; NaN without."""
        reached = self.by_drafted_accepted[::-1].cumsum(axis=0)[::-1]  # row i: rounds that proposed at least i
        reached = reached[:, ::-1].cumsum(axis=1)[:, ::-1]  # (i, j): and accepted at least j
        steps = np.arange(1, self.draft_tokens + 1)
        tried, passed = reached[steps, steps - 1], reached[steps, steps]
        return np.divide(passed, tried, out=np.full(len(steps), np.nan), where=tried > 0)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


@dataclass(frozen=True)
class ReplayCounts:
    """Counts of a whole replay: overall, and by context length, tokens already emitted, turn and request class.

    Groups without rounds are left out. Sizes are (from, to) in tokens, both ends included; the last turn,
    `MAX_TURN`, stands for itself and all later ones.
    """

    overall: RoundCounts
    by_context_tokens: dict[tuple[int, int], RoundCounts]
    by_emitted_tokens: dict[tuple[int, int], RoundCounts]
    by_turn: dict[int, RoundCounts]
    by_class: dict[int, RoundCounts]


def replay_counts(rounds: IntArray, without_bonus: IntArray) -> ReplayCounts:
    """Freeze what a replay counted: rounds `(groups, K + 1, K + 1)`, without_bonus `(groups,)`."""

    def group(index: int) -> RoundCounts:
        counted = rounds[index].copy()
        counted.setflags(write=False)
        return RoundCounts(counted, int(without_bonus[index]))

    def sizes(first: int) -> dict[tuple[int, int], RoundCounts]:
        filled = [bucket for bucket in range(SIZE_BUCKETS) if rounds[first + bucket].any()]
        return {(1 << bucket >> 1, (1 << bucket) - 1): group(first + bucket) for bucket in filled}

    turns = range(MAX_TURN)
    classes = range(len(rounds) - BY_CLASS)
    return ReplayCounts(
        overall=group(OVERALL),
        by_context_tokens=sizes(BY_CONTEXT),
        by_emitted_tokens=sizes(BY_OUTPUT),
        by_turn={turn + 1: group(BY_TURN + turn) for turn in turns if rounds[BY_TURN + turn].any()},
        by_class={index: group(BY_CLASS + index) for index in classes if rounds[BY_CLASS + index].any()},
    )
