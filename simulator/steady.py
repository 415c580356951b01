# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""Plain decoding between two events: steps that differ in nothing but one token more per sequence.

Scheduling, accepting and retiring is done once for all of them; each is still priced, and its time added, on its own,
so that the results are the same bytes as one step at a time.
"""

import numpy as np

from simulator.compiled import inlined
from simulator.control import STATIC


@inlined
def steady_steps(batch, plan, state, costs, scheduled):
    """Steps from the scheduled one on that can be taken together, at least 1; only the last may finish a request.

    All sequences decode without drafts, nobody joins (the queue is empty, or its head found no place in this very
    schedule), and the cache holds the tokens without preempting.
    """
    running = state.running
    if plan.control != STATIC or plan.draft_by_batch[scheduled] > 0 or plan.alternate_prefill:
        return np.int64(1)
    if costs.stages * costs.ranks > 1:
        return np.int64(1)
    if scheduled < running or state.preempted > 0 or costs.windows[len(costs.windows) - 1] > 0:
        return np.int64(1)
    steps = batch.output[0] - batch.emitted[0]
    started = np.int64(1)
    for place in range(running):  # no branches: the loop is vectorised
        fresh = batch.known[place] - batch.computed[place]
        decoding = int(fresh == 1) & int(batch.scheduled[place] == 1) & int(batch.emitted[place] > 0)
        started &= decoding
        steps = min(steps, batch.output[place] - batch.emitted[place])
    room = (state.free_blocks // running - 1) * plan.block_tokens
    return max(np.int64(1), min(steps, room) * started)


@inlined
def read_on(batch, running):
    """Sums of `simulator.pricing.tally` in the step after: every sequence is one token longer."""
    batch.sums[0, 0] += running
    batch.sums[1, 0] += running
    batch.sums[2, 0] += running


@inlined
def skip_steps(batch, plan, state, steps):
    """Bring every sequence to the last of `steps` steps, which has yet to be emitted."""
    for place in range(state.running):
        batch.emitted[place] += steps - 1
        batch.computed[place] += steps - 1
        batch.known[place] += steps - 1
        short = max(batch.known[place] + plan.lookahead_tokens - batch.capacity[place], 0)
        blocks = (short + plan.block_tokens - 1) // plan.block_tokens
        batch.capacity[place] += blocks * plan.block_tokens
        state.free_blocks -= blocks
