# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""The one implementation of a step: schedule, price, accept, retire; compiled, or plain Python with the JIT off.

Scheduler semantics are those of vLLM V1: running requests first, in order; a decode costs 1 + K tokens of the
budget; drafts are truncated at it; the last running request is preempted (by recompute) when cache blocks run out;
waiting requests are admitted first come first served, and only in a step that preempted nobody; K of the next
round follows the number of requests scheduled in this step.
"""

from numba import njit

from simulator.rng import ALWAYS, luck

NO_WINDOW = 1 << 62
DONE, PAUSED, TRACE_FULL = 0, 1, 2
"""Why `advance` came back: nothing left to do; the next step would start at or after `until_s`; grow the trace."""


@njit(cache=True, _nrt=False)
def advance(requests, slots, costs, plan, state, trace, until_s):
    """Run every step that starts before `until_s`; returns DONE, PAUSED or TRACE_FULL."""
    while True:
        _absorb_arrivals(requests, plan, state)
        if state.running == 0 and state.preempted == 0 and state.next_admission == state.next_arrival:
            if state.next_arrival == len(requests.arrival_s):
                return DONE
            if requests.arrival_s[state.next_arrival] >= until_s:
                return PAUSED
            state.now_s = requests.arrival_s[state.next_arrival]
            continue
        if state.now_s >= until_s:
            return PAUSED
        tracing = len(trace.times) > 0
        if tracing and state.trace_rows == len(trace.times):
            return TRACE_FULL
        waiting = state.preempted + state.next_arrival - state.next_admission
        scheduled = _schedule(requests, slots, plan, state)
        assert scheduled > 0
        draft_tokens = plan.draft_by_batch[scheduled]
        start_s = state.now_s
        tally = _tally(slots, costs.windows, state.running)
        verify_s, draft_s, host_s = _price(slots.sums, costs, plan, state, draft_tokens, tally)
        step_s = verify_s + draft_s + host_s
        state.steps += 1
        state.busy_s += step_s
        state.verify_s += verify_s
        state.draft_s += draft_s
        state.host_s += host_s
        state.running_request_s += state.running * step_s
        _pass_time(requests, state, step_s)
        emitted = _emit(requests, slots, plan, state, draft_tokens)
        if tracing:
            trace.times[state.trace_rows] = start_s, verify_s, draft_s, host_s
            tokens, decoding, prefilling, _, drafts = tally
            trace.counts[state.trace_rows] = tokens, decoding, prefilling, drafts, emitted, waiting
            state.trace_rows += 1


@njit(cache=True, _nrt=False)
def _absorb_arrivals(requests, plan, state):
    """Requests whose time has come join the queue; those that can never fit leave at once."""
    while state.next_arrival < len(requests.arrival_s) and requests.arrival_s[state.next_arrival] <= state.now_s:
        request = state.next_arrival
        state.next_arrival += 1
        if requests.refused[request]:
            state.refused += 1
            if plan.concurrency > 0:
                _release_next(requests, plan, state)
    _skip_refused(requests, state)


@njit(cache=True, _nrt=False)
def _skip_refused(requests, state):
    """The head of the queue is never a refused request."""
    while state.next_admission < state.next_arrival and requests.refused[state.next_admission]:
        state.next_admission += 1


@njit(cache=True, _nrt=False)
def _release_next(requests, plan, state):
    """Closed loop: a request left, so the next one of its client arrives now."""
    following = state.finished + state.refused + plan.concurrency - 1
    if following < len(requests.arrival_s):
        requests.arrival_s[following] = state.now_s


@njit(cache=True, _nrt=False)
def _pass_time(requests, state, span_s):
    """Move the clock, integrating the requests in the system; arrivals on the way count from their time."""
    end_s = state.now_s + span_s
    inside = state.next_arrival - state.finished - state.refused
    integral = inside * span_s
    request = state.next_arrival
    while request < len(requests.arrival_s) and requests.arrival_s[request] <= end_s:
        if not requests.refused[request]:
            integral += end_s - requests.arrival_s[request]
        request += 1
    state.system_request_s += integral
    state.now_s = end_s


@njit(cache=True, _nrt=False)
def _schedule(requests, slots, plan, state):
    """Give every running request its tokens, then admit from the queue; returns how many are in the step."""
    order, computed, known, drafts = slots.order, slots.computed, slots.known, slots.drafts
    scheduled_tokens, capacity = slots.scheduled, slots.capacity
    lookahead, longest = plan.lookahead_tokens, plan.long_prefill_tokens
    budget = plan.max_batched_tokens
    preempted_before = state.preempted
    place = 0
    while place < state.running and budget > 0:
        slot = order[place]
        tokens = known[slot] + drafts[slot] - computed[slot]
        if longest > 0 and state.running > 1:
            tokens = min(tokens, max(longest, drafts[slot] + 1))
        tokens = min(tokens, budget)
        wanted = computed[slot] + tokens + lookahead
        if wanted > capacity[slot] and not _allocate(requests, slots, plan, state, slot, wanted):
            break
        scheduled_tokens[slot] = tokens
        budget -= tokens
        place += 1
    scheduled = place
    while place < state.running:
        scheduled_tokens[order[place]] = 0
        place += 1
    if state.preempted == preempted_before:
        scheduled += _admit(requests, slots, plan, state, budget)
    return scheduled


@njit(cache=True, _nrt=False)
def _allocate(requests, slots, plan, state, slot, wanted):
    """Cache blocks up to `wanted` tokens; preempts from the end of the running order. False: it preempted itself."""
    missing = _blocks(wanted - slots.capacity[slot], plan)
    while missing > state.free_blocks:
        victim = slots.order[state.running - 1]
        _preempt(requests, slots, plan, state)
        if victim == slot:
            return False
    state.free_blocks -= missing
    slots.capacity[slot] += missing * plan.block_tokens
    return True


@njit(cache=True, _nrt=False)
def _blocks(tokens, plan):
    """Blocks that hold that many tokens."""
    return (tokens + plan.block_tokens - 1) // plan.block_tokens


@njit(cache=True, _nrt=False)
def _preempt(requests, slots, plan, state):
    """The last running request loses its cache and goes to the front of the queue."""
    state.running -= 1
    slot = slots.order[state.running]
    request = slots.request[slot]
    requests.preemptions[request] += 1
    requests.preempted_stack[state.preempted] = request
    state.preempted += 1
    _free(slots, plan, state, slot)


@njit(cache=True, _nrt=False)
def _free(slots, plan, state, slot):
    """Give a slot and its cache blocks back."""
    state.free_blocks += slots.capacity[slot] // plan.block_tokens
    slots.capacity[slot] = 0
    slots.free[state.free_slots] = slot
    state.free_slots += 1


@njit(cache=True, _nrt=False)
def _admit(requests, slots, plan, state, budget):
    """Admit from the head of the queue while tokens, slots and blocks last; the head blocks those behind it."""
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
        wanted = max(reserved, hit + tokens + plan.lookahead_tokens)
        if _blocks(wanted, plan) > state.free_blocks:
            break
        blocks = _blocks(hit + tokens + plan.lookahead_tokens, plan)
        _enter(requests, slots, plan, state, request, tokens, blocks)
        budget -= tokens
        admitted += 1
    return admitted


@njit(cache=True, _nrt=False)
def _enter(requests, slots, plan, state, request, tokens, blocks):
    """Take the head of the queue into a slot, last in the running order."""
    if state.preempted > 0:
        state.preempted -= 1
    else:
        requests.admitted_s[request] = state.now_s
        state.next_admission += 1
        _skip_refused(requests, state)
    state.free_slots -= 1
    slot = slots.free[state.free_slots]
    slots.order[state.running] = slot
    state.running += 1
    state.free_blocks -= blocks
    slots.request[slot] = request
    slots.computed[slot] = requests.prefix_hit_tokens[request]
    slots.known[slot] = requests.prompt_tokens[request] + requests.emitted_tokens[request]
    slots.drafts[slot] = 0
    slots.scheduled[slot] = tokens
    slots.capacity[slot] = blocks * plan.block_tokens


@njit(cache=True, _nrt=False)
def _group_s(kv_s, pair_s, read, pairs, p_norm):
    """`(m**p + c**p)**(1/p)` over sums by window; 0 is the maximum. `roofline.operators.joined_s`, compiled."""
    memory_s = compute_s = 0.0
    for window in range(len(read)):
        memory_s += kv_s[window] * read[window]
        compute_s += pair_s[window] * pairs[window]
    larger = max(memory_s, compute_s)
    if p_norm == 0.0 or larger == 0.0:
        return larger
    return larger * (1.0 + (min(memory_s, compute_s) / larger) ** p_norm) ** (1.0 / p_norm)


@njit(cache=True, _nrt=False)
def _attention_s(forward, read, pairs, prefill_read, prefill_pairs, decoding, prefilling):
    """Both attention groups of a pass, from sums over sequences by window."""
    total_s = forward.state_s * (decoding + prefilling)
    if decoding > 0:
        total_s += forward.decode_base_s
        total_s += _group_s(forward.kv_s, forward.decode_pair_s, read, pairs, forward.decode_p)
    if prefilling > 0:
        total_s += forward.prefill_base_s
        total_s += _group_s(
            forward.prefill_kv_s, forward.prefill_pair_s, prefill_read, prefill_pairs, forward.prefill_p
        )
    return total_s


@njit(cache=True, _nrt=False)
def _tally(slots, windows, running):
    """Sums over the scheduled step: (tokens, decoding, prefilling, emitting, drafts), and `slots.sums` by window.

    Rows of `sums`: cached tokens read and row-token pairs of decoding sequences, tokens a later draft pass reads,
    then the first two of prefill chunks. `roofline.attention` has the array form of one sequence.
    """
    order, computed, known, scheduled, sums = slots.order, slots.computed, slots.known, slots.scheduled, slots.sums
    tokens = decoding = prefilling = emitting = drafts = 0
    read = pairs = later = prefill_read = prefill_pairs = 0
    first_limited = 1 if windows[0] == 0 else 0
    sums[:] = 0.0
    for place in range(running):
        slot = order[place]
        new = scheduled[slot]
        if new == 0:
            continue
        context = computed[slot]
        fresh = known[slot] - context
        emits = new >= fresh
        group = 0 if fresh == 1 else 3
        seen_pairs = new * context + new * (new + 1) // 2
        tokens += new
        if emits:
            emitting += 1
            drafts += new - fresh
            later += context + new
        if fresh == 1:
            decoding += 1
            read += context + new
            pairs += seen_pairs
        else:
            prefilling += 1
            prefill_read += context + new
            prefill_pairs += seen_pairs
        for index in range(first_limited, len(windows)):
            window = windows[index]
            open_rows = min(max(window - context, 0), new)
            sums[group, index] += min(context + new, window + new - 1)
            sums[group + 1, index] += (
                open_rows * context + open_rows * (open_rows + 1) // 2 + (new - open_rows) * window
            )
            if emits:
                sums[2, index] += min(context + new, window)
    if first_limited == 1:
        sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0] = read, pairs, later, prefill_read, prefill_pairs
    return tokens, decoding, prefilling, emitting, drafts


@njit(cache=True, _nrt=False)
def _price(sums, costs, plan, state, draft_tokens, tally):
    """Seconds of the scheduled step: (target pass with sampling, drafting, host)."""
    tokens, decoding, prefilling, emitting, drafts = tally
    read, pairs, later_read, prefill_read, prefill_pairs = sums[0], sums[1], sums[2], sums[3], sums[4]
    target = costs.target
    rows = emitting + drafts
    verify_s = target.trunk_s[tokens] + target.logits_s[rows]
    verify_s += _attention_s(target, read, pairs, prefill_read, prefill_pairs, decoding, prefilling)
    host_s = costs.step_host_s + costs.host_per_sequence_s * (decoding + prefilling)
    if drafts > 0:
        verify_s += costs.verify_base_s + costs.verify_per_sequence_s * emitting + costs.verify_per_row_s * rows
        host_s += costs.round_host_s
    else:
        verify_s += costs.sample_plain_s[emitting]
    draft_s = 0.0
    if draft_tokens > 0:
        draft_s = costs.draft_chain_s[draft_tokens, emitting]
        if costs.has_draft:
            first_tokens = tokens if costs.draft_reads_whole_step else emitting
            first_tokens += costs.first_pass_extra_tokens[draft_tokens] * emitting
            draft_s += costs.draft.trunk_s[first_tokens]
            draft_s += _attention_s(costs.draft, read, pairs, prefill_read, prefill_pairs, decoding, prefilling)
            later = costs.draft
            later_s = _group_s(later.kv_s, later.decode_pair_s, later_read, later_read, later.decode_p)
            draft_s += (costs.draft_passes[draft_tokens] - 1) * later_s
    elif plan.speculation_loaded:
        host_s += costs.idle_speculation_s
    state.step_tokens += tokens
    state.hbm_bytes += target.trunk_bytes[tokens] + target.logits_bytes[rows]
    state.flops += target.trunk_flops[tokens] + target.logits_flops[rows]
    for window in range(len(costs.windows)):
        state.hbm_bytes += target.kv_bytes[window] * (read[window] + prefill_read[window])
        state.flops += target.pair_flops[window] * pairs[window]
        state.flops += target.prefill_pair_flops[window] * prefill_pairs[window]
    return verify_s, draft_s, host_s


@njit(cache=True, _nrt=False)
def _emit(requests, slots, plan, state, draft_tokens):
    """Accept drafts, emit tokens, retire the finished, propose for the next step; returns tokens emitted."""
    order, computed, known, scheduled = slots.order, slots.computed, slots.known, slots.scheduled
    slot_request, slot_drafts = slots.request, slots.drafts
    emitted_tokens, output_tokens = requests.emitted_tokens, requests.output_tokens
    rounds, drafted, accepted_total = requests.rounds, requests.drafted_tokens, requests.accepted_tokens
    luck_key, match_key, class_id = requests.luck_key, requests.match_key, requests.class_id
    accept_below, match_below = plan.accept_below, plan.match_below
    always_matches = match_below >= ALWAYS
    draft_window = plan.draft_window_tokens if plan.draft_window_tokens > 0 else NO_WINDOW
    kept = emitted_in_step = 0
    for place in range(state.running):
        slot = order[place]
        fresh = known[slot] - computed[slot]
        new = scheduled[slot]
        if new < fresh:
            computed[slot] += new
            order[kept] = slot
            kept += 1
            continue
        request = slot_request[slot]
        drafts = new - fresh
        emitted = emitted_tokens[request]
        accepted = 0
        if drafts > 0:
            of_class = class_id[request]
            key = luck_key[request]
            usable = drafts if known[slot] < draft_window else 0
            agrees = 1
            for position in range(usable):  # no early exit: a mispredicted branch costs more than a hash
                agrees &= luck(key, emitted + position) < accept_below[of_class, position]
                accepted += agrees
            rounds[request] += 1
            drafted[request] += drafts
            accepted_total[request] += accepted
        if emitted == 0:
            requests.first_token_s[request] = state.now_s
        gained = min(1 + accepted, output_tokens[request] - emitted)
        emitted += gained
        emitted_in_step += gained
        emitted_tokens[request] = emitted
        if emitted == output_tokens[request]:
            _retire(requests, slots, plan, state, slot)
            continue
        computed[slot] = known[slot] + accepted
        known[slot] += 1 + accepted
        proposes = always_matches or luck(match_key[request], emitted) < match_below
        slot_drafts[slot] = draft_tokens if proposes else 0
        order[kept] = slot
        kept += 1
    state.running = kept
    return emitted_in_step


@njit(cache=True, _nrt=False)
def _retire(requests, slots, plan, state, slot):
    """A request got its last token."""
    requests.finished_s[slots.request[slot]] = state.now_s
    state.finished += 1
    _free(slots, plan, state, slot)
    if plan.concurrency > 0:
        _release_next(requests, plan, state)
