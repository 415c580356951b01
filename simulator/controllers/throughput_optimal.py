"""K by argmax of emitted tokens per second from the cost table, in every step."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.controllers.base import OPTIMAL, StepControl


@dataclass(frozen=True, slots=True)
class ThroughputOptimal:
    """One K for the batch: expected tokens of a round over its seconds, 0 included.

    It knows the acceptance of each class (and its fall with context) and the costs, not the luck of a request. A new K
    must promise `least_gain_fraction` more than the present one.
    """

    max_draft_tokens: int
    least_gain_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what cannot be chosen from."""
        if self.max_draft_tokens < 1 or not 0.0 <= self.least_gain_fraction < 1.0:
            raise InvalidInput(
                f"max_draft_tokens must be at least 1 and least_gain_fraction in 0..1, got {self.max_draft_tokens} "
                f"and {self.least_gain_fraction}; e.g. 8 and 0.02"
            )

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """The largest K, until the first decision."""
        return np.full(max_sequences + 1, self.max_draft_tokens, dtype=np.int64)

    def control(self) -> StepControl:
        """The rule."""
        return StepControl(OPTIMAL, self.max_draft_tokens, self.least_gain_fraction)
