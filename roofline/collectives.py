"""Seconds of an all-reduce, from a line or from measured sizes of messages."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.calibration import CollectiveFit


def all_reduce_s(link: CollectiveFit, message_bytes: ArrayLike) -> NDArray[np.float64]:
    """Seconds of reducing `message_bytes` over `link.gpus` GPUs; scalar or array.

    With measured points: log-log interpolation between them; messages below the first take as long as it, above
    the last as long in proportion.
    """
    asked = np.asarray(message_bytes, dtype=np.float64)
    if not link.points:
        return link.latency_s + 2.0 * (link.gpus - 1) / link.gpus * asked / link.bytes_per_s
    sizes = np.array([point.message_bytes for point in link.points])
    seconds = np.array([point.seconds for point in link.points])
    within = np.exp(np.interp(np.log(np.maximum(asked, 1.0)), np.log(sizes), np.log(seconds)))
    return within * np.maximum(asked / sizes[-1], 1.0)
