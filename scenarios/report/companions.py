"""The tables beside the published speed-ups as JSON lists and as Markdown: cases, times, acceptance, quantisation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.validate.cases import CaseResult, CheckResult
from scenarios.validate.companions import (
    CaseCounts,
    Companions,
    GroupErrors,
    case_counts,
    curve_errors,
    quant_errors,
)
from scenarios.validate.cost_curves import CurvePoint
from scenarios.validate.per_position import ShapeErrors
from scenarios.validate.quantization import QuantPoint

TARGETS: Mapping[str, str] = {
    "direction right, A": "all",
    "direction right, B": ">= 85 %",
    "bands that hold": ">= 75 %",
}


def companions_json(found: Companions) -> dict[str, list[dict[str, Any]]]:
    """Lists `cases`, `cost_curves`, `per_position`, `quantization` of plain values; None where nothing is known."""
    return {
        "cases": [_case(case) for case in found.cases],
        "cost_curves": [_curve(point) for point in found.curves],
        "per_position": [_shape(errors) for errors in found.shapes],
        "quantization": [_gain(point) for point in found.quantised],
    }


def companions_summary(found: Companions) -> list[str]:
    """A few lines for the terminal."""
    counts = case_counts(found.cases)
    lines = [
        "Beside the speed-ups",
        f"  cases: {counts.computed[0]} of {counts.computed[1]} computed; direction right in "
        f"{_share(counts.direction_a)} of grade A and {_share(counts.direction_b)} of grade B; "
        f"{_share(counts.bands)} bands hold",
    ]
    for title, groups in (("times", curve_errors(found.curves)), ("quantisation", quant_errors(found.quantised))):
        lines += [f"  {title}, {one.group}: {_errors(one)}" for one in groups]
    lines += [
        f"  AL at other K, {one.group}, {one.shape}: {_errors(one)}"
        for one in found.shapes
        if "smaller" not in one.group
    ]
    return lines


def companions_lines(found: Companions) -> list[str]:
    """Sections of docs/validation.md."""
    return [
        *_case_lines(found.cases),
        "",
        *_curve_lines(found.curves),
        "",
        *_shape_lines(found.shapes),
        "",
        *_gain_lines(found.quantised),
    ]


def _case_lines(cases: Sequence[CaseResult]) -> list[str]:
    counts = case_counts(cases)
    lines = [
        "## Cases",
        "",
        "Public threads at the limits of speculative decoding, transcribed from their bands into",
        "`scenarios/data/validation/checks.csv` with everything that had to be assumed. Each is run as it was run.",
        "",
        "| | reached | target |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {_share(value)} | {TARGETS.get(name, '')} |" for name, value in _figures(counts)]
    lines += [
        "",
        "| case | check | band | published | predicted | direction | band holds |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        lines += [_check_row(case, one) for one in case.checks if _judged(one)]
    reasons = [f"- {case.case}: {reason}" for case in cases for reason in case.reasons]
    return [*lines, "", "Not computed:", "", *(reasons or ["- nothing"])]


def _figures(counts: CaseCounts) -> list[tuple[str, tuple[int, int]]]:
    return [
        ("cases computed, of grades A and B", counts.computed),
        ("direction right, A", counts.direction_a),
        ("direction right, B", counts.direction_b),
        ("bands that hold", counts.bands),
        ("cases whose every band holds", counts.cases_in_band),
    ]


def _judged(one: CheckResult) -> bool:
    return one.in_band is not None or one.direction_right is not None


def _check_row(case: CaseResult, one: CheckResult) -> str:
    low, high = one.check.low, one.check.high
    band = f"{_text(low)} to {_text(high)}" if low is not None or high is not None else ""
    cells = (
        f"{case.case} ({case.grade})",
        f"{one.check.arm}, {one.check.metric}",
        band,
        _text(one.check.measured),
        _text(one.predicted),
        _yes(one.direction_right),
        _yes(one.in_band),
    )
    return f"| {' | '.join(cells)} |"


def _curve_lines(points: Sequence[CurvePoint]) -> list[str]:
    lines = [
        "## Single times",
        "",
        "Published step, verification and drafting times that nothing was fitted to (`cost_curves.csv`).",
        "",
        *_error_table("curve", curve_errors(points)),
        "",
        "| curve | point | published | predicted | error |",
        "|---|---|---|---|---|",
    ]
    for point in points:
        if point.status == "computed":
            cells = (
                point.curve,
                point.x,
                _text(point.measured),
                _text(point.predicted),
                _percent(point.error, sign=True),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_not_computed([(f"{point.curve}, {point.x}", point.reason) for point in points])]


def _shape_lines(shapes: Sequence[ShapeErrors]) -> list[str]:
    lines = [
        "## Acceptance at other K",
        "",
        "Each shape is fitted at one K and predicts the published AL at the others: within one run from its acceptance",
        "by position (so `per position` is exact at smaller K), and between runs of one drafter with different K.",
        "Beyond the K it was fitted at, `per position` holds its last conditional share. `Beta mixture` lets requests",
        "differ, with mean p_1 and the width the AL needs.",
        "",
        "| group | shape | points | series | sources | median error | p90 | bias |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in shapes:
        numbers = (str(one.points), str(one.series), str(one.sources))
        errors = (_percent(one.median_abs_error), _percent(one.p90_abs_error), _percent(one.bias, sign=True))
        lines.append(f"| {' | '.join((one.group, one.shape, *numbers, *errors))} |")
    return lines


def _gain_lines(points: Sequence[QuantPoint]) -> list[str]:
    lines = ["## Quantisation", "", *_error_table("gain", quant_errors(points)), ""]
    lines += ["| row | setup | gain | published | predicted | error |", "|---|---|---|---|---|---|"]
    for point in points:
        if point.status == "computed":
            cells = (point.id, point.setup, point.gain, _text(point.measured), _text(point.predicted))
            lines.append(f"| {' | '.join(cells)} | {_percent(point.error, sign=True)} |")
    return [*lines, "", *_not_computed([(point.id, point.reason) for point in points])]


def _error_table(what: str, groups: Sequence[GroupErrors]) -> list[str]:
    lines = [f"| {what} | points | sources | median error | p90 | bias |", "|---|---|---|---|---|---|"]
    for one in groups:
        errors = (_percent(one.median_abs_error), _percent(one.p90_abs_error), _percent(one.bias, sign=True))
        lines.append(f"| {' | '.join((one.group, str(one.points), str(one.sources), *errors))} |")
    return lines


def _not_computed(named: Sequence[tuple[str, str]]) -> list[str]:
    """Reasons with what they hold for, the same reason once."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in named:
        if reason:
            by_reason.setdefault(reason, []).append(name)
    if not by_reason:
        return []
    return [
        "Not computed:",
        "",
        *(f"- {reason}: {', '.join(dict.fromkeys(names))}" for reason, names in by_reason.items()),
    ]


def _case(case: CaseResult) -> dict[str, Any]:
    return {
        "case": case.case,
        "grade": case.grade,
        "computed": case.computed,
        "direction_right": case.direction_right,
        "in_band": case.in_band,
        "reasons": list(case.reasons),
        "checks": [
            {
                "arm": one.check.arm,
                "metric": one.check.metric,
                "low": one.check.low,
                "high": one.check.high,
                "measured": one.check.measured,
                "predicted": _known(one.predicted),
                "direction": one.check.direction or None,
                "direction_right": one.direction_right,
                "in_band": one.in_band,
                "label": one.label or None,
                "assumed": one.check.assumed,
                "reason": one.reason,
                "url": one.check.url,
            }
            for one in case.checks
        ],
    }


def _curve(point: CurvePoint) -> dict[str, Any]:
    return {
        "curve": point.curve,
        "source": point.source,
        "quantity": point.quantity,
        "x": point.x,
        "measured": _known(point.measured),
        "predicted": _known(point.predicted),
        "error": _known(point.error),
        "label": point.label or None,
        "assumed": point.assumed,
        "reason": point.reason,
    }


def _shape(errors: ShapeErrors) -> dict[str, Any]:
    return {
        "group": errors.group,
        "shape": errors.shape,
        "n": errors.points,
        "series": errors.series,
        "sources": errors.sources,
        "median_abs_error": errors.median_abs_error,
        "p90_abs_error": errors.p90_abs_error,
        "bias": errors.bias,
    }


def _gain(point: QuantPoint) -> dict[str, Any]:
    return {
        "id": point.id,
        "source": point.source,
        "setup": point.setup,
        "gain": point.gain,
        "measured": point.measured,
        "predicted": _known(point.predicted),
        "error": _known(point.error),
        "assumed": list(point.assumed),
        "reason": point.reason,
    }


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _text(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "-"
    return "none" if math.isinf(value) else f"{value:.3g}"


def _yes(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _share(counted: tuple[int, int]) -> str:
    hits, of = counted
    return f"{hits} of {of}" + (f" ({hits / of:.0%})" if of else "")


def _percent(value: float, *, sign: bool = False) -> str:
    return "-" if math.isnan(value) else f"{100 * value:{'+' if sign else ''}.1f} %"


def _errors(one: GroupErrors | ShapeErrors) -> str:
    return (
        f"median {_percent(one.median_abs_error)}, p90 {_percent(one.p90_abs_error)}, bias "
        f"{_percent(one.bias, sign=True)} ({one.points} points, {one.sources} sources)"
    )
