"""Acceptance of n-gram lookup or suffix decoding on the user's own log, counted by replaying it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios.imports.token_logs import TokenLog
from scenarios.imports.tokenizers import VocabularyOverlap
from simulator.matchers import NgramMatcher, NgramReplay, ReplayCounts, RoundCounts, SuffixMatcher, SuffixReplay


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a proposer would have done on a log, teacher-forced: every response is what the target emitted.

    `with_cache` also saw the responses of earlier requests in the log; None where the proposer keeps none.
    `cut_requests` responses left the cache for lack of memory. `seconds` is the time of the replay, reading included.
    """

    matcher: NgramMatcher | SuffixMatcher
    log_name: str
    log_sha256: str
    tokens_are: str
    requests: int
    prompt_tokens: int
    response_tokens: int
    class_names: tuple[str, ...]
    without_cache: ReplayCounts
    with_cache: ReplayCounts | None
    cut_requests: int
    seconds: float

    @property
    def method(self) -> str:
        """The engines' name of the proposer."""
        return "ngram" if isinstance(self.matcher, NgramMatcher) else "suffix"

    @property
    def best(self) -> ReplayCounts:
        """As the engine runs it: with the cache where there is one."""
        return self.without_cache if self.with_cache is None else self.with_cache


def replay_log(log: TokenLog, matcher: NgramMatcher | SuffixMatcher, *, tokens_are: str = "token ids") -> ReplayReport:
    """Replay a log from its beginning.

    Raises
    ------
    InvalidInput
        The log cannot be read (see `TokenLog.batches`), or none of its responses has a second token.
    """
    started_s = time.perf_counter()
    replay = NgramReplay(matcher) if isinstance(matcher, NgramMatcher) else SuffixReplay(matcher)
    for batch in log.batches():
        replay.feed(batch)
    counts = replay.counts()
    if not counts.overall.rounds:
        raise InvalidInput(
            f"token log {log.path}: no response has more than one token, so there is no round to speculate in; give a "
            "log of longer responses"
        )
    return ReplayReport(
        matcher=matcher,
        log_name=log.path.name,
        log_sha256=log.sha256,
        tokens_are=tokens_are,
        requests=log.requests,
        prompt_tokens=log.prompt_tokens,
        response_tokens=log.response_tokens,
        class_names=tuple(log.class_names),
        without_cache=counts,
        with_cache=replay.counts_with_cache() if isinstance(replay, SuffixReplay) else None,
        cut_requests=replay.cut_requests if isinstance(replay, SuffixReplay) else 0,
        seconds=time.perf_counter() - started_s,
    )


def measured_acceptance(counts: RoundCounts) -> tuple[tuple[float, ...], float]:
    """(p_i by position among proposing rounds, proposal fraction), as a scenario takes them.

    Raises
    ------
    InvalidInput
        Nothing was ever proposed.
    """
    if not counts.proposing_rounds:
        raise InvalidInput(
            "the proposer never found a match in this log, so it has no acceptance; it would bring nothing here"
        )
    return tuple(round(float(share), 6) for share in counts.per_position), round(counts.proposal_fraction, 6)


def measured_by_position(counts: RoundCounts) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(shares of rounds with at least i drafts, p_i among rounds that have an i-th draft), neither rising.

    Their product is the measured share of rounds with at least i accepted, exactly, and so is the acceptance length.
    Where long proposals are better than short ones, p_i would rise, which no simulated chain can do; there the larger
    p_i is taken and the share of rounds lowered: a few percent fewer drafts than were counted.

    Raises
    ------
    InvalidInput
        Nothing was ever proposed.
    """
    measured_acceptance(counts)
    accepted = counts.per_position * counts.proposal_fraction
    drafted = counts.proposed_fractions
    shares = np.divide(accepted, drafted, out=np.zeros(len(accepted)), where=drafted > 0)
    shares = np.maximum.accumulate(shares[::-1])[::-1]
    fractions = np.divide(accepted, shares, out=drafted.copy(), where=shares > 0)
    return tuple(round(float(each), 6) for each in fractions), tuple(round(float(each), 6) for each in shares)


@dataclass(frozen=True, slots=True)
class VocabularyCeiling:
    """The most a draft restricted to the shared tokens can be accepted.

    `per_position`: share of places in the responses whose next i tokens are all shared, `(K,)`; empty without a log.
    """

    overlap: VocabularyOverlap
    per_position: tuple[float, ...]
    response_tokens: int

    @property
    def acceptance_length(self) -> float:
        """Ceiling of the acceptance length at that K; NaN without a log."""
        return 1.0 + sum(self.per_position) if self.per_position else float("nan")


def vocabulary_ceiling(
    overlap: VocabularyOverlap, log: TokenLog | None = None, *, draft_tokens: int = 5
) -> VocabularyCeiling:
    """Weigh an overlap with what the target really emits.

    Raises
    ------
    InvalidInput
        The log cannot be read, or holds ids beyond the target's vocabulary.
    """
    if log is None:
        return VocabularyCeiling(overlap, (), 0)
    reached = np.zeros(draft_tokens, dtype=np.int64)
    places = np.zeros(draft_tokens, dtype=np.int64)
    for batch in log.batches():
        largest = int(batch.tokens.max(initial=0))
        if largest >= len(overlap.shared):
            raise InvalidInput(
                f"token log {log.path}: id {largest} is beyond the target's vocabulary of {len(overlap.shared)}; the "
                "log and --target must belong to the same model"
            )
        for start, end in zip(batch.response_start, batch.start[1:], strict=True):
            run = _run_lengths(overlap.shared[batch.tokens[start:end]])
            left = np.arange(len(run), 0, -1)
            for index in range(draft_tokens):
                reached[index] += int((run > index).sum())
                places[index] += int((left > index).sum())
    shares = np.divide(reached, places, out=np.zeros(draft_tokens), where=places > 0)
    return VocabularyCeiling(overlap, tuple(float(share) for share in shares), log.response_tokens)


def _run_lengths(shared: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each place, how many shared tokens follow from there, itself included."""
    places = np.arange(len(shared))
    stop = np.where(shared, len(shared), places)
    return np.minimum.accumulate(stop[::-1])[::-1] - places
