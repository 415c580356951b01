"""Measured times of matrix products, read between the measured shapes: the second source of a step's cost.

Times are kept over a grid of (columns, inner) shapes, each for the rows that were measured and not falling with
them. Between rows their logarithms are joined by lines over the rows as kernels run them, in whole tiles (`row_place`):
nearly level inside a tile, a step where one more begins. Between shapes it is the ratio to the textbook roofline
that is interpolated, in the logarithms of columns and inner, so that bytes and arithmetic carry over. Outside the
grid the ratio of its edge holds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
SMALL_TILE_ROWS, LARGE_TILE_ROWS = 16, 128
"""Heights of the tiles of products of few rows and of many."""
MANY_ROWS = 64
INSIDE_TILE = 0.1
"""Share of a line over the rows themselves: inside a tile bytes and stores still grow."""


def row_place(rows: ArrayLike) -> FloatArray:
    """Where a number of rows lies on the axis times are joined over: mostly the logarithm of its whole tiles."""
    count = np.asarray(rows, float)
    tile = np.where(count <= MANY_ROWS, SMALL_TILE_ROWS, LARGE_TILE_ROWS)
    return (1.0 - INSIDE_TILE) * np.log(np.ceil(count / tile) * tile) + INSIDE_TILE * np.log(count)


@dataclass(frozen=True, slots=True)
class MeasuredMatrices:
    """Times of products in one weight format on one machine.

    Attributes
    ----------
    weights
        `WeightFormat.name`.
    rows, columns, inner : (M,), (N,), (K,)
        The grid, ascending.
    seconds : (N, K, M)
        Measured times, not falling along the rows; where a shape was not measured, filled from its neighbours.
    bytes_per_weight, bytes_per_s, flops_per_s
        Of the roofline that carries times from shape to shape.
    cold_bytes_per_s
        Bandwidth at which weights too large for the last-level cache were read, at best: no product takes less
        than its weights at that rate, whatever a table of repeated launches says.
    """

    weights: str
    rows: FloatArray
    columns: FloatArray
    inner: FloatArray
    seconds: FloatArray
    bytes_per_weight: float
    bytes_per_s: float
    flops_per_s: float
    cold_bytes_per_s: float

    def product_s(self, rows: ArrayLike, shape: tuple[float, float]) -> FloatArray:
        """Seconds of products of `rows` rows with a matrix of `shape` (inner, columns); scalar or array of rows."""
        asked = np.maximum(np.asarray(rows, float), 1.0)
        inner, columns = shape
        ratio = np.zeros(asked.shape)
        for column, column_share in _neighbours(self.columns, columns):
            for depth, depth_share in _neighbours(self.inner, inner):
                log_times = np.asarray(np.log(self.seconds[column, depth]), float)
                curve_s = np.exp(np.asarray(np.interp(row_place(asked), row_place(self.rows), log_times), float))
                curve_s = curve_s * np.maximum(asked / self.rows[-1], 1.0)
                roof_s = self.roofline_s(asked, (float(self.inner[depth]), float(self.columns[column])))
                ratio = ratio + column_share * depth_share * np.log(curve_s / roof_s)
        floor_s = inner * columns * self.bytes_per_weight / self.cold_bytes_per_s
        return np.maximum(np.exp(ratio) * self.roofline_s(asked, shape), floor_s)

    def roofline_s(self, rows: FloatArray, shape: tuple[float, float]) -> FloatArray:
        """Textbook time of a product: memory and arithmetic at the peaks, joined as a root of squares."""
        inner, columns = shape
        moved_bytes = inner * columns * self.bytes_per_weight + 2.0 * rows * (inner + columns)
        return np.hypot(moved_bytes / self.bytes_per_s, 2.0 * rows * inner * columns / self.flops_per_s)


def _neighbours(grid: FloatArray, value: float) -> tuple[tuple[int, float], ...]:
    """(index, weight) of the grid points around a value, linear in the logarithm; the edge outside."""
    above = int(np.searchsorted(grid, value))
    if above == 0:
        return ((0, 1.0),)
    if above == len(grid):
        return ((len(grid) - 1, 1.0),)
    share = float(np.log(value / grid[above - 1]) / np.log(grid[above] / grid[above - 1]))
    return ((above - 1, 1.0 - share), (above, share)) if share < 1.0 else ((above, 1.0),)
