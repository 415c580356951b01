"""Matrix tables as a grid to read between (`roofline.measured_matrices`): times that do not fall with the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.bands import Peaks
from calibrate.kernel_tables.gemm import CHECKED_IN_CACHES, MAX_ROWS, Matrices, matrices
from calibrate.kernel_tables.package import Package
from calibrate.kernel_tables.reading import read_rows
from calibrate.kernel_tables.systems import MATRIX_FORMATS, TableFormat
from roofline.catalog import gpu as catalogue_gpu
from roofline.errors import InvalidInput
from roofline.measured_matrices import MeasuredMatrices, row_place

FloatArray = NDArray[np.float64]
SMALLEST_SIDE = 256


def measured_matrices(package: Package, system: str, engine: str) -> tuple[MeasuredMatrices, ...]:
    """The dense products of a system and engine, one grid a number format."""
    own = package.system(system)
    package.check_engine(own.name, engine)
    gpu = catalogue_gpu(own.gpu)
    file = package.table(own.name, engine, "gemm/gemm")
    if file is None:
        raise InvalidInput(f"{own.name} {engine} has no table of matrix products; use another engine")
    rows = read_rows(file, "gemm")
    rates = {str(name): rate for name, rate in gpu.peak_flops_per_s.items()}
    found: list[MeasuredMatrices] = []
    for dtype in sorted(set(rows["gemm_dtype"].tolist()) & set(MATRIX_FORMATS)):
        fmt = MATRIX_FORMATS[dtype]
        if fmt.math in rates:
            peaks = Peaks(gpu.hbm_bytes_per_s, rates[fmt.math], own.processors)
            found.append(grid(matrices(rows, dtype, fmt), fmt, peaks=peaks, cache_bytes=gpu.l2_bytes or 0.0))
    return tuple(found)


def grid(table: Matrices, fmt: TableFormat, *, peaks: Peaks, cache_bytes: float) -> MeasuredMatrices:
    """Products with both sides of at least `SMALLEST_SIDE`, missing shapes filled from the nearest measured one."""
    products = table.products
    keep = (np.minimum(products.columns, products.inner) >= SMALLEST_SIDE) & (products.rows <= MAX_ROWS)
    products = products.where(keep)
    rows, columns, inner = (np.unique(values) for values in (products.rows, products.columns, products.inner))
    seconds = np.full((len(columns), len(inner), len(rows)), np.nan)
    place = tuple(
        np.searchsorted(axis, values)
        for axis, values in (
            (columns, products.columns),
            (inner, products.inner),
            (rows, products.rows),
        )
    )
    seconds[place] = products.seconds
    cold = (table.weight_bytes >= CHECKED_IN_CACHES * cache_bytes) & (table.products.rows <= 16)
    fastest = np.quantile((table.weight_bytes / table.products.seconds)[cold], 0.95)
    made = MeasuredMatrices(
        weights=fmt.weights,
        rows=rows,
        columns=columns,
        inner=inner,
        seconds=seconds,
        bytes_per_weight=fmt.bytes_per_weight,
        bytes_per_s=peaks.bytes_per_s,
        flops_per_s=peaks.flops_per_s,
        cold_bytes_per_s=min(float(fastest), peaks.bytes_per_s),
    )
    _fill(made)
    return made


def not_falling(seconds: FloatArray) -> FloatArray:
    """The sequence that never falls and is nearest in the logarithms' absolute values (pool adjacent violators).

    Absolute values and not squares: tables have single rows 15 % slower than both neighbours, which a mean would
    spread over them.
    """
    pools: list[list[float]] = []
    for value in np.log(seconds).tolist():
        pools.append([value])
        while len(pools) > 1 and np.median(pools[-2]) > np.median(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return np.exp(np.repeat([np.median(pool) for pool in pools], [len(pool) for pool in pools]))


def _fill(made: MeasuredMatrices) -> None:
    """Complete the grid in place: gaps along the rows, then shapes that were not measured, then make it rise."""
    place = row_place(made.rows)
    known: list[tuple[int, int]] = []
    for column, depth in np.ndindex(len(made.columns), len(made.inner)):
        curve = made.seconds[column, depth]
        there = ~np.isnan(curve)
        if there.sum() >= 2:
            curve[:] = np.exp(np.interp(place, place[there], np.log(curve[there])))
            curve[:] = not_falling(curve)
            known.append((column, depth))
    sides = np.log(np.array([[made.columns[column], made.inner[depth]] for column, depth in known]))
    for column, depth in np.ndindex(len(made.columns), len(made.inner)):
        if np.isnan(made.seconds[column, depth]).any():
            asked = np.log([made.columns[column], made.inner[depth]])
            nearest = known[int(np.argmin(((sides - asked) ** 2).sum(axis=1)))]
            shapes = [(float(made.inner[at[1]]), float(made.columns[at[0]])) for at in ((column, depth), nearest)]
            scale = made.roofline_s(made.rows, shapes[0]) / made.roofline_s(made.rows, shapes[1])
            made.seconds[column, depth] = made.seconds[nearest] * scale
