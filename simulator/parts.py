# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""A step in parts: micro-batches over pipeline stages, or ranks of attention data parallelism (`roofline.stages`)."""

import numpy as np

from roofline.stages import cycle_s
from simulator.compiled import compiled, inlined

MOST_RANKS = 256
"""Ranks that one batch can be dealt to."""

_cycle_s = compiled(cycle_s)


@inlined
def _scale(sums, share):
    """To that share, in place."""
    for row in range(sums.shape[0]):
        for window in range(sums.shape[1]):
            sums[row, window] *= share


@compiled
def one_part(batch, costs, step, running):
    """What `simulator.pricing.tally` says of the part that decides: a micro-batch, or the busiest rank.

    Scales `batch.sums` to it. Micro-batches are equal, and a prompt may be cut over them; requests are dealt to ranks
    in turn, and the rank with most tokens is waited for by all.
    """
    tokens, decoding, prefilling, emitting, drafts = step
    if costs.ranks > 1:
        return _busiest_rank(batch, costs, step, running)
    parts = min(costs.stages, decoding + max(tokens - decoding - drafts, 0))
    _scale(batch.sums, 1.0 / parts)
    return (
        (tokens + parts - 1) // parts,
        (decoding + parts - 1) // parts,
        (prefilling + parts - 1) // parts,
        (emitting + parts - 1) // parts,
        (drafts + parts - 1) // parts,
    )


@inlined
def _busiest_rank(batch, costs, step, running):
    """The same of the rank with most new tokens; its attention is that of the rank that reads most."""
    held, read = batch.bins[: costs.ranks], batch.bins[costs.ranks : 2 * costs.ranks]
    held[:] = 0
    read[:] = 0
    whole_read = np.int64(0)
    for place in range(running):
        if batch.scheduled[place] > 0:
            rank = batch.request[place] % costs.ranks
            held[rank] += batch.scheduled[place]
            read[rank] += batch.computed[place] + batch.scheduled[place]
            whole_read += batch.computed[place] + batch.scheduled[place]
    busiest = most_read = np.int64(0)
    for rank in range(costs.ranks):
        busiest = rank if held[rank] > held[busiest] else busiest
        most_read = max(most_read, read[rank])
    decoding = prefilling = emitting = drafts = np.int64(0)
    for place in range(running):
        new = batch.scheduled[place]
        if new > 0 and batch.request[place] % costs.ranks == busiest:
            fresh = batch.known[place] - batch.computed[place]
            decoding += int(fresh == 1)
            prefilling += int(fresh != 1)
            emitting += int(new >= fresh)
            drafts += max(new - fresh, 0)
    _scale(batch.sums, most_read / whole_read)
    return held[busiest], decoding, prefilling, emitting, drafts


@compiled
def together(costs, state, step, part, verify_s, draft_s):
    """Seconds of (target pass, drafting) until every part had its turn, from those of one; counts all tokens."""
    state.step_tokens += step[0] - part[0]
    if costs.ranks > 1:
        return verify_s + costs.between_s[step[0]], draft_s
    parts = min(costs.stages, step[1] + max(step[0] - step[1] - step[4], 0))
    rows = part[3] + part[4]
    tail_s = costs.target.logits_s[rows]
    if step[4] > 0:
        tail_s += costs.verify_base_s + costs.verify_per_sequence_s * part[3] + costs.verify_per_row_s * rows
    else:
        tail_s += costs.sample_plain_s[part[3]]
    front_s = verify_s - tail_s + (costs.stages - 1) * costs.between_s[part[0]]
    return _cycle_s((front_s, tail_s, draft_s), (costs.stages, parts))
