# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: numba infers the types of the named tuples of arrays.
"""The loops of suffix decoding: propose from an automaton, replay requests, keep earlier responses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.compiled import compiled
from simulator.matchers.automaton import (
    ACTIVE,
    ACTIVE_LENGTH,
    COUNT,
    LATEST,
    LENGTH,
    LINK,
    MATCH,
    MATCH_LENGTH,
    NOTHING,
    ROOT,
    Automaton,
    advance_match,
    append,
    best_of,
    clear,
    forget,
    start_sequence,
)
from simulator.matchers.tally import Tally, accepted_of, count_round
from simulator.matchers.token_batch import BatchArrays

FIRST, LIVE, USED, CUT = 0, 1, 2, 3
STORE_HEADS = 4
SLACK = 1e-9  # far above the rounding of a sum of probabilities, far below their differences


class Store(NamedTuple):
    """Responses of earlier requests, oldest first: tokens `(T,)`, borders `(S + 1,)`, and scalars."""

    tokens: NDArray[np.int32]
    borders: NDArray[np.int64]
    heads: NDArray[np.int64]


class Rules(NamedTuple):
    """Settings for the loop. `caps[m]`: most drafts after a match of m tokens; `peak`: an m with the most of all."""

    caps: NDArray[np.int64]
    peak: int
    depth: int
    min_token_prob: float
    max_cached_requests: int
    max_cached_tokens: int


class Drafts(NamedTuple):
    """Room for proposals, `(K,)` each: of this request, of all responses, and one in the making."""

    own: NDArray[np.int64]
    cached: NDArray[np.int64]
    trial: NDArray[np.int64]


@compiled
def replay_suffix(
    batch: BatchArrays,
    own: Automaton,
    cached: Automaton,
    store: Store,
    rules: Rules,
    drafts: Drafts,
    alone: Tally,
    together: Tally,
) -> None:
    """Teacher-forced decoding of each response of the batch, without and with earlier responses.

    `own` holds one request's prompt and response so far, `cached` the responses of earlier requests and this one's so
    far. What a place in a response proposes does not depend on the rounds before, so both ways share one pass:
    `alone` counts rounds that see `own` only, `together` rounds that see both.
    """
    for request in range(batch.response_start.shape[0]):
        first, response, end = batch.start[request], batch.response_start[request], batch.start[request + 1]
        uses_cache = rules.max_cached_requests > 0
        clear(own, end - first)
        for place in range(first, response):
            append(own, batch.tokens[place], rules.depth)
        if uses_cache:
            _make_room(cached, store, rules, end - response)
            start_sequence(cached)
            for place in range(max(first, response - rules.depth), response):
                advance_match(cached, batch.tokens[place], rules.depth)
        next_alone = next_together = response + 1
        for known in range(response + 1, end):
            token = batch.tokens[known - 1]
            append(own, token, rules.depth)
            if uses_cache:
                _append_and_match(cached, token, rules.depth)
            if known != next_alone and known != next_together:
                continue
            context = known - first
            heads = own.heads
            drafted, score = _propose(
                own, heads[ACTIVE], heads[ACTIVE_LENGTH], context, rules, drafts.own, drafts.trial, 0.0
            )
            accepted = accepted_of(batch.tokens, known, end, drafts.own, drafted)
            if known == next_alone:
                count_round(alone, batch, request, known, drafted, accepted)
                next_alone = known + accepted + 1
            if uses_cache and known == next_together:
                heads = cached.heads
                better, _ = _propose(
                    cached, heads[MATCH], heads[MATCH_LENGTH], context, rules, drafts.cached, drafts.trial, score
                )
                if better > 0:
                    drafted = better
                    accepted = accepted_of(batch.tokens, known, end, drafts.cached, drafted)
                count_round(together, batch, request, known, drafted, accepted)
                next_together = known + accepted + 1
        if uses_cache:
            _keep(cached, store, rules, batch.tokens, response, end)


@compiled
def _append_and_match(cached, token, depth):
    """A token of the response, as text of the cache and as context to match."""
    heads = cached.heads
    alike = heads[MATCH] == heads[ACTIVE] and heads[MATCH_LENGTH] == heads[ACTIVE_LENGTH]
    append(cached, token, depth)
    if alike:  # the context matches nothing but what the response itself holds
        heads[MATCH], heads[MATCH_LENGTH] = heads[ACTIVE], heads[ACTIVE_LENGTH]
    else:
        advance_match(cached, token, depth)


@compiled
def _propose(automaton, state, length, context, rules, drafts, trial, best):
    """The continuation with the largest sum of estimated probabilities above `best` of all suffixes; (drafts, sum).

    Suffixes of one state share their continuations, so only the one that may propose most is tried. Longer matches
    come first and win ties.
    """
    states = automaton.states
    drafted = 0
    longest = min(length, rules.depth - 1, context - 1)
    while state != ROOT:
        shorter = states[states[state, LINK], LENGTH]
        if shorter < longest:
            matched = longest if longest < rules.peak else max(rules.peak, shorter + 1)
            if rules.caps[matched] > best:
                tried, score = _walk(automaton, state, rules.caps[matched], rules.min_token_prob, trial, best)
                if score > best:
                    best, drafted = score, tried
                    for place in range(tried):
                        drafts[place] = trial[place]
        longest = min(longest, shorter)
        state = states[state, LINK]
    return drafted, best


@compiled
def _walk(automaton, state, most, min_token_prob, trial, best):
    """The most frequent continuation, as long as its probability stays up; (tokens, sum of probabilities).

    Given up where the sum cannot become `best` any more.
    """
    states = automaton.states
    probability, score, tokens = 1.0, 0.0, 0
    while tokens < most:
        following = best_of(automaton, state)
        if following == NOTHING:
            break
        probability *= states[following, COUNT] / states[state, COUNT]
        if probability < min_token_prob or score + probability * (most - tokens) < best - SLACK:
            break
        trial[tokens] = automaton.text[states[following, LATEST]]
        score += probability
        tokens += 1
        state = following
    return tokens, score


@compiled
def _make_room(cached, store, rules, tokens):
    """Forget the oldest responses until one more of that many tokens is within the limits."""
    heads = store.heads
    while heads[LIVE] > 0:
        kept = heads[USED] - store.borders[heads[FIRST]]
        if heads[LIVE] < rules.max_cached_requests and kept + tokens <= rules.max_cached_tokens:
            break
        if heads[LIVE] < rules.max_cached_requests:
            heads[CUT] += 1
        first, last = store.borders[heads[FIRST]], store.borders[heads[FIRST] + 1]
        forget(cached, store.tokens, first, last, rules.depth)
        heads[FIRST] += 1
        heads[LIVE] -= 1


@compiled
def _keep(cached, store, rules, tokens, response, end):
    """Add the last token of a response, which nothing follows, and note the response in the store."""
    if end > response:
        append(cached, tokens[end - 1], rules.depth)
    heads = store.heads
    for place in range(response, end):
        store.tokens[heads[USED] + place - response] = tokens[place]
    heads[USED] += end - response
    heads[LIVE] += 1
    store.borders[heads[FIRST] + heads[LIVE]] = heads[USED]


@compiled
def rebuild(cached: Automaton, store: Store, depth: int, tokens: int) -> None:
    """An automaton of the stored responses alone, with room for `tokens` tokens."""
    clear(cached, tokens)
    for sequence in range(store.heads[FIRST], store.heads[FIRST] + store.heads[LIVE]):
        start_sequence(cached)
        for place in range(store.borders[sequence], store.borders[sequence + 1]):
            append(cached, store.tokens[place], depth)
