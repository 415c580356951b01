"""What a row of the chapter consists of, and the one function that judges it: numbers against a stated range.

A claim holds where every number it rests on lies in its range, widened by the tolerance on both sides; it holds in part
where some do, and does not where none does. Numbers computed here and published ones are judged alike, so a
claim that measurements contradict cannot hold by our arithmetic alone. A row sums up its claims in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofline.calibration import Label
from roofline.errors import InvalidInput

Verdict = Literal["holds", "in part", "does not hold", "not yet"]
_WEAKEST_FIRST: tuple[Label, ...] = ("assumed", "catalogue", "calibrated", "measured")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One printed number with what it rests on; `source` says where a published one was copied from."""

    name: str
    value: float
    label: Label
    unit: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing the chapter says, as a range, and the numbers held against it.

    Attributes
    ----------
    low, high
        The range as the chapter has it, ends included; None is open.
    tolerance_fraction
        Widens both ends by this share of themselves.
    found, published
        Computed by this project, and measured by others; all are judged.
    beside
        Numbers that explain, not judged.
    missing
        What it takes to judge this; set where no number exists yet.
    """

    says: str
    low: float | None = None
    high: float | None = None
    tolerance_fraction: float = 0.0
    found: tuple[Quantity, ...] = ()
    published: tuple[Quantity, ...] = ()
    beside: tuple[Quantity, ...] = ()
    missing: str = ""

    def __post_init__(self) -> None:
        """Refuse a claim that nothing could contradict."""
        if self.missing:
            return
        if self.low is None and self.high is None:
            raise InvalidInput(
                f"claim {self.says!r} needs a low or a high end; without one no number can contradict it"
            )
        if not (self.found or self.published):
            raise InvalidInput(f"claim {self.says!r} has no number to judge; compute one, or say what is missing")

    @property
    def judged(self) -> tuple[Quantity, ...]:
        """All numbers the verdict rests on."""
        return self.found + self.published

    def holds_for(self, value: float) -> bool:
        """Whether a number lies in the widened range; one that is not known does not."""
        if math.isnan(value):
            return False
        low = -math.inf if self.low is None else self.low - abs(self.low) * self.tolerance_fraction
        high = math.inf if self.high is None else self.high + abs(self.high) * self.tolerance_fraction
        return low <= value <= high


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers in rows, for the eye; texts are ready to print."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the chapter: what it says, how to see it, and its claims with their numbers."""

    id: str
    title: str
    says: str
    command: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Of all claims together."""
        return judge_all([judge(claim) for claim in self.claims])


def judge(claim: Claim) -> Verdict:
    """The verdict on one claim: all, some or none of its numbers in the range."""
    if claim.missing:
        return "not yet"
    inside = [claim.holds_for(quantity.value) for quantity in claim.judged]
    return "holds" if all(inside) else "in part" if any(inside) else "does not hold"


def judge_all(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a row; claims that cannot be judged yet do not count, unless there is no other."""
    known: list[Verdict] = [verdict for verdict in verdicts if verdict != "not yet"]
    if not known:
        return "not yet"
    return known[0] if len(set(known)) == 1 else "in part"


def weakest(*labels: Label) -> Label:
    """What a number rests on that was computed from several: the least certain of them."""
    return next(label for label in _WEAKEST_FIRST if label in labels)
