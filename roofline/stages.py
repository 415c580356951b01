"""Batches in parts: micro-batches over pipeline stages, and ranks of attention data parallelism in lockstep.

A *part* is what one stage runs at a time (a micro-batch) or what one rank holds. The step of a replica is then the time
until every part had its turn.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.operators import Shard
from roofline.specs import Model

FloatArray = NDArray[np.float64]
STATES_SENT = 2
"""Tensors of the hidden width that vLLM hands to the next stage: the hidden states and the residual."""


def cycle_s(one_s: tuple[float, float, float], counts: tuple[int, int]) -> tuple[float, float]:
    """Seconds in which all equal micro-batches pass all stages once: (target pass, drafting).

    `one_s` of one of them: (front, tail, draft); `counts`: (stages, micro-batches). Front: the layers over all stages,
    transfers included; they divide evenly. Tail and draft: logits with sampling, and drafting, on the last stage. With
    fewer micro-batches than stages the others wait (the bubble) and the cycle is the latency of one; else the last
    stage, the longest, paces it.
    """
    front_s, tail_s, draft_s = one_s
    stages, parts = counts
    latency_s = front_s + tail_s + draft_s
    paced_s = parts * (front_s / stages + tail_s + draft_s)
    if paced_s > latency_s:
        return paced_s - parts * draft_s, parts * draft_s
    return front_s + tail_s, draft_s


def hop_s(model: Model, tokens: ArrayLike, shard: Shard) -> FloatArray:
    """Seconds of handing so many tokens to the next stage: the link's latency and bandwidth, point to point."""
    sent = np.asarray(tokens, dtype=float)
    link = shard.calibration.collective(2)
    moved_bytes = STATES_SENT * sent * model.hidden_size * model.precision.activation_bytes
    return np.where(sent > 0, link.latency_s + moved_bytes / shard.gpu.link_bytes_per_s, 0.0)


def exchange_s(model: Model, tokens: ArrayLike, shard: Shard) -> FloatArray:
    """Seconds in which all MoE layers send tokens to the GPUs of their experts and back, by tokens of all ranks.

    Two all-to-alls a layer; a GPU sends its share of `tokens` x experts a token, but what stays with it.
    """
    count = np.asarray(tokens, dtype=float)
    gpus = shard.tensor * shard.data
    latency_s = shard.calibration.collective(gpus).latency_s
    total_s = np.zeros_like(count)
    for layer in model.layers:
        if layer.experts is None:
            continue
        rows = count * layer.experts.per_token / gpus
        sent_bytes = rows * model.hidden_size * model.precision.activation_bytes * (gpus - 1) / gpus
        total_s = total_s + layer.count * 2 * (latency_s + sent_bytes / shard.gpu.link_bytes_per_s)
    return np.where(count > 0, total_s, 0.0)
