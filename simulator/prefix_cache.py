# pyright: basic
# Compiled code at the end of the file: numba infers the types of its arguments.
"""Prefix caches of replicas: which blocks of prompts each holds, least recently used out first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.compiled import compiled

IntArray = NDArray[np.int64]

MAX_CELLS = 1 << 28
"""Replicas times different blocks that are kept track of: 2 GiB."""


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """Blocks of every prompt by content, as traces name them: `block[start[i]:start[i + 1]]` are those of request i.

    Attributes
    ----------
    start : (requests + 1,)
    block : (blocks of all prompts,)
        Equal numbers are equal content behind equal prefixes.
    block_tokens
        Tokens of a block.
    """

    start: IntArray
    block: IntArray
    block_tokens: int

    def __post_init__(self) -> None:
        """Refuse lists that do not belong together."""
        falling = len(self.start) < 2 or np.any(np.diff(self.start) < 0)
        if falling or self.start[0] != 0 or self.start[-1] != len(self.block):
            raise InvalidInput(
                f"start must rise from 0 to the {len(self.block)} blocks, one entry per request and one more; "
                "count the blocks of every prompt again"
            )
        if self.block_tokens < 1:
            raise InvalidInput(f"block_tokens must be at least 1, got {self.block_tokens}; e.g. 512 of Mooncake traces")


class PrefixCaches(NamedTuple):
    """`(n, blocks + 1)` doubly linked lists from the most to the least recently used block; the last index is the end.

    0 in `older` means not held: neighbours are stored plus 1. `counts` `(n,)`: blocks held, `capacity` at most.
    `start` is empty where no blocks are known.
    """

    start: IntArray
    block: IntArray
    block_tokens: int
    capacity: int
    older: NDArray[np.int32]
    newer: NDArray[np.int32]
    counts: IntArray


def new_caches(prefixes: PrefixBlocks | None, *, replicas: int, capacity_tokens: int) -> PrefixCaches:
    """Empty caches; `capacity_tokens` of a replica bounds its blocks."""
    if prefixes is None:
        empty = np.zeros((1, 1), dtype=np.int32)
        return PrefixCaches(
            np.zeros(0, np.int64), np.zeros(0, np.int64), 1, 0, empty, empty.copy(), np.zeros(1, np.int64)
        )
    different, block = np.unique(prefixes.block, return_inverse=True)
    cells = replicas * (len(different) + 1)
    if cells > MAX_CELLS:
        raise InvalidInput(
            f"{len(different):,} different blocks on {replicas} replicas are {cells:,} cells, at most {MAX_CELLS:,} "
            "are kept track of; give fewer requests or fewer replicas"
        )
    end = len(different)
    older = np.zeros((replicas, end + 1), dtype=np.int32)
    older[:, end] = end + 1
    return PrefixCaches(
        start=prefixes.start.astype(np.int64),
        block=block.astype(np.int64),
        block_tokens=prefixes.block_tokens,
        capacity=max(1, capacity_tokens // prefixes.block_tokens),
        older=older,
        newer=older.copy(),
        counts=np.zeros(replicas, dtype=np.int64),
    )


def forget(caches: PrefixCaches, replica: int) -> None:
    """A replica that starts holds nothing."""
    end = caches.older.shape[1] - 1
    for links in (caches.older, caches.newer):
        links[replica] = 0
        links[replica, end] = end + 1
    caches.counts[replica] = 0


@compiled
def matching_tokens(caches: PrefixCaches, replica: int, request: int, prompt_tokens: int) -> int:
    """Tokens of the prompt whose blocks the replica holds, from its beginning; the last token is always computed."""
    held = 0
    for index in range(caches.start[request], caches.start[request + 1]):
        if caches.older[replica, caches.block[index]] == 0:
            break
        held += caches.block_tokens
    return min(held, prompt_tokens - 1)


@compiled
def use_blocks(caches, replica, request):
    """All blocks of the prompt become the most recently used, its first block last so that it stays the longest."""
    for index in range(caches.start[request + 1] - 1, caches.start[request] - 1, -1):
        _use(caches, replica, caches.block[index])


@compiled
def _use(caches, replica, block):
    older, newer = caches.older[replica], caches.newer[replica]
    end = len(older) - 1
    if older[block] > 0:
        _unlink(older, newer, block)
    elif caches.counts[replica] == caches.capacity:
        oldest = newer[end] - 1
        _unlink(older, newer, oldest)
        older[oldest] = newer[oldest] = 0
    else:
        caches.counts[replica] += 1
    first = older[end] - 1
    older[block], newer[block] = first + 1, end + 1
    newer[first] = block + 1
    older[end] = block + 1


@compiled
def _unlink(older, newer, block):
    before, after = newer[block] - 1, older[block] - 1
    older[before] = after + 1
    newer[after] = before + 1
