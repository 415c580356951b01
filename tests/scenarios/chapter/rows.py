"""Rows computed once a session, and what a row looks like when its numbers are moved."""

from dataclasses import replace
from functools import cache

from scenarios.chapter.judging import Claim, Row
from scenarios.chapter.rows import ROWS

CHEAP = ("L1", "L6", "L9", "L10")
"""Rows of arithmetic alone: nothing is simulated, so nothing is compiled."""


@cache
def row(name: str) -> Row:
    """The row at seed 0."""
    return ROWS[name](0)


def outside(claim: Claim) -> Claim:
    """The claim with every number beyond the end of its range."""
    if claim.high is not None:
        far = claim.high + abs(claim.high) * claim.tolerance_fraction + 1.0
    else:
        far = claim.low - abs(claim.low) * claim.tolerance_fraction - 1.0
    return _all_at(claim, far)


def inside(claim: Claim) -> Claim:
    """The claim with every number at an end of its range."""
    return _all_at(claim, claim.low if claim.low is not None else claim.high)


def _all_at(claim: Claim, value: float) -> Claim:
    return replace(
        claim,
        found=tuple(replace(quantity, value=value) for quantity in claim.found),
        published=tuple(replace(quantity, value=value) for quantity in claim.published),
    )
