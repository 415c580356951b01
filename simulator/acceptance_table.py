"""Acceptance of every class, level and context as one array of chances for the step loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.acceptance import Acceptance
from simulator.varied_acceptance import VariedAcceptance

FloatArray = NDArray[np.float64]
BANDS = 64
"""Bands of context in which a decay is constant, up to its last point."""


@dataclass(frozen=True, slots=True)
class AcceptanceTable:
    """`conditional[row, position, rank]`, row = (class * levels + level) * bands + band.

    rank r: the chance that the r-th candidate is the target's token when those before it are not. `by_request`:
    a request keeps its level; else every round draws one. A band is `band_tokens` of context wide.
    """

    conditional: FloatArray
    classes: int
    levels: int
    bands: int
    band_tokens: int
    by_request: bool

    def survival(self) -> FloatArray:
        """Unconditional chance of the first candidates, `(rows, positions)`."""
        return np.cumprod(self.conditional[:, :, 0], axis=1, dtype=np.float64)


def acceptance_table(models: tuple[Acceptance, ...], *, positions: int, ranks: int = 1) -> AcceptanceTable:
    """Table over request classes.

    Raises
    ------
    InvalidInput
        Classes vary in ways that one run cannot mix, or a tree is wider than the second choices that are known.
    """
    varied = [model if isinstance(model, VariedAcceptance) else VariedAcceptance(model) for model in models]
    over = {model.spread.over for model in varied if model.spread is not None}
    if len(over) > 1:
        raise InvalidInput(
            "acceptance varies over requests in one class and over rounds in another; choose one of them for all"
        )
    last_tokens = max((model.decay.points[-1][0] for model in varied if model.decay is not None), default=0)
    bands = BANDS if last_tokens else 1
    band_tokens = -(-last_tokens // (BANDS - 1)) if last_tokens else 0
    levels = max(model.levels for model in varied)
    blocks = [
        _class_block(model, levels=levels, positions=positions, ranks=ranks, bands=bands, band_tokens=band_tokens)
        for model in varied
    ]
    return AcceptanceTable(
        conditional=np.concatenate(blocks),
        classes=len(models),
        levels=levels,
        bands=bands,
        band_tokens=band_tokens,
        by_request=over != {"rounds"},
    )


def _class_block(
    model: VariedAcceptance, *, levels: int, positions: int, ranks: int, bands: int, band_tokens: int
) -> FloatArray:
    """`(levels * bands, positions, ranks)` of one class."""
    if ranks - 1 > len(model.sibling_fractions):
        raise InvalidInput(
            f"the tree proposes {ranks} candidates for a position, but sibling_fractions say how often the "
            f"next is right for {len(model.sibling_fractions) + 1} of them; give {ranks - 1} shares"
        )
    first = np.repeat(model.by_level(positions), levels // model.levels, axis=0)
    factors = np.ones(bands)
    if model.decay is not None:
        middles: FloatArray = np.arange(bands, dtype=np.float64) * band_tokens + 0.5 * band_tokens
        middles[-1] = max(middles[-1], model.decay.points[-1][0])
        factors = model.decay.factor(middles)
    others = np.array(model.sibling_fractions[: ranks - 1]) * model.ceiling
    means = model.ceiling * model.mean.conditional(positions)
    harder = np.minimum(1.0, np.divide(first, means, out=np.ones_like(first), where=means > 0))
    block = np.empty((levels, bands, positions, ranks))
    block[:, :, :, 0] = first[:, None, :] * factors[None, :, None]
    block[:, :, :, 1:] = (harder[:, None, :] * factors[None, :, None])[..., None] * others
    return block.reshape(levels * bands, positions, ranks)
