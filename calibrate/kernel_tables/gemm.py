"""Dense matrix products of a table: which rows a decode step resembles, and their constants.

Tables repeat one product over one weight matrix. A matrix that fits the last-level cache is read warm there, while
a decode step reads it cold; such rows are flagged and kept out of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.bands import Peaks, Products, banded_fit, fit_bands
from calibrate.kernel_tables.held_out import held_out_mask, residual
from calibrate.kernel_tables.reading import Rows, chosen, fastest
from calibrate.kernel_tables.systems import TableFormat
from roofline.calibration import OperatorFit, Residual
from roofline.operators import knot_factor

BAND_STARTS = (1, 17, 65, 129, 257, 513, 2049)
REPORTED_ROWS = ((1, 17), (32, 129), (160, 512), (513, 16384))
MAX_ROWS = 16384
COLD_IN_CACHES = 1.0
"""Weights of at least this many last-level caches are fitted."""
CHECKED_IN_CACHES = 2.0
"""Weights of at least this many last-level caches are held against the fit."""
ACTIVATION_BYTES = 2.0
LAUNCH_BOUND_S = 4e-5
"""No captured product of the smallest shapes takes that long; the slowest engine's takes 12 us."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Products of one number format, with the bytes of their weights."""

    products: Products
    weight_bytes: NDArray[np.float64]
    held_out: NDArray[np.bool_]

    def warm(self, bytes_per_s: float, cache_bytes: float) -> NDArray[np.bool_]:
        """Rows read from the cache: weights smaller than it, or faster than the memory can be."""
        faster = self.products.hbm_bytes / self.products.seconds > bytes_per_s
        return faster | (self.weight_bytes < COLD_IN_CACHES * cache_bytes)


def launch_bound(rows: Rows) -> dict[str, float]:
    """Formats whose shortest product takes so long that launching it was measured; their shortest time in seconds.

    In a captured graph the smallest product takes a few microseconds; where a library is called one product at a time
    from Python, the smallest takes as long as a large one.
    """
    shortest_s = {
        str(dtype): float(rows["seconds"][rows["gemm_dtype"] == dtype].min()) for dtype in np.unique(rows["gemm_dtype"])
    }
    return {dtype: value for dtype, value in shortest_s.items() if value > LAUNCH_BOUND_S}


def matrices(rows: Rows, dtype: str, fmt: TableFormat) -> Matrices:
    """Products of one number format; repeated shapes (several kernels) keep the fastest, as an engine would."""
    own = chosen(rows, (rows["gemm_dtype"] == dtype) & (rows["m"] <= MAX_ROWS))
    shapes, seconds = fastest(own, ("m", "n", "k"))
    m, n, k = (values.astype(float) for values in shapes.values())
    weight_bytes = n * k * fmt.bytes_per_weight
    products = Products(
        rows=m,
        columns=n,
        inner=k,
        hbm_bytes=weight_bytes + m * (n + k) * ACTIVATION_BYTES,
        flops=2.0 * m * n * k,
        seconds=seconds,
    )
    return Matrices(products, weight_bytes, held_out_mask(shapes["n"], shapes["k"]))


def fit_matrices(
    table: Matrices, peaks: Peaks, *, weights: str, cache_bytes: float
) -> tuple[OperatorFit, list[Residual]]:
    """Constants from cold rows whose shape is not held out, and their errors on those that are."""
    seen = ~table.warm(peaks.bytes_per_s, cache_bytes) & ~table.held_out
    bands, steps = fit_bands(table.products.where(seen), peaks, starts=BAND_STARTS)
    fit = banded_fit("gemm", weights, bands=bands, steps=steps, processors=peaks.processors)
    return fit, _residuals(table, fit, cache_bytes)


def predicted_s(products: Products, fit: OperatorFit) -> NDArray[np.float64]:
    """Seconds by the constants."""
    return products.predicted_s(fit.bands, fit.processors) * knot_factor(fit, products.rows)


def _residuals(table: Matrices, fit: OperatorFit, cache_bytes: float) -> list[Residual]:
    found: list[Residual] = []
    checked = table.weight_bytes >= CHECKED_IN_CACHES * cache_bytes
    for first, last in REPORTED_ROWS:
        inside: NDArray[Any] = (table.products.rows >= first) & (table.products.rows <= last)
        for held_out in (True, False):
            products = table.products.where(inside & checked & (table.held_out == held_out))
            if len(products.rows):
                group = f"gemm {fit.weights}, {first} to {last} rows"
                found.append(residual(group, predicted_s(products, fit), products.seconds, held_out=held_out))
    return found
