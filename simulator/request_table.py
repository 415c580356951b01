"""The table of requests: made before a run, read after it, by one replica or a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.step_table import StepCostTable
from simulator.limits import EngineLimits
from simulator.plan import Speculation, step_plan
from simulator.result import Counts, Result, Totals
from simulator.rng import luck_keys
from simulator.state import Plan, Requests
from simulator.workload import Workload

IntArray = NDArray[np.int64]

_COLUMNS = (
    "admitted_s", "first_token_s", "finished_s", "prompt_tokens", "output_tokens", "emitted_tokens",
    "rounds", "drafted_tokens", "accepted_tokens", "preemptions", "class_id", "refused",
)  # fmt: skip


def prepared(
    workload: Workload, *, costs: StepCostTable, limits: EngineLimits, speculation: Speculation, seed: int
) -> tuple[Plan, Requests]:
    """What the loop may do, and every request with its luck, which is a matter of seed and place in the workload."""
    plan, chances = step_plan(workload, costs=costs, limits=limits, speculation=speculation)
    accept_row = workload.class_id * 0 if chances is None else chances.request_rows(workload.class_id, seed)
    return plan, _requests(workload, limits, plan, seed)._replace(accept_row=accept_row)


def outcome(
    requests: Requests, state: np.record, counts: Counts, *, table: StepCostTable, seed: int, open_loop: bool
) -> Result:
    """Everything so far, as immutable arrays; `state` holds the sums of all replicas."""
    columns: dict[str, Any] = {name: frozen(getattr(requests, name)) for name in _COLUMNS}
    return Result(
        arrival_s=frozen(np.where(np.isfinite(requests.arrival_s), requests.arrival_s, np.nan)),
        **columns,
        counts=counts,
        totals=_totals(state, table),
        end_s=float(state.now_s),
        open_loop=open_loop,
        seed=seed,
        label=table.label,
    )


def never_fits(whole_tokens: IntArray, limits: EngineLimits, plan: Plan) -> NDArray[np.bool_]:
    """Requests that no step could ever hold, by prompt and output together."""
    largest = len(plan.verify_rows) - 1
    refused = whole_tokens + limits.lookahead_tokens + largest > limits.kv_blocks * limits.block_tokens
    if limits.max_context_tokens:
        refused |= whole_tokens > limits.max_context_tokens
    if not limits.chunked_prefill:
        refused |= whole_tokens > limits.max_batched_tokens
    return refused


def _requests(workload: Workload, limits: EngineLimits, plan: Plan, seed: int) -> Requests:
    count = len(workload)
    refused = never_fits(workload.prompt_tokens + workload.output_tokens, limits, plan)
    arrival_s = workload.arrival_s.copy()
    if workload.concurrency is not None:
        arrival_s[:] = np.inf
        arrival_s[: workload.concurrency] = 0.0
    return Requests(
        arrival_s=arrival_s,
        prompt_tokens=workload.prompt_tokens.copy(),
        output_tokens=workload.output_tokens.copy(),
        prefix_hit_tokens=workload.prefix_hit_tokens.copy(),
        class_id=workload.class_id.copy(),
        accept_row=workload.class_id.copy(),
        luck_key=luck_keys(seed, "acceptance", count),
        match_key=luck_keys(seed, "proposal", count),
        admitted_s=np.full(count, np.nan),
        first_token_s=np.full(count, np.nan),
        finished_s=np.full(count, np.nan),
        emitted_tokens=np.zeros(count, dtype=np.int64),
        rounds=np.zeros(count, dtype=np.int64),
        drafted_tokens=np.zeros(count, dtype=np.int64),
        accepted_tokens=np.zeros(count, dtype=np.int64),
        preemptions=np.zeros(count, dtype=np.int64),
        refused=refused,
        preempted_stack=np.zeros(limits.max_sequences + 1, dtype=np.int64),
    )


def _totals(state: np.record, table: StepCostTable) -> Totals:
    return Totals(
        steps=int(state.steps),
        step_tokens=int(state.step_tokens),
        busy_s=float(state.busy_s),
        verify_s=float(state.verify_s),
        draft_s=float(state.draft_s),
        host_s=float(state.host_s),
        system_request_s=float(state.system_request_s),
        running_request_s=float(state.running_request_s),
        hbm_bytes=float(state.hbm_bytes),
        flops=float(state.flops),
        peak_hbm_bytes_per_s=table.peak_hbm_bytes_per_s,
        peak_flops_per_s=table.peak_flops_per_s,
    )


def frozen(values: np.ndarray) -> np.ndarray:
    """A read-only copy."""
    copy = np.array(values)
    copy.flags.writeable = False
    return copy
