"""Experts held whole by the GPUs of a group: what the busiest GPU reads and computes, on which all others wait."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def busiest_experts(experts: int, gpus: int, touched: FloatArray) -> FloatArray:
    """Experts touched on the busiest of `gpus` GPUs, of `touched` in all.

    The mean share plus `sqrt(2 ln gpus)` standard deviations of a binomial: what the largest of `gpus` normal
    variables is expected to reach at most. Never more than a GPU holds, nor than are touched.
    """
    held = experts / gpus
    probability = np.clip(np.asarray(touched, float) / experts, 0.0, 1.0)
    mean, variance = held * probability, held * probability * (1.0 - probability)
    return np.minimum(np.minimum(held, touched), mean + np.sqrt(2.0 * np.log(gpus) * variance))


def busiest_rows(rows: FloatArray, gpus: int) -> FloatArray:
    """Routed rows on the busiest of `gpus` GPUs, of `rows` in all; the same bound, at most all rows."""
    mean = np.asarray(rows, float) / gpus
    return np.minimum(rows, mean + np.sqrt(2.0 * np.log(gpus) * mean * (1.0 - 1.0 / gpus)))
