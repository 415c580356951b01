import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from simulator.matchers import NgramMatcher, NgramReplay, SuffixMatcher, SuffixReplay, TokenRequest, batch_of
from simulator.matchers.automaton import EDGES_USED, STATES_USED
from simulator.matchers.suffix import empty_automaton
from simulator.matchers.suffix_kernel import Store, rebuild
from simulator.matchers.token_batch import MAX_TOKEN_ID
from tests.simulator.naive_matchers import NaiveSuffixDecoding, ngram_drafts, replay_rounds
from tests.source_tree import ROOT

KEEP_ALL = 1_000_000


@st.composite
def logs(draw):
    """Requests over a small alphabet, where everything repeats."""
    letters = st.integers(0, draw(st.integers(0, 3)))
    prompt, response = st.lists(letters, max_size=20), st.lists(letters, min_size=1, max_size=20)
    return draw(st.lists(st.tuples(prompt, response), min_size=1, max_size=5))


def request(prompt, response, **more):
    return TokenRequest(np.array(prompt, dtype=np.int32), np.array(response, dtype=np.int32), **more)


def replayed(replay, log, *, one_by_one=False):
    requests = [request(prompt, response) for prompt, response in log]
    for batch in [[each] for each in requests] if one_by_one else [requests]:
        replay.feed(batch_of(batch))
    return replay


def counted(rounds, draft_tokens):
    table = np.zeros((draft_tokens + 1, draft_tokens + 1), dtype=np.int64)
    for _, drafts, accepted in rounds:
        table[len(drafts), accepted] += 1
    return table


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(1, 5), st.integers(1, 3), st.integers(0, 3))
def test_ngram_lookup_agrees_with_a_search_of_the_text(log, draft_tokens, min_tokens, more):
    replay = replayed(NgramReplay(NgramMatcher(draft_tokens, min_tokens, min_tokens + more)), log)
    rounds = []
    for prompt, response in log:
        rounds += replay_rounds(
            prompt,
            response,
            lambda known, _: ngram_drafts(
                known, draft_tokens=draft_tokens, min_tokens=min_tokens, max_tokens=min_tokens + more
            ),
        )
    assert (replay.counts().overall.by_drafted_accepted == counted(rounds, draft_tokens)).all()


@settings(max_examples=200, deadline=None)
@given(
    log=logs(),
    draft_tokens=st.integers(1, 5),
    max_depth=st.integers(2, 9),
    factor=st.sampled_from([0.5, 1.0, 1.5, 3.0]),
    min_token_prob=st.sampled_from([0.0, 0.1, 0.34, 0.6]),
    max_cached_requests=st.sampled_from([1, 2, 3, 100]),
    max_cached_tokens=st.sampled_from([10, 30, KEEP_ALL]),
    one_by_one=st.booleans(),
)
def test_suffix_decoding_agrees_with_counts_by_searching(
    log, draft_tokens, max_depth, factor, min_token_prob, max_cached_requests, max_cached_tokens, one_by_one
):
    matcher = SuffixMatcher(draft_tokens, max_depth, factor, min_token_prob, max_cached_requests, max_cached_tokens)
    naive = NaiveSuffixDecoding(draft_tokens, max_depth, factor, min_token_prob)
    alone, together, earlier = [], [], []
    for prompt, response in log:
        while earlier and (
            len(earlier) + 1 > max_cached_requests or sum(map(len, earlier)) + len(response) > max_cached_tokens
        ):
            earlier.pop(0)
        alone += replay_rounds(prompt, response, lambda known, so_far: naive.drafts(known, None, so_far))
        together += replay_rounds(prompt, response, lambda known, so_far: naive.drafts(known, earlier, so_far))
        earlier.append(response)
    replay = replayed(SuffixReplay(matcher), log, one_by_one=one_by_one)
    with_cache = replay.counts_with_cache()
    assert with_cache is not None
    assert (replay.counts().overall.by_drafted_accepted == counted(alone, draft_tokens)).all()
    assert (with_cache.overall.by_drafted_accepted == counted(together, draft_tokens)).all()


def test_a_text_that_counts_up_is_never_matched_and_one_that_repeats_always():
    new = replayed(SuffixReplay(SuffixMatcher(4)), [(range(50), range(50, 90))]).counts().overall
    assert new.proposal_fraction == 0.0
    assert new.acceptance_length == 1.0
    assert np.isnan(new.per_position).all()
    old = replayed(SuffixReplay(SuffixMatcher(4)), [(range(50), range(41))]).counts().overall
    # token 0 matches one token: one draft; then two more known, two drafts; then four at a time
    assert old.accepted_histogram.tolist() == [0, 1, 0, 1, 7]
    assert old.emitted_tokens == 40


def test_ngram_lookup_takes_the_earliest_occurrence():
    # 1 2 was followed by 7 first and by 8 later
    counts = replayed(NgramReplay(NgramMatcher(1, 2, 2)), [([1, 2, 7, 1, 2, 8, 1], [2, 7])]).counts().overall
    assert (counts.rounds, counts.accepted_tokens) == (1, 1)


def test_suffix_decoding_takes_the_most_frequent_and_then_the_most_recent():
    matcher = SuffixMatcher(1, min_token_prob=0.0)
    frequent = replayed(SuffixReplay(matcher), [([1, 2, 1, 2, 1, 3], [1, 2])]).counts().overall
    assert frequent.accepted_tokens == 1
    recent = replayed(SuffixReplay(matcher), [([1, 2, 1, 3], [1, 3])]).counts().overall
    assert recent.accepted_tokens == 1


def test_an_earlier_response_helps_only_with_the_cache_and_only_while_it_is_kept():
    answer = list(range(10, 40))
    other = list(range(50, 80))
    log = [([1], answer), ([2], other), ([3], answer)]
    kept = replayed(SuffixReplay(SuffixMatcher(4)), log)
    gone = replayed(SuffixReplay(SuffixMatcher(4, max_cached_requests=2)), log)
    off = replayed(SuffixReplay(SuffixMatcher(4, max_cached_requests=0)), log)
    assert kept.counts().overall.accepted_tokens == 0
    assert kept.counts_with_cache().overall.accepted_tokens == 1 + 3 + 4 * 4 + 3
    assert gone.counts_with_cache().overall.accepted_tokens == 0
    assert (kept.cut_requests, gone.cut_requests) == (0, 0)
    assert replayed(SuffixReplay(SuffixMatcher(4, max_cached_tokens=60)), log).cut_requests == 1
    assert off.counts_with_cache() is None


def test_rounds_of_every_grouping_add_up_to_all_rounds():
    draw = np.random.default_rng(1)
    requests = [
        request(draw.integers(0, 4, 30), draw.integers(0, 4, 40), class_id=index % 3, turn=1 + index)
        for index in range(20)
    ]
    replay = SuffixReplay(SuffixMatcher(3))
    replay.feed(batch_of(requests))
    counts = replay.counts()
    assert counts.overall.emitted_tokens == 20 * 39
    for groups in (counts.by_context_tokens, counts.by_emitted_tokens, counts.by_turn, counts.by_class):
        assert sum(group.rounds for group in groups.values()) == counts.overall.rounds
        assert sum(group.emitted_tokens for group in groups.values()) == counts.overall.emitted_tokens
    assert set(counts.by_class) == {0, 1, 2}
    assert max(counts.by_turn) == 16
    assert set(counts.by_context_tokens) == {(16, 31), (32, 63), (64, 127)}


def test_a_batch_cut_in_two_counts_the_same():
    draw = np.random.default_rng(2)
    log = [(draw.integers(0, 5, 40), draw.integers(0, 5, 60)) for _ in range(30)]
    matcher = SuffixMatcher(4, max_cached_requests=7)
    whole, parts = replayed(SuffixReplay(matcher), log), replayed(SuffixReplay(matcher), log, one_by_one=True)
    assert (
        whole.counts_with_cache().overall.by_drafted_accepted == parts.counts_with_cache().overall.by_drafted_accepted
    ).all()


def test_memory_follows_the_limit_of_the_cache_and_not_the_log():
    draw = np.random.default_rng(3)
    replay = SuffixReplay(SuffixMatcher(4, max_cached_tokens=2_000))
    sizes = []
    for _ in range(120):
        replay.feed(batch_of([request([1], draw.integers(0, 50, 200))]))
        sizes.append(replay.memory_bytes)
        assert replay.cached_tokens <= 2_000
    assert max(sizes[60:]) <= 1.05 * max(sizes[:60])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=60), min_size=1, max_size=6))
def test_the_automaton_stays_within_the_room_it_was_given(texts):
    tokens = np.concatenate([np.array(text, dtype=np.int32) for text in texts])
    borders = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    room = len(tokens) + len(texts)
    automaton = empty_automaton(room)
    rebuild(automaton, Store(tokens, borders, np.array([0, len(texts), len(tokens), 0])), 24, room)
    assert automaton.heads[STATES_USED] <= len(automaton.states)
    assert automaton.heads[EDGES_USED] <= len(automaton.edges)
    assert automaton.heads[EDGES_USED] < len(automaton.slots) // 2 + 2


def test_the_matchers_count_the_same_without_the_jit():
    def counts(**environment):
        command = [sys.executable, "-m", "tests.simulator.matcher_counts"]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    compiled = counts()
    assert compiled.count("\n") == 3
    assert counts(NUMBA_DISABLE_JIT="1") == compiled


def test_conditional_acceptance_counts_only_positions_that_were_drafted():
    counts = replayed(SuffixReplay(SuffixMatcher(4)), [(range(50), range(41))]).counts().overall
    assert np.allclose(counts.conditional, 1.0)
    assert counts.per_position[1] == pytest.approx(8 / 9)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: NgramMatcher(0), "K must be"),
        (lambda: NgramMatcher(4, 3, 2), "n-gram sizes"),
        (lambda: SuffixMatcher(4, max_depth=1), "max_depth"),
        (lambda: SuffixMatcher(4, max_spec_factor=float("nan")), "max_spec_factor"),
        (lambda: SuffixMatcher(4, min_token_prob=1.5), "min_token_prob"),
        (lambda: SuffixMatcher(4, max_cached_requests=-1), "cache"),
        (lambda: batch_of([request([1], [-2])]), "got -2"),
        (lambda: batch_of([request([1], [MAX_TOKEN_ID + 1])]), str(MAX_TOKEN_ID + 1)),
        (lambda: batch_of([request([1], [2], turn=0)]), "turn"),
    ],
)
def test_what_means_nothing_is_refused(make, field):
    with pytest.raises(InvalidInput, match=field):
        make()
