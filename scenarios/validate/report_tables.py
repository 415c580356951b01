"""The parts of the page that are not about speed-ups of rows: cases, cost curves, acceptance shapes, quantisation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from scenarios.validate.case_ablations import Ablation
from scenarios.validate.cases import CaseResult
from scenarios.validate.cost_curves import CurvePoint
from scenarios.validate.per_position import ShapeErrors
from scenarios.validate.quantization import QuantPoint


def percent(value: float, *, signed: bool = False) -> str:
    """A share as a percentage; a dash where there is none."""
    if not math.isfinite(value):
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


def case_lines(cases: Sequence[CaseResult]) -> Iterator[str]:
    """Public cases: direction and band by grade, then every case."""
    if not cases:
        return
    yield "## Public cases"
    yield ""
    for grade in sorted({one.grade for one in cases}):
        done = [one for one in cases if one.grade == grade and one.computed]
        told = [one.direction_right for one in done if one.direction_right is not None]
        bands = [one.in_band for case in done for one in case.checks if one.in_band is not None]
        yield (
            f"- grade {grade}: {len(done)} of {sum(one.grade == grade for one in cases)} computed; direction right in "
            f"{sum(told)} of {len(told)} cases, inside {sum(bands)} of {len(bands)} bands"
        )
    yield ""
    yield "| case | grade | direction | band | checks (predicted in low..high) |"
    yield "|---|---|---|---|---|"
    for one in cases:
        yield f"| {one.case} | {one.grade} | {_word(one.direction_right)} | {_word(one.in_band)} | {_checks(one)} |"
    yield ""
    yield "Every case with the run it was seen in, its band and what had to be assumed: `checks.csv`."
    yield ""


def case_ablation_lines(ablations: Sequence[Ablation]) -> Iterator[str]:
    """Bands that do not hold, with the term that would have to be different."""
    if not ablations:
        return
    yield "Bands that do not hold, with one term changed:"
    yield ""
    yield "| case | term | change | predicted, then changed, in low..high |"
    yield "|---|---|---|---|"
    for one in ablations:
        shown = [
            f"{old.check.arm} {old.predicted:.3g}, {new.predicted:.3g} in {old.check.low:g}..{old.check.high:g}"
            for old, new in zip(one.before, one.after, strict=True)
        ]
        yield f"| {one.change.case} | {one.change.term} | {one.change.text} | {'; '.join(shown)} |"
    yield ""


def _word(right: bool | None) -> str:
    return "-" if right is None else "right" if right else "wrong"


def _checks(case: CaseResult) -> str:
    if not case.computed:
        return "; ".join(case.reasons).replace("|", "/")
    shown: list[str] = []
    for one in case.checks:
        if one.status != "computed":
            continue
        low, high = ("" if value is None else f"{value:g}" for value in (one.check.low, one.check.high))
        band = f" in {low}..{high}" if low or high else ""
        shown.append(f"{one.check.metric} {one.predicted:.3g}{band}")
    return "; ".join(shown)


def curve_lines(points: Sequence[CurvePoint]) -> Iterator[str]:
    """Pass and round times nothing was fitted to."""
    done = [one for one in points if one.status == "computed"]
    if not done:
        return
    yield "## Cost curves"
    yield ""
    yield f"{len(done)} of {len(points)} published points are computed; nothing was fitted to them."
    yield ""
    yield "| curve | points | median | bias |"
    yield "|---|---|---|---|"
    groups: dict[str, list[float]] = defaultdict(list)
    for one in done:
        groups[f"{one.source}: {one.curve}, {one.quantity}"].append(one.error)
    for name, errors in groups.items():
        median, bias = float(np.median(np.abs(errors))), float(np.median(errors))
        yield f"| {name} | {len(errors)} | {percent(median)} | {percent(bias, signed=True)} |"
    yield ""
    yield from _not_computed([(one.x, one.reason) for one in points])


def _not_computed(named: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Reasons with what they hold for, the same reason once."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in named:
        if reason and name not in by_reason[reason]:
            by_reason[reason].append(name)
    if by_reason:
        yield "Not computed:"
        yield ""
        yield from (f"- {reason}: {', '.join(names)}" for reason, names in by_reason.items())
        yield ""


def shape_lines(shapes: Sequence[ShapeErrors]) -> Iterator[str]:
    """Acceptance lengths at other K."""
    if not shapes:
        return
    yield "## Acceptance at other K"
    yield ""
    yield "AL at K drafts from a shape fitted at another K: within one run, from its acceptance by position (`per"
    yield "position` is then exact at smaller K), and between runs of one drafter. Beyond the K it was fitted at, `per"
    yield "position` holds its last conditional share; `Beta mixture` lets requests differ, with mean p_1 and the width"
    yield "the AL needs."
    yield ""
    yield "| points | shape | points | series | sources | median | p90 | bias |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in shapes:
        yield (
            f"| {one.group} | {one.shape} | {one.points} | {one.series} | {one.sources} | "
            f"{percent(one.median_abs_error)} | {percent(one.p90_abs_error)} | {percent(one.bias, signed=True)} |"
        )
    yield ""


def quantization_lines(points: Sequence[QuantPoint]) -> Iterator[str]:
    """Gains of quantisation, of speculation on top, and of both."""
    done = [one for one in points if one.status == "computed" and math.isfinite(one.error)]
    if not done:
        return
    yield "## Quantisation"
    yield ""
    yield "| gain | points | sources | median | p90 | bias |"
    yield "|---|---|---|---|---|---|"
    for gain in sorted({one.gain for one in done}):
        errors = [one.error for one in done if one.gain == gain]
        sources = len({one.source for one in done if one.gain == gain})
        yield (
            f"| {gain} | {len(errors)} | {sources} | {percent(float(np.median(np.abs(errors))))} | "
            f"{percent(float(np.quantile(np.abs(errors), 0.9)))} | {percent(float(np.median(errors)), signed=True)} |"
        )
    yield ""
    yield from _not_computed([(one.id, one.reason) for one in points])
