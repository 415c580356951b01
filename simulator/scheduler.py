# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""Who runs in the next step: vLLM V1's scheduler.

Running requests first, in order; a decode costs 1 + K tokens of the budget; drafts are truncated at it; the last
running request is preempted (by recompute) when cache blocks run out; waiting requests are admitted first come first
served, and only in a step that preempted nobody; the head of the queue blocks those behind it.
"""

import numpy as np

from simulator.compiled import compiled, inlined
from simulator.state import Batch, Requests


@inlined
def schedule(requests, batch, plan, state):
    """Give every running request its tokens, then admit from the queue; returns how many are in the step."""
    preempted_before = state.preempted
    demand, missing_blocks = _demand(batch, plan, state.running)
    if demand <= plan.max_batched_tokens and missing_blocks <= state.free_blocks and plan.long_prefill_tokens == 0:
        state.free_blocks -= missing_blocks
        _grant(batch, plan, state.running)
        scheduled, budget = state.running, plan.max_batched_tokens - demand
    else:
        scheduled, budget = _ration(requests, batch, plan, state)
    if state.preempted == preempted_before and not plan.alternate_prefill:
        scheduled += _admit(requests, batch, plan, state, budget)
    return scheduled


@compiled
def schedule_prompts(requests, batch, plan, state):
    """A step of prompts alone: chunks under way, then new requests; 0 when decodes may have the step, or share it."""
    if not plan.alternate_prefill:
        return 0
    batch.scheduled[: state.running] = 0
    budget, preempted_before = plan.max_batched_tokens, state.preempted
    scheduled = place = np.int64(0)  # no literal: numba would compile what it is handed to twice
    while place < state.running and budget > 0:
        tokens = min(batch.known[place] - batch.computed[place], budget)
        if tokens > 1:
            wanted = batch.computed[place] + tokens + plan.lookahead_tokens
            if not _allocate(requests, batch, plan, state, place, wanted):
                break
            batch.scheduled[place] = tokens
            budget -= tokens
            scheduled += 1
        place += 1
    if state.preempted > preempted_before:  # admitting it again at once would go on forever
        return scheduled
    return scheduled + _admit(requests, batch, plan, state, budget)


@inlined
def _demand(batch, plan, running):
    """(tokens, cache blocks) that all running requests together ask for; their tokens go to `batch.scheduled`."""
    computed, known, drafts = batch.computed, batch.known, batch.drafts
    scheduled, capacity = batch.scheduled, batch.capacity
    demand = missing_blocks = 0
    for place in range(running):
        wanted = known[place] + drafts[place]
        scheduled[place] = wanted - computed[place]
        demand += wanted - computed[place]
        short = max(wanted + plan.lookahead_tokens - capacity[place], 0)
        missing_blocks += int((short + plan.block_tokens - 1) / plan.block_tokens)
    return demand, missing_blocks


@inlined
def _grant(batch, plan, running):
    """Everybody gets the cache blocks `_demand` counted."""
    known, drafts, capacity = batch.known, batch.drafts, batch.capacity
    for place in range(running):
        short = max(known[place] + drafts[place] + plan.lookahead_tokens - capacity[place], 0)
        capacity[place] += int((short + plan.block_tokens - 1) / plan.block_tokens) * plan.block_tokens


@compiled
def _ration(requests, batch, plan, state):
    """The general case of `schedule`: in running order, cut at the budget, preempting when blocks run out."""
    budget = plan.max_batched_tokens
    place = np.int64(0)
    while place < state.running and budget > 0:
        tokens = batch.known[place] + batch.drafts[place] - batch.computed[place]
        if plan.long_prefill_tokens > 0 and state.running > 1:
            tokens = min(tokens, max(plan.long_prefill_tokens, batch.drafts[place] + 1))
        tokens = min(tokens, budget)
        wanted = batch.computed[place] + tokens + plan.lookahead_tokens
        if not _allocate(requests, batch, plan, state, place, wanted):
            break
        batch.scheduled[place] = tokens
        budget -= tokens
        place += 1
    batch.scheduled[place : state.running] = 0
    return place, budget


@compiled
def _allocate(requests, batch, plan, state, place, wanted):
    """Cache blocks up to `wanted` tokens; preempts from the end of the running order. False: it preempted itself."""
    missing = _blocks(max(wanted - batch.capacity[place], 0), plan)
    while missing > state.free_blocks:
        _preempt(requests, batch, plan, state)
        if place == state.running:
            return False
    state.free_blocks -= missing
    batch.capacity[place] += missing * plan.block_tokens
    return True


@inlined
def _blocks(tokens, plan):
    """Blocks that hold that many tokens."""
    return (tokens + plan.block_tokens - 1) // plan.block_tokens


@inlined
def _preempt(requests, batch, plan, state):
    """The last running request loses its cache and goes to the front of the queue."""
    state.running -= 1
    request = batch.request[state.running]
    requests.preemptions[request] += 1
    requests.preempted_stack[state.preempted] = request
    state.preempted += 1
    leave(requests, batch, plan, state, state.running)


@inlined
def leave(requests, batch, plan, state, place):
    """Give the cache blocks back and write down what happened to the request."""
    state.free_blocks += batch.capacity[place] // plan.block_tokens
    report(requests, batch, place)


@inlined
def report(requests: Requests, batch: Batch, place: int) -> None:
    """Bring `requests` up to date with a running request."""
    request = batch.request[place]
    requests.emitted_tokens[request] = batch.emitted[place]
    requests.rounds[request] = batch.rounds[place]
    requests.drafted_tokens[request] = batch.drafted[place]
    requests.accepted_tokens[request] = batch.accepted[place]


@inlined
def _admit(requests, batch, plan, state, budget):
    """Admit from the head of the queue while tokens, places and blocks last; the head blocks those behind it."""
    admitted = 0
    while budget > 0 and state.running < plan.max_sequences:
        if state.preempted > 0:
            request = requests.preempted_stack[state.preempted - 1]
        elif state.next_admission < state.next_arrival:
            request = state.next_admission
        else:
            break
        known = requests.prompt_tokens[request] + requests.emitted_tokens[request]
        hit = requests.prefix_hit_tokens[request]
        tokens = known - hit
        if plan.long_prefill_tokens > 0 and state.running > 0:
            tokens = min(tokens, plan.long_prefill_tokens)
        if tokens > budget:
            if not plan.chunked_prefill:
                break
            tokens = budget
        reserved = known if plan.reserve_full_prompt else hit + tokens
        wanted = max(reserved, _held_tokens(requests, plan, request, hit + tokens))
        if _blocks(wanted, plan) > state.free_blocks:
            break
        _enter(requests, batch, plan, state, request, tokens)
        budget -= tokens
        admitted += 1
    return admitted


@inlined
def _held_tokens(requests, plan, request, computed):
    """Tokens whose slots a request holds when it is admitted with so many computed."""
    if plan.reserve_full_output:
        whole = requests.prompt_tokens[request] + requests.output_tokens[request]
        return whole + plan.lookahead_tokens + len(plan.verify_rows) - 1
    return computed + plan.lookahead_tokens


@inlined
def _enter(requests, batch, plan, state, request, tokens):
    """The head of the queue joins the batch, last in the running order."""
    if state.preempted > 0:
        state.preempted -= 1
    else:
        requests.admitted_s[request] = state.now_s
        state.next_admission += 1
        skip_refused(requests, state)
    place = state.running
    state.running += 1
    hit = requests.prefix_hit_tokens[request]
    blocks = _blocks(_held_tokens(requests, plan, request, hit + tokens), plan)
    state.free_blocks -= blocks
    batch.capacity[place] = blocks * plan.block_tokens
    batch.request[place] = request
    batch.class_id[place] = requests.class_id[request]
    batch.row[place] = batch.row_now[place] = requests.accept_row[request]
    batch.luck_key[place] = requests.luck_key[request]
    batch.output[place] = requests.output_tokens[request]
    batch.emitted[place] = requests.emitted_tokens[request]
    batch.computed[place] = hit
    batch.known[place] = requests.prompt_tokens[request] + requests.emitted_tokens[request]
    batch.drafts[place] = 0
    batch.scheduled[place] = tokens
    batch.rounds[place] = requests.rounds[request]
    batch.drafted[place] = requests.drafted_tokens[request]
    batch.accepted[place] = requests.accepted_tokens[request]


@inlined
def skip_refused(requests, state):
    """The head of the queue is never a refused request."""
    while state.next_admission < state.next_arrival and requests.refused[state.next_admission]:
        state.next_admission += 1
