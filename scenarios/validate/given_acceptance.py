"""The acceptance length a row was measured with, whatever its table calls acceptance."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import InvalidInput
from roofline.speculation import expected_tokens
from scenarios.validate.priors import Range
from scenarios.validate.published_acceptance import alpha_prior
from scenarios.validate.rows import Row
from scenarios.validate.shapes import Shape

SECOND_CHOICE_FRACTION = 0.4
"""Where the first candidate of a position misses, how often one of the others of a tree is right (assumed, for rows of
trees that publish no acceptance at all)."""


@dataclass(frozen=True, slots=True)
class GivenLength:
    """AL with its range (low = high where it was published), and what was assumed to get it."""

    length: Range
    assumed: str = ""


def acceptance_length_of(row: Row, shape: Shape, *, method: str, model: str) -> GivenLength:
    """AL of a row, bonus included: published, from accepted over drafted, or the prior of its model, method and task.

    Raises
    ------
    InvalidInput
        The published value cannot be an acceptance length of such a round.
    """
    if row.acceptance_length is not None:
        return _published(row, shape, row.acceptance_length)
    if row.acceptance_alpha is not None:
        return _from_rate(row, shape)
    return _from_prior(row, shape, method=method, model=model)


def _published(row: Row, shape: Shape, length: float) -> GivenLength:
    said = row.tau_convention.lower()
    excluded = ("excl" in said or "without bonus" in said or "not incl" in said) and "incl. bonus" not in said
    counted = length + 1.0 if excluded or length < 1.0 else length
    most = shape.depth + 1.0
    if counted > most * 1.02:
        raise InvalidInput(f"mean_accept_len_tau {length:g} exceeds K + 1 = {most:g}, so K or AL is something else")
    counted = min(counted, most)
    return GivenLength(Range(counted, counted, counted))


def _from_rate(row: Row, shape: Shape) -> GivenLength:
    assert row.acceptance_alpha is not None
    given = row.acceptance_alpha
    scale = 0.01 if given.value > 1.0 else 1.0  # shares in percent
    low, middle, high = (share * scale for share in (given.low, given.value, given.high))
    if not 0.0 <= middle <= 1.0:
        raise InvalidInput(f"acceptance_rate_alpha {given.value:g} is no share")
    gated = "gated" in row.notes.lower()
    per_token = any(word in row.notes.lower() for word in ("per-token", "per token", "conditional", "min(p,q)"))
    if gated or per_token:
        lengths = [float(expected_tokens(share, shape.depth)) for share in (low, middle, high)]
        note = "drafts are gated, so accepted / drafted is taken as the chance of one draft" if gated else ""
        return GivenLength(Range(*lengths), note)
    lengths = [min(1.0 + shape.draft_tokens * share, shape.depth + 1.0) for share in (low, middle, high)]
    return GivenLength(Range(*lengths), "AL = 1 + K x accepted / drafted")


def _from_prior(row: Row, shape: Shape, *, method: str, model: str) -> GivenLength:
    spread, note = alpha_prior(model, method, row.dataset)
    lengths: list[float] = []
    for first in (spread.low, spread.middle, spread.high):
        alpha = first + (1.0 - first) * SECOND_CHOICE_FRACTION * shape.tree
        lengths.append(float(expected_tokens(alpha, shape.depth)))
    return GivenLength(Range(*lengths), note)
