"""Which shapes a fit never sees: a fixed hash of the shape, so that everyone leaves out the same ones."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.calibration import Residual

ONE_IN = 4


def is_held_out(*shape: int) -> bool:
    """Whether the shape is left out: one in `ONE_IN`, by the SHA-256 of its numbers joined by `x`."""
    text = "x".join(str(int(part)) for part in shape)
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % ONE_IN == 0


def held_out_mask(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """`is_held_out` of each row."""
    known: dict[tuple[int, ...], bool] = {}
    shapes = list(zip(*(column.tolist() for column in columns), strict=True))
    for shape in shapes:
        if shape not in known:
            known[shape] = is_held_out(*shape)
    return np.array([known[shape] for shape in shapes], dtype=bool)


def residual(group: str, predicted_s: NDArray[Any], measured_s: NDArray[Any], *, held_out: bool = True) -> Residual:
    """Median and 90th percentile of the relative error."""
    errors = np.abs(predicted_s / measured_s - 1.0)
    return Residual(
        group=group,
        rows=len(errors),
        median_abs_error_fraction=round(float(np.median(errors)), 4),
        p90_abs_error_fraction=round(float(np.quantile(errors, 0.9)), 4),
        held_out=held_out,
    )


def significant(value: float, digits: int = 4) -> float:
    """The number as it is shipped: rounded, so that a file does not depend on the last bits of a machine."""
    return float(f"{value:.{digits - 1}e}")
