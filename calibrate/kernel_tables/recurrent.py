"""Linear-attention layers (gated delta rule) of a table: a decode step reads and writes each sequence's state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from calibrate.kernel_tables.bands import Peaks
from calibrate.kernel_tables.held_out import held_out_mask, residual, significant
from calibrate.kernel_tables.reading import Rows, chosen
from roofline.calibration import OperatorFit, Residual

STATE_BYTES = 4.0
"""States are kept in 32 bits."""
SPREAD = 0.1
LAUNCH_BOUND_BYTES = 2e6
"""Between this and the last-level cache a repeated launch finds the states there."""


def fit_recurrence(rows: Rows, peaks: Peaks, *, cache_bytes: float) -> tuple[OperatorFit, list[Residual]]:
    """Launch and bandwidth of one recurrent layer in a decode step, all its kernels together."""
    own = chosen(rows, rows["phase"] == "generation")
    names = ("batch_size", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")
    shapes = np.stack([own[name] for name in names], axis=1).astype(np.int64)
    steps, seconds = _layer_times(own, shapes)
    states = steps[:, 3] * steps[:, 2] * steps[:, 4] * STATE_BYTES
    moved_bytes = (2.0 * steps[:, 0] * states).astype(float)
    cold = (moved_bytes >= cache_bytes) | (moved_bytes <= LAUNCH_BOUND_BYTES)
    steps, seconds, moved_bytes = steps[cold], seconds[cold], moved_bytes[cold]
    left_out = held_out_mask(*steps.T)

    def predicted_s(constants: NDArray[np.float64]) -> NDArray[np.float64]:
        launch_s, share, sequence_s = np.exp(constants)
        return launch_s + sequence_s * steps[:, 0] + moved_bytes / (share * peaks.bytes_per_s)

    def errors(constants: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(predicted_s(constants) / seconds)[~left_out]

    bounds = (np.log([1e-7, 0.05, 1e-11]), np.log([1e-4, 1.0, 1e-5]))
    found = least_squares(errors, np.log([8e-6, 0.7, 1e-8]), bounds=bounds, loss="soft_l1", f_scale=SPREAD)
    launch_s, share, sequence_s = np.exp(found.x)
    fit = OperatorFit(
        operator="recurrence",
        weights="any",
        overhead_s=significant(float(launch_s)),
        bytes_per_s=significant(float(share) * peaks.bytes_per_s),
        flops_per_s=peaks.flops_per_s,
        per_sequence_s=significant(float(sequence_s)),
    )
    return fit, [residual("recurrent decoding", predicted_s(found.x)[left_out], seconds[left_out])]


def _layer_times(rows: Rows, shapes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sum over the kernels of a layer of the median time each takes."""
    unique, index = np.unique(shapes, axis=0, return_inverse=True)
    index = index.ravel()
    total = np.zeros(len(unique))
    for kernel in np.unique(rows["kernel_source"]):
        own = rows["kernel_source"] == kernel
        for shape in range(len(unique)):
            times = rows["seconds"][own & (index == shape)]
            total[shape] += float(np.median(times)) if len(times) else 0.0
    return unique, total
