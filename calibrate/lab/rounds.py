"""What a lab's loop writes down of every round, and what is computed from it. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from simulator.matchers.counts import RoundCounts

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RoundLog:
    """Every round of every answer; equal lengths, one entry a round.

    Attributes
    ----------
    sequence, context_tokens, depth_tokens
        Which answer, how long prompt and answer were before the round, how many answer tokens stood already.
    drafted, accepted
        Drafts offered and drafts accepted.
    entropy_nats
        Entropy of the target's law for the first token of the round, at the temperature of the run (1 for greedy).
    overlap
        Probability that the first draft is accepted, over the draw of the draft: `1 - TV(p, q)`; NaN without a draft.
    """

    sequence: IntArray
    context_tokens: IntArray
    depth_tokens: IntArray
    drafted: IntArray
    accepted: IntArray
    entropy_nats: FloatArray
    overlap: FloatArray

    def __len__(self) -> int:
        """Rounds."""
        return len(self.sequence)

    def where(self, chosen: NDArray[np.bool_]) -> "RoundLog":
        """Some of the rounds."""
        return RoundLog(*(getattr(self, name)[chosen] for name in self.__slots__))

    def counts(self, draft_tokens: int) -> RoundCounts:
        """Rounds by drafted and accepted."""
        table = np.zeros((draft_tokens + 1, draft_tokens + 1), dtype=np.int64)
        np.add.at(table, (self.drafted, self.accepted), 1)
        return RoundCounts(table, without_bonus=0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval over answers (Student t; answers are independent, their rounds are not)."""

    mean: float
    low: float
    high: float


def ratio_over_answers(totals: FloatArray, weights: FloatArray) -> Estimate:
    """`sum(totals) / sum(weights)`, with the interval of a ratio estimator; NaN without weight.

    Parameters
    ----------
    totals, weights
        One entry an answer: what was counted, and out of how many.
    """
    if not weights.sum():
        return Estimate(float("nan"), float("nan"), float("nan"))
    mean = float(totals.sum() / weights.sum())
    answers = len(totals)
    if answers < 2:
        return Estimate(mean, float("nan"), float("nan"))
    spread = np.sqrt(np.sum((totals - mean * weights) ** 2) / (answers - 1) / answers) / weights.mean()
    half = float(stats.t.ppf(0.975, answers - 1) * spread)
    return Estimate(mean, mean - half, mean + half)


def mean_of_rounds(log: RoundLog, values: FloatArray) -> Estimate:
    """Mean of a value of each round, those without one left out."""
    answers = np.unique(log.sequence, return_inverse=True)[1]
    valid = np.isfinite(values)
    totals = np.bincount(answers, weights=np.where(valid, values, 0.0)).astype(np.float64)
    return ratio_over_answers(totals, np.bincount(answers, weights=valid.astype(float)).astype(np.float64))


def acceptance_at_first(answers: Sequence[RoundCounts]) -> Estimate:
    """Share of first drafts accepted."""
    accepted = [float(counts.accepted_histogram[1:].sum()) for counts in answers]
    return ratio_over_answers(np.array(accepted), np.array([float(counts.proposing_rounds) for counts in answers]))


def acceptance_length(answers: Sequence[RoundCounts]) -> Estimate:
    """AL: tokens a round, the bonus included, rounds without a draft counted."""
    emitted = [float(counts.rounds + counts.accepted_tokens) for counts in answers]
    return ratio_over_answers(np.array(emitted), np.array([float(counts.rounds) for counts in answers]))


def by_answer(log: RoundLog, draft_tokens: int) -> tuple[RoundCounts, ...]:
    """Counts of each answer."""
    return tuple(log.where(log.sequence == answer).counts(draft_tokens) for answer in np.unique(log.sequence))


def by_size(log: RoundLog, sizes: IntArray, draft_tokens: int) -> dict[tuple[int, int], RoundCounts]:
    """Counts by powers of two of a size in tokens: (from, to), both included, as replays of logs group theirs."""
    exponent = np.floor(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    groups = {int(each): log.where(exponent == each).counts(draft_tokens) for each in np.unique(exponent)}
    return {((1 << each) if each else 0, (2 << each) - 1): counts for each, counts in groups.items()}


def spearman(one: FloatArray, other: FloatArray) -> float:
    """Rank correlation; NaN below three points."""
    if len(one) < 3:
        return float("nan")
    return float(np.corrcoef(stats.rankdata(one), stats.rankdata(other))[0, 1])


MAX_CYCLE_TOKENS = 16
MIN_REPEATS = 4


def loops(tokens: IntArray) -> bool:
    """Whether an answer ends in a cycle: its last `MIN_REPEATS` stretches of at most `MAX_CYCLE_TOKENS` are one.

    Base models decoded greedily fall into such loops, and anything predicts them.
    """
    for cycle in range(1, MAX_CYCLE_TOKENS + 1):
        needed = cycle * MIN_REPEATS
        if len(tokens) >= needed and np.array_equal(tokens[-needed:-cycle], tokens[-needed + cycle :]):
            return True
    return False
