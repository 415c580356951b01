"""Adaptive verification budget: all K are drafted, the likeliest of the whole batch are verified."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.controllers.base import BUDGET, StepControl


@dataclass(frozen=True, slots=True)
class AdaptiveBudget:
    """b = argmax (sequences + sum of the top b survival probabilities) / (draft + verify seconds), K ragged.

    vLLM's `enable_adaptive_verification` for DSpark has this objective. The drafter is taken to know the chance of
    every draft (its level of acceptance included). Nothing is drafted where a plain step emits more per second.
    """

    draft_tokens: int
    least_gain_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a budget over nothing."""
        if self.draft_tokens < 1 or not 0.0 <= self.least_gain_fraction < 1.0:
            raise InvalidInput(
                f"draft_tokens must be at least 1 and least_gain_fraction in 0..1, got {self.draft_tokens} "
                f"and {self.least_gain_fraction}; e.g. 8 and 0"
            )

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """All drafts, until the first decision."""
        return np.full(max_sequences + 1, self.draft_tokens, dtype=np.int64)

    def control(self) -> StepControl:
        """The rule."""
        return StepControl(BUDGET, self.draft_tokens, self.least_gain_fraction)
