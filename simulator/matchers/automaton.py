# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: numba infers the types of the named tuple of arrays.
"""Every substring of the tokens seen so far, with its count: a suffix automaton that grows token by token.

A suffix tree cut at `depth` has one node a substring, and appending a token touches `depth` of them. Substrings that
occur at the same places share one state here, so a token touches only as many states as its suffixes have different
counts, while every count is that of the tree. Source of the automaton: Blumer, Blumer, Haussler, Ehrenfeucht, Chen,
Seiferas, "The smallest automaton recognizing the subwords of a text", Theoretical Computer Science 40, 1985.

A state holds its first transition itself (most have no other); more go to `edges`, found through `slots`, a hash table.
All transitions into a state carry the same token, the last of its substrings: `text[LATEST]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.compiled import compiled

# Columns of a state.
LENGTH, LINK, COUNT, LATEST, TOKEN, TARGET, EDGES, BEST = 0, 1, 2, 3, 4, 5, 6, 7
STATE_COLUMNS = 8
# Columns of a further transition; row 0 is not used, so that 0 can mean "the state's own".
SOURCE, EDGE_TOKEN, EDGE_TARGET, NEXT = 0, 1, 2, 3
EDGE_COLUMNS = 4
# Entries of `heads`. ACTIVE: the last tokens of the sequence being inserted. MATCH: those of a context that is matched.
STATES_USED, EDGES_USED, LAST, ACTIVE, ACTIVE_LENGTH, MATCH, MATCH_LENGTH, CLOCK, MASK = 0, 1, 2, 3, 4, 5, 6, 7, 8
HEADS = 9
ROOT = 0
# Values of BEST that are no state: nothing followed yet; to be searched for again.
NOTHING, STALE = 0, -1
# States stay below twice the tokens; transitions below states + tokens, so those beyond each state's first below tokens
# (plus one for each sequence, whose end has none).
STATES_PER_TOKEN, EDGES_PER_TOKEN, SLOTS_PER_EDGE = 2, 1, 2

_MIX_A, _MIX_B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_S29 = np.uint64(29)


class Automaton(NamedTuple):
    """Arrays of one automaton: states `(S, 8)`, edges `(E, 4)`, slots `(2**b,)`, text and the `HEADS` scalars."""

    states: NDArray[np.int32]
    edges: NDArray[np.int32]
    slots: NDArray[np.int32]
    text: NDArray[np.int32]
    heads: NDArray[np.int64]


@compiled
def clear(automaton: Automaton, tokens: int) -> None:
    """Forget everything and make ready for up to `tokens` tokens."""
    size = 16
    while size < EDGES_PER_TOKEN * SLOTS_PER_EDGE * tokens and size < automaton.slots.shape[0]:
        size *= 2
    for place in range(size):
        automaton.slots[place] = 0
    heads = automaton.heads
    heads[MASK] = size - 1
    heads[STATES_USED] = 0
    heads[EDGES_USED] = 1
    heads[CLOCK] = 0
    _new_state(automaton, 0)
    automaton.states[ROOT, LINK] = -1
    start_sequence(automaton)


@compiled
def start_sequence(automaton):
    """Begin another sequence: no substring goes across its border."""
    heads = automaton.heads
    heads[LAST] = heads[ACTIVE] = heads[MATCH] = ROOT
    heads[ACTIVE_LENGTH] = heads[MATCH_LENGTH] = 0


@compiled
def _place(automaton, state, token):
    mixed = np.uint64(state) * _MIX_A + np.uint64(token) * _MIX_B
    return np.int64((mixed ^ (mixed >> _S29)) & np.uint64(automaton.heads[MASK]))


@compiled
def find(automaton, state, token):
    """Transition of a state on a token: 0 its own, above 0 a row of `edges`, -1 none."""
    if automaton.states[state, TOKEN] == token:
        return 0
    if automaton.states[state, EDGES] == 0:
        return -1
    place = _place(automaton, state, token)
    while True:
        edge = automaton.slots[place]
        if edge == 0:
            return -1
        if automaton.edges[edge, SOURCE] == state and automaton.edges[edge, EDGE_TOKEN] == token:
            return edge
        place = (place + 1) & automaton.heads[MASK]


@compiled
def target_of(automaton, state, transition):
    """Where a transition that exists leads."""
    if transition == 0:
        return automaton.states[state, TARGET]
    return automaton.edges[transition, EDGE_TARGET]


@compiled
def _set_target(automaton, state, transition, target):
    if transition == 0:
        automaton.states[state, TARGET] = target
    else:
        automaton.edges[transition, EDGE_TARGET] = target


@compiled
def _new_state(automaton, length):
    state = automaton.heads[STATES_USED]
    automaton.heads[STATES_USED] = state + 1
    row = automaton.states[state]
    row[LENGTH] = length
    row[LINK] = row[COUNT] = row[LATEST] = row[TARGET] = row[EDGES] = 0
    row[TOKEN], row[BEST] = -1, NOTHING
    return state


@compiled
def _add(automaton, state, token, target):
    """A new transition."""
    row = automaton.states[state]
    if row[TOKEN] < 0:
        row[TOKEN], row[TARGET] = token, target
        return
    edge = automaton.heads[EDGES_USED]
    automaton.heads[EDGES_USED] = edge + 1
    added = automaton.edges[edge]
    added[SOURCE], added[EDGE_TOKEN], added[EDGE_TARGET], added[NEXT] = state, token, target, row[EDGES]
    row[EDGES] = edge
    insert_slot(automaton, edge)


@compiled
def insert_slot(automaton, edge):
    """Make an edge findable."""
    place = _place(automaton, automaton.edges[edge, SOURCE], automaton.edges[edge, EDGE_TOKEN])
    while automaton.slots[place] != 0:
        place = (place + 1) & automaton.heads[MASK]
    automaton.slots[place] = edge


@compiled
def fill_slots(automaton: Automaton) -> None:
    """Make all edges findable in an empty table of slots."""
    for edge in range(1, automaton.heads[EDGES_USED]):
        insert_slot(automaton, edge)


@compiled
def _split(automaton, state, token, whole):
    """The short substrings of `whole` get a state of their own, which `state` and its suffixes lead to on `token`."""
    states, heads = automaton.states, automaton.heads
    short = _new_state(automaton, states[state, LENGTH] + 1)
    for column in (LINK, COUNT, LATEST, TOKEN, TARGET, BEST):
        states[short, column] = states[whole, column]
    edge = states[whole, EDGES]
    while edge != 0:
        _add(automaton, short, automaton.edges[edge, EDGE_TOKEN], automaton.edges[edge, EDGE_TARGET])
        edge = automaton.edges[edge, NEXT]
    states[whole, LINK] = short
    for pointer, length in ((ACTIVE, ACTIVE_LENGTH), (MATCH, MATCH_LENGTH)):
        if heads[pointer] == whole and heads[length] <= states[short, LENGTH]:
            heads[pointer] = short
    while state >= 0:
        transition = find(automaton, state, token)
        if transition < 0 or target_of(automaton, state, transition) != whole:
            break
        _set_target(automaton, state, transition, short)
        if states[state, BEST] == whole:
            states[state, BEST] = short
        state = states[state, LINK]
    return short


@compiled
def _grow(automaton, token):
    """The automaton's own step: after it, every suffix of the sequence with the token is in it."""
    states, heads = automaton.states, automaton.heads
    state = heads[LAST]
    transition = find(automaton, state, token)
    if transition >= 0:
        whole = target_of(automaton, state, transition)
        if states[whole, LENGTH] != states[state, LENGTH] + 1:
            whole = _split(automaton, state, token, whole)
        heads[LAST] = whole
        return
    new = _new_state(automaton, states[state, LENGTH] + 1)
    heads[LAST] = new
    while state >= 0:
        transition = find(automaton, state, token)
        if transition >= 0:
            break
        _add(automaton, state, token, new)
        state = states[state, LINK]
    if state >= 0:
        whole = target_of(automaton, state, transition)
        if states[whole, LENGTH] != states[state, LENGTH] + 1:
            whole = _split(automaton, state, token, whole)
        states[new, LINK] = whole


@compiled
def _follow(automaton, state, length, token, depth):
    """State and length of `length` tokens in `state` and one more, cut to the last `depth`."""
    state = target_of(automaton, state, find(automaton, state, token))
    length = min(length + 1, depth)
    while automaton.states[automaton.states[state, LINK], LENGTH] >= length:
        state = automaton.states[state, LINK]
    return state, length


@compiled
def append(automaton, token, depth):
    """Add a token to the current sequence and count each of its suffixes of up to `depth` tokens once more.

    The most frequent continuation of each state is kept: among equally frequent ones the most recent.
    """
    states, heads = automaton.states, automaton.heads
    _grow(automaton, token)
    old = heads[ACTIVE]
    new, length = _follow(automaton, old, heads[ACTIVE_LENGTH], token, depth)
    heads[ACTIVE], heads[ACTIVE_LENGTH] = new, length
    heads[CLOCK] += 1
    automaton.text[heads[CLOCK]] = token
    state = new
    while state != ROOT:
        states[state, COUNT] += 1
        states[state, LATEST] = heads[CLOCK]
        state = states[state, LINK]
    while old != ROOT:
        shorter = states[old, LINK]
        shortest = states[shorter, LENGTH] + 2  # its shortest substring and the token
        if shortest <= depth:
            while states[states[new, LINK], LENGTH] >= shortest:
                new = states[new, LINK]
            best = states[old, BEST]
            if best == NOTHING or (best > 0 and best != new and states[new, COUNT] >= states[best, COUNT]):
                states[old, BEST] = new
        old = shorter


@compiled
def forget(automaton, tokens, first, last, depth):
    """Take the counts of the sequence `tokens[first:last]` back; it must be the oldest that is still counted."""
    states = automaton.states
    new, length = ROOT, 0
    for index in range(first, last):
        old = new
        new, length = _follow(automaton, old, length, tokens[index], depth)
        state = new
        while state != ROOT:
            states[state, COUNT] -= 1
            state = states[state, LINK]
        state = new
        while old != ROOT:
            shorter = states[old, LINK]
            while states[states[state, LINK], LENGTH] >= states[shorter, LENGTH] + 2:
                state = states[state, LINK]
            if states[old, BEST] == state:
                states[old, BEST] = STALE
            old = shorter


@compiled
def best_of(automaton, state):
    """Where the most frequent continuation leads, of equal ones the most recent; `NOTHING` where there is none."""
    states = automaton.states
    if states[state, BEST] != STALE:
        return states[state, BEST]
    best, best_count, best_latest = NOTHING, 0, 0
    edge = 0
    while True:
        target = target_of(automaton, state, edge)
        count, latest = states[target, COUNT], states[target, LATEST]
        if count > best_count or (count == best_count and count > 0 and latest > best_latest):
            best, best_count, best_latest = target, count, latest
        edge = states[state, EDGES] if edge == 0 else automaton.edges[edge, NEXT]
        if edge == 0:
            break
    states[state, BEST] = best
    return best


@compiled
def advance_match(automaton, token, depth):
    """Move MATCH to the longest suffix of (what it matched + token) that is counted, of at most `depth` tokens."""
    states, heads = automaton.states, automaton.heads
    state, length = heads[MATCH], heads[MATCH_LENGTH]
    if length >= depth:
        length = depth - 1
        while state != ROOT and states[states[state, LINK], LENGTH] >= length:
            state = states[state, LINK]
    while True:
        transition = find(automaton, state, token)
        if transition >= 0:
            target = target_of(automaton, state, transition)
            if states[target, COUNT] > 0:
                heads[MATCH], heads[MATCH_LENGTH] = target, length + 1
                return
        if state == ROOT:
            heads[MATCH], heads[MATCH_LENGTH] = ROOT, 0
            return
        state = states[state, LINK]
        length = states[state, LENGTH]
