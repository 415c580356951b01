"""N-gram prompt lookup: the last tokens are searched in what came before, and what followed there is proposed.

Semantics of vLLM's `ngram` method: the longest suffix of `min_tokens` to `max_tokens` tokens (`prompt_lookup_min`,
`prompt_lookup_max`) that occurred before, its *earliest* occurrence in this request, up to K tokens after it. Other
requests are never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.errors import InvalidInput
from simulator.matchers.counts import ReplayCounts, replay_counts
from simulator.matchers.ngram_kernel import NgramTable, replay_ngram
from simulator.matchers.tally import empty_tally, grown_tally
from simulator.matchers.token_batch import TokenBatch

MAX_DRAFT_TOKENS = 64
MAX_NGRAM_TOKENS = 64


@dataclass(frozen=True, slots=True)
class NgramMatcher:
    """Settings; the sizes are those of vLLM where nothing is said."""

    draft_tokens: int
    min_tokens: int = 5
    max_tokens: int = 5

    def __post_init__(self) -> None:
        """Refuse sizes that mean nothing."""
        check_draft_tokens(self.draft_tokens)
        if not 1 <= self.min_tokens <= self.max_tokens <= MAX_NGRAM_TOKENS:
            raise InvalidInput(
                f"n-gram sizes must satisfy 1 <= min <= max <= {MAX_NGRAM_TOKENS}, got min {self.min_tokens} and max "
                f"{self.max_tokens}; give prompt_lookup_min and prompt_lookup_max of the engine"
            )


def check_draft_tokens(draft_tokens: int) -> None:
    """Refuse a K that nothing proposes."""
    if not 1 <= draft_tokens <= MAX_DRAFT_TOKENS:
        raise InvalidInput(f"K must be in 1..{MAX_DRAFT_TOKENS}, got {draft_tokens}; give the drafts per round")


class NgramReplay:
    """Replays batches of one log, in order, and counts.

    Memory: a table of the longest request, and the counts.
    """

    def __init__(self, matcher: NgramMatcher) -> None:
        self._matcher = matcher
        self._tally = empty_tally(matcher.draft_tokens, classes=1)
        self._table = NgramTable(np.zeros(16, dtype=np.int64), np.zeros(matcher.max_tokens + 1, dtype=np.uint64))

    def feed(self, batch: TokenBatch) -> None:
        """Replay the next requests."""
        matcher = self._matcher
        self._tally = grown_tally(self._tally, int(batch.class_id.max(initial=0)) + 1)
        sizes = matcher.max_tokens - matcher.min_tokens + 1
        longest = int(np.diff(batch.start).max(initial=0))
        slots = len(self._table.slots)
        while slots < 2 * longest * sizes:
            slots *= 2
        if slots > len(self._table.slots):
            self._table = self._table._replace(slots=np.zeros(slots, dtype=np.int64))
        drafts = np.zeros(matcher.draft_tokens, dtype=np.int64)
        replay_ngram(batch.arrays(), self._table, self._tally, drafts, matcher.min_tokens, matcher.max_tokens)

    def counts(self) -> ReplayCounts:
        """What was counted so far."""
        return replay_counts(self._tally.rounds, self._tally.without_bonus)
