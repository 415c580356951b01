"""Fits the constants of `roofline.kernel_bands` to measured products, one range of rows after another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from calibrate.kernel_tables.held_out import significant
from roofline.calibration import KernelBand, Knot, OperatorClass, OperatorFit
from roofline.kernel_bands import banded_s

FloatArray = NDArray[np.float64]
TILE_ROWS = (16, 64, 128, 256)
TILE_COLUMNS = (64, 128, 256)
ROUNDS = 3
MAX_STEPS = 60
SPREAD = 0.05
"""Relative errors below this count squared, above linearly: libraries flip between kernels from shape to shape."""
SMALLEST_KNOT = 0.01
# overhead_s, bytes_per_s, flops_per_s (shares of the peaks), p_norm, wave_exponent, inner_per_s, inner_exponent
START = np.array([np.log(4e-6), np.log(0.85), np.log(0.7), np.log(3.0), 0.5, np.log(1e9), 0.7])
LOWER = np.array([np.log(1e-7), np.log(0.1), np.log(0.02), 0.0, 0.0, np.log(1e7), 0.0])
UPPER = np.array([np.log(1e-5), np.log(1.0), np.log(1.0), np.log(16.0), 1.5, np.log(1e12), 1.2])
LARGE_ROWS = 129
LARGE_OVERHEAD_S = 4e-5
"""Kernels of many rows start and end with waves that are not full: what does not grow with the shape is longer."""


@dataclass(frozen=True, slots=True)
class Products:
    """Measured matrix products, arrays of one length: bytes and flops unpadded, columns and inner dimension."""

    rows: FloatArray
    columns: FloatArray
    inner: FloatArray
    hbm_bytes: FloatArray
    flops: FloatArray
    seconds: FloatArray

    def where(self, mask: NDArray[Any]) -> Products:
        """Those where `mask` holds."""
        return Products(*(getattr(self, name)[mask] for name in self.__slots__))

    def predicted_s(self, bands: tuple[KernelBand, ...], processors: int) -> FloatArray:
        """Seconds by the bands."""
        return banded_s(
            bands,
            self.hbm_bytes,
            self.flops,
            rows=self.rows,
            columns=self.columns,
            inner=self.inner,
            processors=processors,
        )


@dataclass(frozen=True, slots=True)
class Peaks:
    """Ceilings of the GPU: no fitted rate is above them."""

    bytes_per_s: float
    flops_per_s: float
    processors: int


def fit_bands(
    products: Products, peaks: Peaks, *, starts: tuple[int, ...], fewest: int = 30
) -> tuple[tuple[KernelBand, ...], tuple[Knot, ...]]:
    """Bands from each of `starts` on, and a factor per measured number of rows; ranges with few rows have no band."""
    bands: list[KernelBand] = []
    factors: dict[int, float] = {}
    for start, end in zip(starts, (*starts[1:], np.inf), strict=True):
        inside = products.where((products.rows >= start) & (products.rows < end))
        if len(inside.rows) >= fewest:
            band, found = _fit_range(inside, peaks, first_row=start)
            bands.append(band)
            factors.update(found)
    return tuple(bands), knots(factors)


def banded_fit(
    operator: OperatorClass, weights: str, *, bands: tuple[KernelBand, ...], steps: tuple[Knot, ...], processors: int
) -> OperatorFit:
    """Constants of an operator from its bands; the plain ones, for readers without bands, are those of the ends."""
    return OperatorFit(
        operator=operator,
        weights=weights,
        overhead_s=bands[0].overhead_s,
        bytes_per_s=bands[0].bytes_per_s,
        flops_per_s=bands[-1].flops_per_s,
        p_norm=bands[0].p_norm,
        knots=steps,
        bands=bands,
        processors=processors,
    )


def knots(factors: dict[int, float]) -> tuple[Knot, ...]:
    """Factors by rows as steps, where they change by more than `SMALLEST_KNOT`."""
    steps: list[Knot] = []
    current = 1.0
    for rows, factor in sorted(factors.items()):
        if abs(factor / current - 1.0) > SMALLEST_KNOT:
            current = significant(factor, 3)
            steps.append(Knot(rows=rows, factor=current))
    return tuple(steps)


def _fit_range(products: Products, peaks: Peaks, *, first_row: int) -> tuple[KernelBand, dict[int, float]]:
    factors = {int(rows): 1.0 for rows in np.unique(products.rows)}
    band = None
    for _ in range(ROUNDS):
        by_row = np.array([factors[int(rows)] for rows in products.rows])
        level = replace(products, seconds=products.seconds / by_row)
        band = _fit_tiles(level, peaks, first_row=first_row, known=band)
        ratio = np.log(products.seconds / products.predicted_s((band,), peaks.processors))
        factors = {rows: float(np.exp(np.median(ratio[products.rows == rows]))) for rows in factors}
    assert band is not None
    return band, factors


def _fit_tiles(products: Products, peaks: Peaks, *, first_row: int, known: KernelBand | None) -> KernelBand:
    """Best constants over the tiles; later rounds keep the tile of the first."""
    most_rows = products.rows.max()
    tiles = [(rows, columns) for rows in TILE_ROWS for columns in TILE_COLUMNS if rows <= max(64, 2 * most_rows)]
    if known is not None:
        tiles = [(known.tile_rows, known.tile_columns)]
    fits = [_fit_constants(products, peaks, first_row=first_row, tile=tile) for tile in tiles]
    return min(fits, key=lambda found: found[0])[1]


def _fit_constants(
    products: Products, peaks: Peaks, *, first_row: int, tile: tuple[int, int]
) -> tuple[float, KernelBand]:
    def band(constants: FloatArray) -> KernelBand:
        return KernelBand.model_construct(
            rows=first_row,
            overhead_s=float(np.exp(constants[0])),
            bytes_per_s=float(np.exp(constants[1])) * peaks.bytes_per_s,
            flops_per_s=float(np.exp(constants[2])) * peaks.flops_per_s,
            p_norm=float(np.exp(constants[3])),
            tile_rows=tile[0],
            tile_columns=tile[1],
            wave_exponent=float(constants[4]),
            inner_per_s=float(np.exp(constants[5])),
            inner_exponent=float(constants[6]),
        )

    def errors(constants: FloatArray) -> FloatArray:
        return np.log(products.predicted_s((band(constants),), peaks.processors) / products.seconds)

    upper = UPPER.copy()
    if first_row >= LARGE_ROWS:
        upper[0] = np.log(LARGE_OVERHEAD_S)
    found = least_squares(errors, START, bounds=(LOWER, upper), loss="soft_l1", f_scale=SPREAD, max_nfev=MAX_STEPS)
    return float(found.cost), _rounded(band(found.x))


def _rounded(band: KernelBand) -> KernelBand:
    values = {name: value for name, value in band.model_dump().items() if name != "rows"}
    rounded = {name: significant(value) if isinstance(value, float) else value for name, value in values.items()}
    return KernelBand(rows=band.rows, **{**rounded, "p_norm": max(1.0, rounded["p_norm"])})
