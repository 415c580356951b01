"""From speed-ups at a few loads to one sentence: the intervals of load in which speculation pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Word = Literal["ON", "OFF", "TIE", "SATURATED", "CANNOT SAY"]
Headline = Literal[
    "ON", "OFF", "ON below", "ON above", "ON between", "ON in parts", "SATURATED", "INFEASIBLE", "CANNOT SAY"
]


@dataclass(frozen=True, slots=True)
class JudgedLoad:
    """One load with its verdict and the speed-up behind it, `low`..`high` its interval."""

    value: float
    word: Word
    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """A load at which the answer changes. `interpolated`: from S = 1; else only bracketed by the two loads."""

    value: float
    low: float
    high: float
    interpolated: bool


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of loads with one answer; `None` is an end of the sweep."""

    word: Word
    first: float
    last: float
    begins: Crossing | None
    ends: Crossing | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer: a headline, its load intervals, and the crossing that a planner writes down."""

    headline: Headline
    segments: tuple[Segment, ...]

    @property
    def crossover(self) -> Crossing | None:
        """The first load at which speculation starts or stops paying."""
        for segment in self.segments:
            if segment.word == "ON":
                return segment.ends or segment.begins
        return None


def judge(loads: Sequence[JudgedLoad]) -> Verdict:
    """Verdict over loads in rising order.

    OFF is said only where every load is answered for. ON between two loads is said only where it is known not to pay
    outside them; else it pays in parts.
    """
    segments = _segments(loads)
    words = {segment.word for segment in segments}
    paying = [segment for segment in segments if segment.word == "ON"]
    if words == {"SATURATED"}:
        return Verdict("SATURATED", segments)
    if not paying:
        # A tie does not pay, so it may stand beside OFF; a load nobody can answer for may not.
        return Verdict("OFF" if "OFF" in words and "CANNOT SAY" not in words else "CANNOT SAY", segments)
    if len(paying) > 1:
        return Verdict("ON in parts", segments)
    [segment] = paying
    carried = [item for item in segments if item.word != "SATURATED"]
    from_start, to_end = segment is carried[0], segment is carried[-1]
    if from_start and to_end:
        return Verdict("ON", segments)
    if from_start or to_end:
        return Verdict("ON below" if from_start else "ON above", segments)
    return Verdict("ON in parts" if "CANNOT SAY" in words else "ON between", segments)


def _segments(loads: Sequence[JudgedLoad]) -> tuple[Segment, ...]:
    groups: list[list[JudgedLoad]] = []
    for load in loads:
        if groups and groups[-1][0].word == load.word:
            groups[-1].append(load)
        else:
            groups.append([load])
    edges = [crossing(loads, before[-1], after[0]) for before, after in pairwise(groups)]
    return tuple(
        Segment(
            word=group[0].word,
            first=group[0].value,
            last=group[-1].value,
            begins=edges[index - 1] if index > 0 else None,
            ends=edges[index] if index < len(edges) else None,
        )
        for index, group in enumerate(groups)
    )


def crossing(loads: Sequence[JudgedLoad], before: JudgedLoad, after: JudgedLoad) -> Crossing:
    """Where the answer changes between two neighbouring loads.

    Where the speed-up passes 1 between them, the load is interpolated (log load, log speed-up); beside a tie it is
    where the end of the interval passes 1. The crossing's own interval is where both ends of the speed-up's
    interval pass 1. Otherwise the change has another cause (saturation, an SLO) and the two loads bracket it.
    """
    words = {before.word, after.word}
    falling = before.speedup > after.speedup
    curve = "speedup" if words == {"ON", "OFF"} else "low" if "ON" in words else "high"
    value = None
    if words & {"ON", "OFF"} and "SATURATED" not in words:
        value = _unity(before.value, getattr(before, curve), after.value, getattr(after, curve))
    if value is None:
        return Crossing(math.sqrt(before.value * after.value), before.value, after.value, interpolated=False)
    carried = [load for load in loads if load.word != "SATURATED"]
    pessimist = [(load.value, load.low) for load in carried]
    optimist = [(load.value, load.high) for load in carried]
    earlier = _nearest_unity(pessimist if falling else optimist, value, "below")
    later = _nearest_unity(optimist if falling else pessimist, value, "above")
    return Crossing(value, min(value, earlier), max(value, later), interpolated=True)


def _unity(load_0: float, speedup_0: float, load_1: float, speedup_1: float) -> float | None:
    """Load at which a line in logs passes speed-up 1; None where it does not."""
    if not all(math.isfinite(item) and item > 0 for item in (speedup_0, speedup_1)):
        return None
    log_0, log_1 = math.log(speedup_0), math.log(speedup_1)
    if log_0 * log_1 > 0 or log_0 == log_1:
        return None
    share = log_0 / (log_0 - log_1)
    return math.exp(math.log(load_0) + share * (math.log(load_1) - math.log(load_0)))


def _nearest_unity(curve: Sequence[tuple[float, float]], value: float, side: Literal["below", "above"]) -> float:
    """The curve's passage through 1 nearest to `value` on that side; the end of the sweep where there is none."""
    crossings = [
        found
        for (load_0, speedup_0), (load_1, speedup_1) in pairwise(curve)
        if (found := _unity(load_0, speedup_0, load_1, speedup_1)) is not None
    ]
    if side == "below":
        return max((item for item in crossings if item <= value), default=curve[0][0])
    return min((item for item in crossings if item >= value), default=curve[-1][0])
