"""Speculation off above a load."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class OffAbove:
    """K drafts up to `max_running` requests in a step, none above (TensorRT-LLM `max_concurrency`)."""

    draft_tokens: int
    max_running: int

    def __post_init__(self) -> None:
        """Refuse a threshold below one request."""
        if self.draft_tokens < 1 or self.max_running < 1:
            raise InvalidInput(
                f"draft_tokens and max_running must be at least 1, got {self.draft_tokens} and {self.max_running}; "
                "leave speculation out to have it off always"
            )

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """K, then 0."""
        return np.where(np.arange(max_sequences + 1) <= self.max_running, self.draft_tokens, 0).astype(np.int64)
