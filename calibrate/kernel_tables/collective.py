"""All-reduce of a table, inside graphs: eager rows are up to five times slower and are host time, not link time.

`message_size` counts elements. The package does not say so, its NCCL table does: 8-bit messages of twice the size take
as long as 16-bit ones, and only with elements do eight H100 reach the 470 GB/s they are known for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.held_out import residual, significant
from calibrate.kernel_tables.reading import Rows, chosen
from roofline.calibration import CollectiveFit, MessageTime, Residual
from roofline.collectives import all_reduce_s

ELEMENT_BYTES = 2.0
"""Of bf16, in which the tables were measured."""
SMALL_BYTES = 65536
LARGE_BYTES = 128e6


def fit_all_reduce(rows: Rows) -> tuple[list[CollectiveFit], list[Residual]]:
    """One curve per group of GPUs through every second measured size; the sizes between are held out."""
    fits: list[CollectiveFit] = []
    found: list[Residual] = []
    for gpus in np.unique(rows["num_gpus"]).tolist():
        sizes, seconds = _graph_times(chosen(rows, rows["num_gpus"] == gpus))
        if len(sizes) < 4:
            continue
        left_out = np.arange(len(sizes)) % 2 == 1
        left_out[-1] = False
        fit = _through(int(gpus), sizes[~left_out], seconds[~left_out])
        fits.append(fit)
        predicted = all_reduce_s(fit, sizes[left_out])
        found.append(residual(f"all-reduce over {gpus} GPUs", predicted, seconds[left_out]))
    return fits, found


def _graph_times(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of each message and its median time, in graphs where the table has both."""
    eager = np.array(["eager" in str(source) for source in rows["kernel_source"]])
    own = chosen(rows, ~eager) if (~eager).any() else rows
    own = chosen(own, own["allreduce_dtype"] == "bfloat16")
    sizes = own["message_size"] * ELEMENT_BYTES
    unique = np.unique(sizes)
    return unique, np.array([float(np.median(own["seconds"][sizes == size])) for size in unique])


def _through(gpus: int, sizes: NDArray[np.float64], seconds: NDArray[np.float64]) -> CollectiveFit:
    small = seconds[sizes <= SMALL_BYTES]
    latency_s = float(np.median(small)) if len(small) else float(seconds[0])
    large = sizes >= min(LARGE_BYTES, sizes[-1])
    rate = 2.0 * (gpus - 1) / gpus * sizes[large] / np.maximum(seconds[large] - latency_s, 1e-9)
    points = tuple(
        MessageTime(message_bytes=size, seconds=significant(time))
        for size, time in zip(sizes.tolist(), seconds.tolist(), strict=True)
    )
    return CollectiveFit(
        gpus=gpus,
        latency_s=significant(latency_s),
        bytes_per_s=significant(float(np.median(rate))),
        points=points,
    )
