# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: numba infers the types of the named tuples of arrays.
"""The loop of n-gram lookup: one table of first occurrences, no search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.compiled import compiled
from simulator.matchers.tally import Tally, accepted_of, count_round
from simulator.matchers.token_batch import BatchArrays

_FACTOR, _MIX = np.uint64(0x100000001B3), np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)


class NgramTable(NamedTuple):
    """Hash table of the first occurrence of each n-gram of one request, and room for the hashes of a suffix."""

    slots: NDArray[np.int64]
    hashes: NDArray[np.uint64]


@compiled
def replay_ngram(
    batch: BatchArrays, table: NgramTable, tally: Tally, drafts: NDArray[np.int64], min_tokens: int, max_tokens: int
) -> None:
    """Teacher-forced decoding of each response of the batch, counted in `tally`."""
    for request in range(batch.response_start.shape[0]):
        first, end = batch.start[request], batch.start[request + 1]
        mask = 15
        while mask + 1 < 2 * (end - first) * (max_tokens - min_tokens + 1):
            mask = 2 * mask + 1
        for place in range(mask + 1):
            table.slots[place] = 0
        next_round = batch.response_start[request] + 1
        for known in range(first + 1, end):
            found = _look_up(batch.tokens, table, first, known, min_tokens, max_tokens, mask)
            if known != next_round:
                continue
            drafted = 0
            if found > 0:
                drafted = min(drafts.shape[0], known - found)
                for place in range(drafted):
                    drafts[place] = batch.tokens[found + place]
            accepted = accepted_of(batch.tokens, known, end, drafts, drafted)
            count_round(tally, batch, request, known, drafted, accepted)
            next_round = known + accepted + 1


@compiled
def _look_up(tokens, table, first, known, min_tokens, max_tokens, mask):
    """Where the longest suffix of `tokens[first:known]` that occurred before ended first; 0 where none did.

    Suffixes that are new are noted on the way. Where a suffix is old, so are all shorter ones.
    """
    longest = min(max_tokens, known - first)
    mixed = np.uint64(0)
    for size in range(1, longest + 1):
        mixed = (mixed + np.uint64(tokens[known - size] + 1)) * _FACTOR
        table.hashes[size] = mixed
    for size in range(longest, min_tokens - 1, -1):
        spread = (table.hashes[size] + np.uint64(size)) * _MIX
        place = np.int64((spread ^ (spread >> _S32)) & np.uint64(mask))
        while table.slots[place] != 0:
            noted = table.slots[place] >> 7
            if table.slots[place] & 127 == size and _same(tokens, noted, known, size):
                return noted
            place = (place + 1) & mask
        table.slots[place] = (known << 7) | size
    return 0


@compiled
def _same(tokens, one, other, size):
    """Whether the `size` tokens before two places are equal."""
    back = 1
    while back <= size and tokens[one - back] == tokens[other - back]:
        back += 1
    return back > size
