"""Replicas that a perfect system would need: work that no scheduler and no router can spare."""

from __future__ import annotations

import numpy as np

from roofline.step_table import StepCostTable
from simulator.workload import Workload


def least_busy_s(
    requests: Workload, *, costs: StepCostTable, max_batched_tokens: int, draft_tokens: int, length: float
) -> float:
    """Seconds of one replica that all requests take at least.

    Every new token of a prompt and every row of a round passes through the weights once, at best in the step with the
    least time per token; every round reads its whole context, which batches do not share. Idle time, queues, ragged
    prompts, attention arithmetic, sampling and drafting are left out, so no schedule takes less. `length` is the
    acceptance length at K = `draft_tokens`; 1 and 0 for plain decoding.
    """
    tokens = np.arange(1, min(max_batched_tokens, len(costs.target.trunk_s) - 1) + 1)
    per_token_s = float(((costs.target.trunk_s[tokens] + costs.step_host_s) / tokens).min())
    rounds = np.maximum(requests.output_tokens - 1, 0) / length
    rows = requests.prompt_tokens - requests.prefix_hit_tokens + rounds * (1 + draft_tokens)
    contexts = requests.prompt_tokens + requests.output_tokens / 2
    read_s = sum(
        float((rounds * (np.minimum(contexts, window) if window else contexts)).sum()) * float(kv_s)
        for window, kv_s in zip(costs.target.window_tokens, costs.target.kv_s_per_token, strict=True)
    )
    return float(rows.sum()) * per_token_s + read_s


def perfect_replicas(busy_s: float, requests: Workload) -> float:
    """Replicas that are never idle while requests arrive; not rounded."""
    span_s = float(requests.arrival_s[-1] - requests.arrival_s[0])
    return busy_s / span_s if span_s > 0 else float("nan")
