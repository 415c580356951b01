"""The tables beside the published speed-ups as lists for `validation.json`; None where nothing is known."""

from __future__ import annotations

import math
from typing import Any

from scenarios.validate.cases import CaseResult
from scenarios.validate.cost_curves import CurvePoint
from scenarios.validate.per_position import ShapeErrors
from scenarios.validate.quantization import QuantPoint


def case_entry(case: CaseResult) -> dict[str, Any]:
    """A case with all its checks."""
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


def curve_entry(point: CurvePoint) -> dict[str, Any]:
    """One published time."""
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


def shape_entry(errors: ShapeErrors) -> dict[str, Any]:
    """Errors of one acceptance shape over one group."""
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


def gain_entry(point: QuantPoint) -> dict[str, Any]:
    """One published gain of quantisation, speculation or both."""
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
