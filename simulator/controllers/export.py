"""A schedule by batch size in the words of the engines."""

from __future__ import annotations

from typing import Any

from simulator.policy import DraftPolicy


def ranges_of(policy: DraftPolicy, max_sequences: int) -> tuple[tuple[int, int, int], ...]:
    """Inclusive (first batch, last batch, K) rows of a policy."""
    table = policy.by_batch(max_sequences)
    starts = [1, *(batch for batch in range(2, max_sequences + 1) if table[batch] != table[batch - 1])]
    ends = [*(start - 1 for start in starts[1:]), max_sequences]
    return tuple((start, end, int(table[start])) for start, end in zip(starts, ends, strict=True))


def vllm_config(policy: DraftPolicy, max_sequences: int) -> dict[str, Any]:
    """Keys of vLLM's `--speculative-config`."""
    rows = ranges_of(policy, max_sequences)
    return {
        "num_speculative_tokens": max(1, *(row[2] for row in rows)),
        "num_speculative_tokens_per_batch_size": [list(row) for row in rows],
    }


def sglang_config(policy: DraftPolicy, max_sequences: int) -> dict[str, Any]:
    """SGLang's `--speculative-adaptive-config` with one candidate a slot, so that K follows the batch alone."""
    return {str(start): {"candidate_steps": [drafts]} for start, _, drafts in ranges_of(policy, max_sequences)}
