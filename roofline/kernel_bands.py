"""Seconds of a matrix product by a kernel of its own for each range of rows: tiles, waves over processors, switches.

x = ceil(rows / tile_rows) * ceil(columns / tile_columns) / processors          waves, as a real number
t_mem   = bytes / bytes_per_s
t_comp  = flops * (padded rows / rows) / flops_per_s * (ceil(x) / x)**wave_exponent
t_inner = inner * ceil(x)**inner_exponent / inner_per_s
t = overhead_s + (t_mem**p + t_comp**p + t_inner**p)**(1/p)
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.calibration import KernelBand

FloatArray = NDArray[np.float64]


def banded_s(
    bands: tuple[KernelBand, ...],
    hbm_bytes: ArrayLike,
    flops: ArrayLike,
    *,
    rows: ArrayLike,
    columns: ArrayLike,
    inner: ArrayLike,
    processors: int,
) -> FloatArray:
    """Seconds of one product of `rows` x `inner` by `inner` x `columns`; every argument scalar or array.

    `hbm_bytes` and `flops` are unpadded. Zero rows take the first band's overhead and its bytes.
    """
    arrays = np.broadcast_arrays(*(np.asarray(value, float) for value in (hbm_bytes, flops, rows, columns, inner)))
    starts = np.array([band.rows for band in bands], dtype=np.float64)
    index = np.maximum(np.searchsorted(starts, arrays[2], side="right") - 1, 0)
    seconds = np.zeros(arrays[0].shape)
    for number, band in enumerate(bands):
        chosen = index == number
        if chosen.any():
            seconds[chosen] = _band_s(band, [values[chosen] for values in arrays], processors)
    return seconds


def _band_s(band: KernelBand, parts: list[FloatArray], processors: int) -> FloatArray:
    hbm_bytes, flops, rows, columns, inner = parts
    row_tiles = np.maximum(np.ceil(rows / band.tile_rows), 1.0)
    waves = row_tiles * np.ceil(columns / band.tile_columns) / processors
    padding = row_tiles * band.tile_rows / np.maximum(rows, 1.0)
    memory_s = hbm_bytes / band.bytes_per_s
    compute_s = flops * padding / band.flops_per_s * (np.ceil(waves) / waves) ** band.wave_exponent
    inner_s = np.zeros_like(memory_s)
    if band.inner_per_s is not None:
        inner_s = inner * np.ceil(waves) ** band.inner_exponent / band.inner_per_s
    largest = np.maximum(np.maximum(memory_s, compute_s), inner_s)
    terms = np.stack([memory_s, compute_s, inner_s])
    shares: FloatArray = np.divide(terms, largest, out=np.zeros_like(terms), where=largest > 0)
    return band.overhead_s + largest * np.sum(shares**band.p_norm, axis=0) ** (1.0 / band.p_norm)
