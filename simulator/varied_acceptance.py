"""Acceptance that differs between requests or rounds, falls with context, and knows second choices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.acceptance import Acceptance

FloatArray = NDArray[np.float64]
LEVELS = 64
"""Equally likely parts a Beta law is cut into; each stands with its own mean, so that the mean is exact."""
_GRID = 20_001
_FAR = 40.0
"""Where a tail of exp(-x) ends for a float's purposes."""


@dataclass(frozen=True, slots=True)
class BetaSpread:
    """Acceptance varies as a Beta law around its mean, `concentration` = a + b (small: easy or hopeless).

    `over` requests: a request keeps its draw, so survivors of a position are easier and c_i rises with i. `over`
    rounds: every round draws anew; trees of drafters that know it (confidence) follow it.
    """

    concentration: float
    over: Literal["requests", "rounds"] = "requests"

    def __post_init__(self) -> None:
        """Refuse what is no law."""
        if not (math.isfinite(self.concentration) and self.concentration > 0):
            raise InvalidInput(
                f"concentration of a Beta spread must be positive and finite, got {self.concentration}; "
                "2 is uniform around 0.5, 20 narrow"
            )


@dataclass(frozen=True, slots=True)
class ContextDecay:
    """Factor on the conditional acceptance by context: (tokens, factor) points, linear between, flat outside."""

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        """Refuse points out of order or factors that are none."""
        tokens = [point[0] for point in self.points]
        if not tokens or tokens != sorted(set(tokens)) or tokens[0] < 0:
            raise InvalidInput(f"context points must rise from 0 or more tokens, got {tokens}; sort them, one each")
        for at_tokens, factor in self.points:
            if not 0.0 <= factor <= 1.0:
                raise InvalidInput(
                    f"the acceptance factor at {at_tokens} tokens must be in 0..1, got {factor}; "
                    "give the acceptance at the shortest context and factors below 1 from there"
                )

    def factor(self, context_tokens: FloatArray) -> FloatArray:
        """Factor at contexts."""
        tokens, factors = zip(*self.points, strict=True)
        return np.interp(context_tokens, tokens, factors)


@dataclass(frozen=True, slots=True)
class VariedAcceptance:
    """A mean acceptance with what varies around it.

    `sibling_fractions[r]` is the chance that candidate r + 2 of a position is the target's token when those before
    it are not: what a tree gains from second choices; less in proportion where the first is harder than its mean.
    `ceiling` multiplies every acceptance: the share of the target's tokens the drafter can write at all (other
    vocabulary), or a published loss (quantised target).
    """

    mean: Acceptance
    spread: BetaSpread | None = None
    decay: ContextDecay | None = None
    sibling_fractions: tuple[float, ...] = ()
    ceiling: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        for name, share in [("ceiling", self.ceiling), *(("sibling_fractions", s) for s in self.sibling_fractions)]:
            if not 0.0 <= share <= 1.0:
                raise InvalidInput(f"{name} must be in 0..1, got {share}; give a share, not percent")

    @property
    def levels(self) -> int:
        """Equally likely parts."""
        return 1 if self.spread is None else LEVELS

    def conditional(self, max_draft_tokens: int) -> FloatArray:
        """c_i over all rounds of equally many requests at short context: rises with i where requests differ."""
        reached = np.cumprod(self.by_level(max_draft_tokens), axis=1).mean(axis=0)
        before = np.concatenate(([1.0], reached[:-1]))
        return np.divide(reached, before, out=np.zeros_like(reached), where=before > 0)

    def by_level(self, max_draft_tokens: int) -> FloatArray:
        """Conditional acceptance of every part, `(levels, max_draft_tokens)`, ascending, at short context."""
        means = self.mean.conditional(max_draft_tokens)
        if self.spread is None:
            return self.ceiling * means[None, :]
        laws = {mean: beta_levels(mean, self.spread.concentration, LEVELS) for mean in {float(c) for c in means}}
        return self.ceiling * np.stack([laws[float(mean)] for mean in means], axis=1)


def beta_levels(mean: float, concentration: float, levels: int) -> FloatArray:
    """Means of the `levels` equally likely parts of a Beta law, ascending, `(levels,)`; their mean is `mean`.

    By quadrature in logit space, where the density is smooth however small the exponents.
    """
    if mean <= 0.0 or mean >= 1.0:
        return np.full(levels, float(np.clip(mean, 0.0, 1.0)))
    a, b = mean * concentration, (1.0 - mean) * concentration
    logits = np.linspace(-_FAR / a - _FAR, _FAR / b + _FAR, _GRID)
    log_share, log_rest = -np.logaddexp(0.0, -logits), -np.logaddexp(0.0, logits)
    log_density = a * log_share + b * log_rest
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    below = np.concatenate(([0.0], np.cumsum(weights)))
    moment = np.concatenate(([0.0], np.cumsum(weights * np.exp(log_share))))
    edges = np.interp(np.linspace(0.0, 1.0, levels + 1), below / below[-1], moment)
    parts = np.maximum.accumulate(np.diff(edges)) * levels  # rounding of the sums aside, they ascend
    return np.clip(parts * (mean / parts.mean()), 0.0, 1.0)


def with_length(varied: VariedAcceptance, length: float, draft_tokens: int) -> float:
    """The mean alpha under which requests that vary so have this AL at this K, `varied.mean` left aside."""
    from dataclasses import replace

    from simulator.acceptance import IidAcceptance

    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        shares = np.cumprod(replace(varied, mean=IidAcceptance(middle)).conditional(draft_tokens))
        low, high = (middle, high) if 1.0 + shares.sum() < length else (low, middle)
    return (low + high) / 2
