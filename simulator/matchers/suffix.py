"""Suffix decoding: what followed the longest suffixes before, here and in earlier responses, weighed by its frequency.

After G. Oliaro, Z. Jia, D. Campos, A. Qiao, "SuffixDecoding: Extreme Speculative Decoding for Emerging AI
Applications", arXiv:2411.04975, with the settings and the greedy (one path, no tree) proposal of vLLM's `suffix`
method, which runs Arctic Inference (https://github.com/snowflakedb/ArcticInference). docs/acceptance.md has the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.matchers.automaton import (
    CLOCK,
    EDGE_COLUMNS,
    EDGES_PER_TOKEN,
    EDGES_USED,
    HEADS,
    MASK,
    SLOTS_PER_EDGE,
    STATE_COLUMNS,
    STATES_PER_TOKEN,
    STATES_USED,
    Automaton,
    clear,
    fill_slots,
)
from simulator.matchers.counts import ReplayCounts, replay_counts
from simulator.matchers.ngram import check_draft_tokens
from simulator.matchers.suffix_kernel import (
    CUT,
    FIRST,
    LIVE,
    STORE_HEADS,
    USED,
    Drafts,
    Rules,
    Store,
    rebuild,
    replay_suffix,
)
from simulator.matchers.tally import empty_tally, grown_tally
from simulator.matchers.token_batch import TokenBatch

MAX_DEPTH = 256
LINE_BYTES = 64
ROUNDING = 1e-6
"""Added before a factor times a length is cut to whole drafts, as Arctic Inference does."""


@dataclass(frozen=True, slots=True)
class SuffixMatcher:
    """Settings, with vLLM's defaults (`suffix_decoding_*`).

    `max_depth`: match and drafts together are at most that long. `max_spec_factor`: drafts per matched token.
    `min_token_prob`: a proposal ends before its estimated probability falls below. `max_cached_requests`: responses of
    earlier requests that are kept, the oldest leaves first; 0 keeps none. `max_cached_tokens` bounds memory, which
    the engine does not: up to 300 bytes a token.
    """

    draft_tokens: int
    max_depth: int = 24
    max_spec_factor: float = 1.0
    min_token_prob: float = 0.1
    max_cached_requests: int = 10_000
    max_cached_tokens: int = 2_000_000

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        check_draft_tokens(self.draft_tokens)
        if not 2 <= self.max_depth <= MAX_DEPTH:
            raise InvalidInput(f"max_depth must be in 2..{MAX_DEPTH}, got {self.max_depth}; the engine's default is 24")
        if not 0.0 < self.max_spec_factor < float("inf"):
            raise InvalidInput(f"max_spec_factor must be above 0 and finite, got {self.max_spec_factor}; give e.g. 1.0")
        if not 0.0 <= self.min_token_prob <= 1.0:
            raise InvalidInput(
                f"min_token_prob must be in 0..1, got {self.min_token_prob}; the engine's default is 0.1"
            )
        if self.max_cached_requests < 0 or self.max_cached_tokens < 1:
            raise InvalidInput(
                f"the cache must hold at least 0 requests and 1 token, got {self.max_cached_requests} and "
                f"{self.max_cached_tokens}; 0 requests switches it off"
            )

    def most_drafts(self, matched_tokens: int) -> int:
        """Drafts that a match of that length may bring."""
        wanted = int(matched_tokens * self.max_spec_factor + ROUNDING)
        return max(0, min(self.draft_tokens, wanted, self.max_depth - matched_tokens))


class SuffixReplay:
    """Replays batches of one log, in order, and counts rounds without and with earlier responses.

    Requests are taken one after another: a response is complete before the next request starts. Memory: the automaton
    of the longest request, that of the cached responses (rebuilt when more than half of it is forgotten), the counts.
    """

    def __init__(self, matcher: SuffixMatcher) -> None:
        self._matcher = matcher
        caps = np.array([matcher.most_drafts(matched) for matched in range(matcher.max_depth)], dtype=np.int64)
        self._rules = Rules(
            caps=caps,
            peak=int(caps.argmax()),
            depth=matcher.max_depth,
            min_token_prob=matcher.min_token_prob,
            max_cached_requests=matcher.max_cached_requests,
            max_cached_tokens=matcher.max_cached_tokens,
        )
        self._own = empty_automaton(16)
        self._cached = empty_automaton(16)
        self._store = Store(
            np.zeros(16, dtype=np.int32), np.zeros(16, dtype=np.int64), np.zeros(STORE_HEADS, dtype=np.int64)
        )
        self._alone = empty_tally(matcher.draft_tokens, classes=1)
        self._together = empty_tally(matcher.draft_tokens, classes=1)

    def feed(self, batch: TokenBatch) -> None:
        """Replay the next requests."""
        classes = int(batch.class_id.max(initial=0)) + 1
        self._alone, self._together = grown_tally(self._alone, classes), grown_tally(self._together, classes)
        longest = int(np.diff(batch.start).max(initial=0))
        if STATES_PER_TOKEN * longest + 2 > len(self._own.states):
            self._own = empty_automaton(2 * longest)
        self._make_room(batch)
        room = np.zeros((3, self._matcher.draft_tokens), dtype=np.int64)
        drafts = Drafts(room[0], room[1], room[2])
        replay_suffix(
            batch.arrays(), self._own, self._cached, self._store, self._rules, drafts, self._alone, self._together
        )

    def counts(self) -> ReplayCounts:
        """Rounds that saw the request's own prompt and response only."""
        return replay_counts(self._alone.rounds, self._alone.without_bonus)

    def counts_with_cache(self) -> ReplayCounts | None:
        """Rounds that also saw earlier responses; None where none are kept."""
        if self._matcher.max_cached_requests == 0:
            return None
        return replay_counts(self._together.rounds, self._together.without_bonus)

    @property
    def cached_requests(self) -> int:
        """Responses in the cache now."""
        return int(self._store.heads[LIVE])

    @property
    def cached_tokens(self) -> int:
        """Their tokens."""
        heads = self._store.heads
        return int(heads[USED] - self._store.borders[heads[FIRST]])

    @property
    def cut_requests(self) -> int:
        """Responses that left the cache because of `max_cached_tokens`, so before the engine would drop them."""
        return int(self._store.heads[CUT])

    @property
    def memory_bytes(self) -> int:
        """Of all arrays, touched or not."""
        arrays = (*self._own, *self._cached, *self._store, *self._alone, *self._together)
        return sum(array.nbytes for array in arrays)

    def _make_room(self, batch: TokenBatch) -> None:
        """Room in store and automaton for the responses of a batch, before the loop that cannot allocate."""
        if self._matcher.max_cached_requests == 0:
            return
        heads = self._store.heads
        first, live, kept = int(heads[FIRST]), self.cached_requests, self.cached_tokens
        tokens = np.zeros(kept + batch.response_tokens + 1, dtype=np.int32)
        tokens[:kept] = self._store.tokens[int(heads[USED]) - kept : int(heads[USED])]
        borders = np.zeros(live + batch.requests + 2, dtype=np.int64)
        borders[: live + 1] = self._store.borders[first : first + live + 1] - self._store.borders[first]
        self._store = Store(tokens, borders, np.array([0, live, kept, heads[CUT]], dtype=np.int64))
        used, coming = int(self._cached.heads[CLOCK]), batch.response_tokens + batch.requests
        if used > 2 * kept + coming:
            self._cached = empty_automaton(kept + live + 2 * coming)
            rebuild(self._cached, self._store, self._rules.depth, kept + live + 2 * coming)
        elif not _has_room(self._cached, coming):
            self._cached = _grown(self._cached, used // 2 + coming)


def _has_room(automaton: Automaton, tokens: int) -> bool:
    """Whether that many tokens more fit, sequences counted as one more each."""
    heads = automaton.heads
    return (
        int(heads[STATES_USED]) + STATES_PER_TOKEN * tokens + 2 <= len(automaton.states)
        and int(heads[EDGES_USED]) + EDGES_PER_TOKEN * tokens + 2 <= len(automaton.edges)
        and int(heads[CLOCK]) + tokens + 1 <= len(automaton.text)
    )


def empty_automaton(tokens: int) -> Automaton:
    """An empty automaton with room for that many tokens."""
    automaton = Automaton(
        states=_rows(STATES_PER_TOKEN * tokens + 2, STATE_COLUMNS),
        edges=_rows(EDGES_PER_TOKEN * tokens + 2, EDGE_COLUMNS),
        slots=np.zeros(_slots(EDGES_PER_TOKEN * tokens), dtype=np.int32),
        text=np.zeros(tokens + 1, dtype=np.int32),
        heads=np.zeros(HEADS, dtype=np.int64),
    )
    clear(automaton, tokens)
    return automaton


def _grown(automaton: Automaton, tokens: int) -> Automaton:
    """The same automaton with room for that many tokens more."""
    states_used, edges_used = int(automaton.heads[STATES_USED]), int(automaton.heads[EDGES_USED])
    states = _rows(states_used + STATES_PER_TOKEN * tokens + 2, STATE_COLUMNS)
    states[:states_used] = automaton.states[:states_used]
    edges = _rows(edges_used + EDGES_PER_TOKEN * tokens + 2, EDGE_COLUMNS)
    edges[:edges_used] = automaton.edges[:edges_used]
    heads = automaton.heads.copy()
    text = np.zeros(int(heads[CLOCK]) + tokens + 1, dtype=np.int32)
    text[: int(heads[CLOCK]) + 1] = automaton.text[: int(heads[CLOCK]) + 1]
    slots = np.zeros(_slots(len(edges)), dtype=np.int32)
    heads[MASK] = len(slots) - 1
    grown = Automaton(states, edges, slots, text, heads)
    fill_slots(grown)
    return grown


def _rows(rows: int, columns: int) -> NDArray[np.int32]:
    """Zeros whose rows do not cross cache lines."""
    room = np.zeros(rows * columns + LINE_BYTES // 4, dtype=np.int32)
    skipped = -room.ctypes.data % LINE_BYTES // 4
    return room[skipped : skipped + rows * columns].reshape(rows, columns)


def _slots(edges: int) -> int:
    """A power of two with room for that many edges."""
    return 1 << max(4, int(SLOTS_PER_EDGE * edges - 1).bit_length())
