"""How likely a draft is accepted: models that give the conditional acceptance of each draft position."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.speculation import alpha_from_length

FloatArray = NDArray[np.float64]


class Acceptance(Protocol):
    """Conditional acceptance by position."""

    def conditional(self, max_draft_tokens: int) -> FloatArray:
        """c_i for i = 1..max_draft_tokens, `(max_draft_tokens,)`: accepted given that all earlier ones were."""
        ...


@dataclass(frozen=True, slots=True)
class IidAcceptance:
    """The same conditional acceptance `alpha` at every position."""

    alpha: float

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        if not 0.0 <= self.alpha <= 1.0:
            raise InvalidInput(f"alpha must be in 0..1, got {self.alpha}; give the share of accepted drafts per token")

    def conditional(self, max_draft_tokens: int) -> FloatArray:
        """Alpha at every position."""
        return np.full(max_draft_tokens, self.alpha)


@dataclass(frozen=True, slots=True)
class PerPositionAcceptance:
    """Unconditional shares p_1 >= p_2 >= ..., as engines report them. Says nothing beyond its last position."""

    unconditional: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse shares outside 0..1 or rising with position."""
        if not self.unconditional:
            raise InvalidInput("per-position acceptance needs at least one share, got none; give p_1,p_2,...")
        previous = 1.0
        for position, share in enumerate(self.unconditional, start=1):
            if not 0.0 <= share <= previous:
                raise InvalidInput(
                    f"p_{position} must be in 0..{previous:g} (unconditional shares never rise), got {share}; "
                    "give the share of rounds in which at least that many drafts were accepted"
                )
            previous = share

    def conditional(self, max_draft_tokens: int) -> FloatArray:
        """c_i = p_i / p_{i-1}, 0 where nothing gets that far."""
        if max_draft_tokens > len(self.unconditional):
            raise InvalidInput(
                f"per-position acceptance is given for {len(self.unconditional)} positions, K = {max_draft_tokens} "
                "needs more; give a share for every position or an AL at its K"
            )
        shares = np.array((1.0, *self.unconditional))[: max_draft_tokens + 1]
        return np.divide(shares[1:], shares[:-1], out=np.zeros(max_draft_tokens), where=shares[:-1] > 0)


@dataclass(frozen=True, slots=True)
class LengthAcceptance:
    """An acceptance length measured at one K, carried to any K by the i.i.d. alpha that gives it."""

    length: float
    at_draft_tokens: int

    def __post_init__(self) -> None:
        """Refuse lengths no K can give."""
        if self.at_draft_tokens < 1:
            raise InvalidInput(
                f"the K of an acceptance length must be at least 1, got {self.at_draft_tokens}; write e.g. 2.4@3"
            )
        if not 1.0 <= self.length <= self.at_draft_tokens + 1:
            raise InvalidInput(
                f"acceptance length at K = {self.at_draft_tokens} must be in 1..{self.at_draft_tokens + 1} (the bonus "
                f"token included), got {self.length}; check which K it was measured at"
            )

    @property
    def alpha(self) -> float:
        """The i.i.d. acceptance with this length at this K."""
        return float(alpha_from_length(self.length, self.at_draft_tokens))

    def conditional(self, max_draft_tokens: int) -> FloatArray:
        """Alpha at every position."""
        return np.full(max_draft_tokens, self.alpha)
