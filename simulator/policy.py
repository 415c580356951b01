"""How many drafts to propose, by the number of requests in the step."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput


class DraftPolicy(Protocol):
    """K by batch size."""

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """K for 0..max_sequences scheduled requests, `(max_sequences + 1,)`."""
        ...


@dataclass(frozen=True, slots=True)
class FixedDraft:
    """The same K at every batch size."""

    draft_tokens: int

    def __post_init__(self) -> None:
        """Refuse a negative K."""
        if self.draft_tokens < 0:
            raise InvalidInput(f"draft_tokens must be 0 or more, got {self.draft_tokens}; 0 switches speculation off")

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """Constant."""
        return np.full(max_sequences + 1, self.draft_tokens, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class DraftByBatch:
    """K by inclusive ranges (start, end, K): vLLM's `num_speculative_tokens_per_batch_size`.

    The first range starts at 1, ranges do not overlap; a gap keeps the K before it, the tail keeps the last.
    """

    ranges: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        """Refuse what the engine would refuse."""
        if not self.ranges or self.ranges[0][0] != 1:
            raise InvalidInput(f"ranges must start at batch size 1, got {self.ranges[:1]}; add a range from 1")
        previous_end = 0
        for start, end, draft_tokens in self.ranges:
            if start <= previous_end or end < start:
                raise InvalidInput(
                    f"range {start}..{end} overlaps or runs backwards after {previous_end}; sort and separate them"
                )
            if draft_tokens < 0:
                raise InvalidInput(f"range {start}..{end} has K = {draft_tokens}; K must be 0 or more")
            previous_end = end

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """Table of the ranges."""
        table = np.zeros(max_sequences + 1, dtype=np.int64)
        for start, _, draft_tokens in self.ranges:
            table[min(start, max_sequences + 1) :] = draft_tokens
        table[0] = self.ranges[0][2]
        return table
