"""Array state of one replica, as the compiled loop reads and writes it.

Named tuples of arrays (structure of arrays) and one record of scalars; the same objects serve the loop with the
JIT on and off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.step_table import ForwardCosts, StepCostTable
from simulator.limits import EngineLimits

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
WordArray = NDArray[np.uint64]

SURVIVAL_BINS = 512
"""Resolution of the adaptive verification budget."""

STATE_DTYPE = np.dtype(
    [
        ("now_s", "f8"),
        ("free_blocks", "i8"),
        ("next_arrival", "i8"),  # first request that has not arrived
        ("next_admission", "i8"),  # first arrived request that was never admitted
        ("running", "i8"),
        ("preempted", "i8"),  # height of the stack of preempted requests
        ("finished", "i8"),
        ("refused", "i8"),
        ("steps", "i8"),
        ("trace_rows", "i8"),
        ("busy_s", "f8"),
        ("verify_s", "f8"),
        ("draft_s", "f8"),
        ("host_s", "f8"),
        ("system_request_s", "f8"),  # integral of requests in the system over time
        ("running_request_s", "f8"),  # integral of running requests over busy time
        ("hbm_bytes", "f8"),
        ("flops", "f8"),
        ("step_tokens", "i8"),
        ("draft_tokens", "i8"),  # K of the last step
        ("prompt_steps", "f8"),  # moving averages of a controller: share of steps with prompts,
        ("prompt_tokens", "f8"),  # prompt tokens in those,
        ("emitted_per_step", "f8"),  # tokens emitted in a step
        ("least_survival", "i8"),  # adaptive budget: drafts below this bin of survival are not verified
    ],
    align=True,
)


class Requests(NamedTuple):
    """Per request, `(n,)` each: given first, then what happens to it (NaN: not yet)."""

    arrival_s: FloatArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    prefix_hit_tokens: IntArray
    class_id: IntArray
    accept_row: IntArray
    luck_key: WordArray
    match_key: WordArray
    admitted_s: FloatArray
    first_token_s: FloatArray
    finished_s: FloatArray
    emitted_tokens: IntArray
    rounds: IntArray
    drafted_tokens: IntArray
    accepted_tokens: IntArray
    preemptions: IntArray
    refused: NDArray[np.bool_]
    preempted_stack: IntArray


class Batch(NamedTuple):
    """Running requests in the scheduler's order, `(max_sequences,)` each; only the first `state.running` count.

    Kept dense, so that the passes over them are straight array loops. `computed`: tokens in the cache; `known`:
    prompt and emitted tokens; `drafts`: proposed for the next step; `scheduled`: new tokens in the step under way;
    `capacity`: tokens its cache blocks hold; `agreed`, `agreeing`, `below`, `gained`: scratch of a step. `rounds`,
    `drafted`, `accepted` go to `Requests` when the request leaves the batch. `row`: first row of its acceptance;
    `row_now`: the row of the round under way. `sums`: `(5, W)`, `bins`: `(SURVIVAL_BINS + 1,)`, scratch of a step.
    """

    request: IntArray
    class_id: IntArray
    row: IntArray
    row_now: IntArray
    luck_key: WordArray
    output: IntArray
    emitted: IntArray
    computed: IntArray
    known: IntArray
    drafts: IntArray
    scheduled: IntArray
    capacity: IntArray
    agreed: IntArray
    agreeing: IntArray
    below: WordArray
    gained: IntArray
    rounds: IntArray
    drafted: IntArray
    accepted: IntArray
    bins: IntArray
    sums: FloatArray


class Forward(NamedTuple):
    """`roofline.step_table.ForwardCosts` aligned to the windows of target and draft together."""

    trunk_s: FloatArray
    logits_s: FloatArray
    kv_s: FloatArray
    decode_pair_s: FloatArray
    prefill_kv_s: FloatArray
    prefill_pair_s: FloatArray
    state_s: float
    decode_base_s: float
    prefill_base_s: float
    decode_p: float
    prefill_p: float
    decode_tile_rows: float
    trunk_bytes: FloatArray
    trunk_flops: FloatArray
    logits_bytes: FloatArray
    logits_flops: FloatArray
    kv_bytes: FloatArray
    pair_flops: FloatArray
    prefill_pair_flops: FloatArray


class Costs(NamedTuple):
    """`StepCostTable` as the loop reads it. `windows`: `(W,)`, 0 is unlimited."""

    windows: IntArray
    target: Forward
    draft: Forward
    has_draft: bool
    sample_plain_s: FloatArray
    verify_base_s: float
    verify_per_sequence_s: float
    verify_per_row_s: float
    step_host_s: float
    host_per_sequence_s: float
    round_host_s: float
    idle_speculation_s: float
    draft_chain_s: FloatArray
    draft_passes: IntArray
    draft_reads_whole_step: bool
    first_pass_extra_tokens: IntArray
    draft_pass_rows: IntArray
    wide_draft: bool
    draft_leaves_out_rejected: bool
    prompt_trunk_s: float
    prompt_draft_s: float
    mask_rows: IntArray
    stages: int
    ranks: int
    between_s: FloatArray


class Plan(NamedTuple):
    """What the scheduler may do and how luck is judged.

    `draft_by_batch`: K by scheduled requests. `accept_below`: `(rows, K, ranks)` luck thresholds: one of the first
    candidates of a position is the target's token, see `simulator.acceptance_table`; `round_levels` of them are drawn
    anew every round (1: none). `propose_below`: `(K,)` thresholds of a round that has at least so many drafts.
    `tree_child`: `(shapes, N + 1, ranks)` children, 0 is none, and `tree_nodes` `(shapes,)`, where trees are drafted:
    one, or one a level. `switch_s`: what a change of K costs. `control` and what follows: see `simulator.control`.
    """

    max_batched_tokens: int
    max_sequences: int
    block_tokens: int
    lookahead_tokens: int
    max_context_tokens: int
    draft_window_tokens: int
    long_prefill_tokens: int
    chunked_prefill: bool
    reserve_full_prompt: bool
    reserve_full_output: bool
    alternate_prefill: bool
    pause_on_finish: bool
    concurrency: int
    speculation_loaded: bool
    draft_by_batch: IntArray
    accept_below: WordArray
    varied: bool
    round_levels: int
    bands: int
    band_tokens: int
    propose_below: WordArray
    tree: bool
    tree_child: IntArray
    tree_nodes: IntArray
    switch_s: float
    control: int
    gain_tokens: FloatArray
    verify_rows: FloatArray
    survival: FloatArray
    least_gain_fraction: float
    slot_batch: IntArray
    slot_drafts: IntArray
    slot_sizes: IntArray
    slot_rule: FloatArray
    slot_average: FloatArray
    slot_index: IntArray
    slot_rounds: IntArray


class Trace(NamedTuple):
    """Optional rows of steps; `times` `(rows, 4)`: start, verify, draft, host; `counts` `(rows, 6)`.

    Columns of `counts`: new tokens, decoding sequences, prefilling sequences, drafts verified, tokens emitted,
    requests waiting.
    """

    times: FloatArray
    counts: IntArray


def new_state(limits: EngineLimits, start_s: float = 0.0) -> np.record:
    """An empty replica."""
    state = np.zeros(1, dtype=STATE_DTYPE).view(np.recarray)[0]
    state.now_s = start_s
    state.free_blocks = limits.kv_blocks
    state.draft_tokens = -1
    return state


def new_batch(max_sequences: int, windows: int) -> Batch:
    """An empty batch."""
    columns = {
        name: np.zeros(max_sequences, dtype=np.uint64 if name in ("luck_key", "below") else np.int64)
        for name in Batch._fields
        if name not in ("sums", "bins")
    }
    bins = np.zeros(SURVIVAL_BINS + 1, dtype=np.int64)
    return Batch(**columns, bins=bins, sums=np.zeros((5, windows)))  # type: ignore[arg-type] # the keys are unsigned


def loop_costs(table: StepCostTable) -> Costs:
    """The table with target and draft attention on one list of windows."""
    parts = [table.target] + ([table.draft] if table.draft is not None else [])
    windows = np.unique(np.concatenate([part.window_tokens for part in parts])).astype(np.int64)
    draft = _aligned(table.draft, windows) if table.draft is not None else _free_forward(len(windows))
    return Costs(
        windows=windows,
        target=_aligned(table.target, windows),
        draft=draft,
        has_draft=table.draft is not None,
        sample_plain_s=table.sample_plain_s,
        verify_base_s=table.verify_base_s,
        verify_per_sequence_s=table.verify_per_sequence_s,
        verify_per_row_s=table.verify_per_row_s,
        step_host_s=table.step_host_s,
        host_per_sequence_s=table.host_per_sequence_s,
        round_host_s=table.round_host_s,
        idle_speculation_s=table.idle_speculation_s,
        draft_chain_s=table.draft_chain_s,
        draft_passes=table.draft_passes,
        draft_reads_whole_step=table.draft_reads_whole_step,
        first_pass_extra_tokens=table.first_pass_extra_tokens,
        draft_pass_rows=np.ones((1, 1), dtype=np.int64) if table.draft_pass_rows is None else table.draft_pass_rows,
        wide_draft=table.draft_pass_rows is not None,
        draft_leaves_out_rejected=table.draft_leaves_out_rejected,
        prompt_trunk_s=table.prompt_trunk_s,
        prompt_draft_s=table.prompt_draft_s,
        mask_rows=np.zeros(table.max_draft_tokens + 1, dtype=np.int64) if table.mask_rows is None else table.mask_rows,
        stages=table.stages,
        ranks=table.ranks,
        between_s=np.zeros(1) if table.between_s is None else table.between_s,
    )


def _aligned(costs: ForwardCosts, windows: IntArray) -> Forward:
    place = np.searchsorted(windows, costs.window_tokens)

    def spread(values: FloatArray) -> FloatArray:
        spread_values = np.zeros(len(windows))
        spread_values[place] = values
        return spread_values

    return Forward(
        trunk_s=costs.trunk_s,
        logits_s=costs.logits_s,
        kv_s=spread(costs.kv_s_per_token),
        decode_pair_s=spread(costs.decode_s_per_pair),
        prefill_kv_s=spread(costs.prefill_kv_s_per_token),
        prefill_pair_s=spread(costs.prefill_s_per_pair),
        state_s=float(costs.state_s_per_sequence),
        decode_base_s=float(costs.decode_base_s),
        prefill_base_s=float(costs.prefill_base_s),
        decode_p=float(costs.decode_p),
        prefill_p=float(costs.prefill_p),
        decode_tile_rows=float(costs.decode_tile_rows),
        trunk_bytes=costs.trunk_bytes,
        trunk_flops=costs.trunk_flops,
        logits_bytes=costs.logits_bytes,
        logits_flops=costs.logits_flops,
        kv_bytes=spread(costs.kv_bytes_per_token),
        pair_flops=spread(costs.flops_per_pair),
        prefill_pair_flops=spread(costs.prefill_flops_per_pair),
    )


def _free_forward(windows: int) -> Forward:
    """Stands where no draft model runs; never read, but the compiled loop needs the shape."""
    nothing, free = np.zeros(1), np.zeros(windows)
    return Forward(
        nothing, nothing, free, free, free, free, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0,
        nothing, nothing, nothing, nothing, free, free, free,
    )  # fmt: skip
