# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""The one implementation of a step: schedule, price, accept, retire; compiled, or plain Python with the JIT off."""

import numpy as np

from simulator.compiled import compiled, digest_of, inlined
from simulator.control import BUDGET, STATIC, controlled_draft_tokens, keep_likely_drafts, round_rows
from simulator.parts import one_part, together
from simulator.pricing import price, tally
from simulator.rng import ALWAYS, luck
from simulator.scheduler import leave, schedule, schedule_prompts, skip_refused
from simulator.state import Batch, Costs, Plan, Requests, Trace
from simulator.steady import read_on, skip_steps, steady_steps

LOOP_FILES = (
    "compiled.py", "control.py", "parts.py", "pricing.py", "rng.py", "scheduler.py", "state.py", "steady.py",
    "step_loop.py", "../roofline/stages.py",
)  # fmt: skip
NO_WINDOW = 1 << 62
DONE, PAUSED, TRACE_FULL = 0, 1, 2
"""Why `advance` came back: nothing left to do; the next step would start at or after `until_s`; grow the trace."""


@inlined
def _somebody_came(requests, state):
    """Whether a request arrived since the queue was last looked at."""
    return state.next_arrival < len(requests.arrival_s) and requests.arrival_s[state.next_arrival] <= state.now_s


@inlined
def _absorb_arrivals(requests, plan, state):
    """Requests whose time has come join the queue; those that can never fit leave at once."""
    while _somebody_came(requests, state):
        request = state.next_arrival
        state.next_arrival += 1
        if requests.refused[request]:
            state.refused += 1
            if plan.concurrency > 0:
                _release_next(requests, plan, state)
    skip_refused(requests, state)


@compiled
def _release_next(requests, plan, state):
    """Closed loop: a request left, so the next one of its client arrives now."""
    following = state.finished + state.refused + plan.concurrency - 1
    if following < len(requests.arrival_s):
        requests.arrival_s[following] = state.now_s


@inlined
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


@compiled
def _accept_varied(batch, plan, state):
    """The general case of `_accept`: trees, and acceptance that changes from round to round."""
    if plan.tree:  # the row of a tree is known since it was drafted
        _accept_paths(batch, plan, state.running)
    else:
        round_rows(batch, plan, state.running)
        _accept(batch, plan, state.running, batch.row_now)


@inlined
def _accept(batch, plan, running, rows):
    """How many drafts of each sequence agree with the target, into `batch.agreed`; the first that fails ends it."""
    computed, known, scheduled, emitted = batch.computed, batch.known, batch.scheduled, batch.emitted
    agreed, agreeing, below, luck_key = batch.agreed, batch.agreeing, batch.below, batch.luck_key
    window = plan.draft_window_tokens if plan.draft_window_tokens > 0 else NO_WINDOW
    longest = 0
    for place in range(running):
        agreed[place] = 0
        agreeing[place] = int(known[place] < window)
        longest = max(longest, scheduled[place] - known[place] + computed[place])
    for position in range(longest):
        for place in range(running):
            below[place] = plan.accept_below[rows[place], position, 0]
        for place in range(running):
            drafted = scheduled[place] - known[place] + computed[place]
            lucky = luck(luck_key[place], emitted[place] + position) < below[place]
            agreeing[place] &= int(position < drafted) & int(lucky)
            agreed[place] += agreeing[place]


@inlined
def _accept_paths(batch, plan, running):
    """From the root down: the candidate that the luck of its position falls on is the next node; none ends the path.

    At most one candidate is the target's token; the first has the luck of a chain's draft.
    """
    window = plan.draft_window_tokens if plan.draft_window_tokens > 0 else NO_WINDOW
    for place in range(running):
        drafted = batch.scheduled[place] - batch.known[place] + batch.computed[place]
        row = batch.row_now[place] if plan.varied else batch.row[place]
        shape = min(row // plan.bands, len(plan.tree_nodes) - 1)
        node = depth = 0
        searching = drafted > 0 and batch.known[place] < window
        while searching:
            searching = False
            if plan.tree_child[shape, node, 0] == 0:
                break
            drawn = luck(batch.luck_key[place], batch.emitted[place] + depth)
            for rank in range(plan.tree_child.shape[2]):
                child = plan.tree_child[shape, node, rank]
                if child == 0 or child > drafted:
                    break
                if drawn < plan.accept_below[row, depth, rank]:
                    node, depth, searching = child, depth + 1, True
                    break
        batch.agreed[place] = depth


@inlined
def _rejected(batch, running):
    """Drafts of the step that did not agree."""
    rejected = 0
    for place in range(running):
        rejected += max(batch.scheduled[place] - batch.known[place] + batch.computed[place], 0) - batch.agreed[place]
    return rejected


@inlined
def _emit(requests, batch, state, draft_tokens):
    """Emit tokens, propose for the next step; returns (tokens emitted, finished requests)."""
    emitted_in_step, first, last = _grow(batch, state.running, draft_tokens)
    if first > 0:
        for place in range(state.running):
            if batch.gained[place] > 0 and batch.emitted[place] == batch.gained[place]:
                requests.first_token_s[batch.request[place]] = state.now_s
    return emitted_in_step, last


@compiled
def _vary_drafts(requests, batch, plan, state, draft_tokens):
    """The general case of proposing: drafts that depend on a match, a tree or a verification budget."""
    if draft_tokens > 0 and plan.propose_below[draft_tokens - 1] < ALWAYS:
        _find_matches(requests, batch, plan, state.running)
    if draft_tokens > 0 and (plan.tree or plan.control == BUDGET):
        _trim(batch, plan, state)


@inlined
def _find_matches(requests, batch, plan, running):
    """Prompt lookup: a sequence gets as many drafts as its match is long, often none."""
    for place in range(running):
        chance = luck(requests.match_key[batch.request[place]], batch.emitted[place])
        found = 0
        while found < batch.drafts[place] and chance < plan.propose_below[found]:
            found += 1
        batch.drafts[place] = found


@inlined
def _trim(batch, plan, state):
    """Ragged rounds: no more drafts than the sequence's tree has nodes, or than the verification budget takes."""
    round_rows(batch, plan, state.running)
    if plan.tree:
        for place in range(state.running):
            shape = min(batch.row_now[place] // plan.bands, len(plan.tree_nodes) - 1)
            batch.drafts[place] = min(batch.drafts[place], plan.tree_nodes[shape])
    if plan.control == BUDGET:
        keep_likely_drafts(batch, plan, state)


@inlined
def _grow(batch, running, draft_tokens):
    """Advance every sequence by what it computed; returns (tokens emitted, first tokens, finished requests)."""
    computed, known, scheduled, drafts = batch.computed, batch.known, batch.scheduled, batch.drafts
    emitted, output, agreed, gained = batch.emitted, batch.output, batch.agreed, batch.gained
    emitted_in_step = first = last = 0
    for place in range(running):  # no branches: the loop is vectorised
        verified = scheduled[place] - known[place] + computed[place]
        emits = int(verified >= 0)
        gain = emits * min(1 + agreed[place], output[place] - emitted[place])
        first += emits * int(emitted[place] == 0)
        last += emits * int(emitted[place] + gain == output[place])
        emitted_in_step += gain
        gained[place] = gain
        emitted[place] += gain
        computed[place] = emits * (known[place] + agreed[place]) + (1 - emits) * (computed[place] + scheduled[place])
        known[place] += emits * (1 + agreed[place])
        drafts[place] = emits * draft_tokens + (1 - emits) * drafts[place]
        batch.rounds[place] += int(verified > 0)
        batch.drafted[place] += max(verified, 0)
        batch.accepted[place] += agreed[place]
    return emitted_in_step, first, last


@inlined
def _retire(requests, batch, plan, state):
    """Requests that got their last token leave; those behind move up."""
    kept = 0
    for place in range(state.running):
        if batch.emitted[place] == batch.output[place]:
            requests.finished_s[batch.request[place]] = state.now_s
            state.finished += 1
            leave(requests, batch, plan, state, place)
            if plan.concurrency > 0:
                _release_next(requests, plan, state)
            continue
        if kept < place:
            _move(batch, place, kept)
        kept += 1
    state.running = kept


@inlined
def _move(batch, place, target):
    """Close the gap that a finished request left in the running order."""
    batch.request[target] = batch.request[place]
    batch.class_id[target] = batch.class_id[place]
    batch.row[target] = batch.row[place]
    batch.row_now[target] = batch.row_now[place]
    batch.luck_key[target] = batch.luck_key[place]
    batch.output[target] = batch.output[place]
    batch.emitted[target] = batch.emitted[place]
    batch.computed[target] = batch.computed[place]
    batch.known[target] = batch.known[place]
    batch.drafts[target] = batch.drafts[place]
    batch.capacity[target] = batch.capacity[place]
    batch.rounds[target] = batch.rounds[place]
    batch.drafted[target] = batch.drafted[place]
    batch.accepted[target] = batch.accepted[place]


def is_plain(plan: Plan) -> bool:
    """Whether `advance_plainly` serves the plan: chains of drafts, K by batch size, nothing drawn but acceptance."""
    drafts = len(plan.verify_rows) > 1
    matches = drafts and int(plan.propose_below.min()) < ALWAYS
    special = plan.tree or plan.varied or plan.alternate_prefill or plan.control != STATIC
    return not (matches or special)


def _compiled(sources: str, general: bool):
    """`advance` for every plan, or without the parts that only some plans need: those take most of the compile time."""

    @compiled
    def advance(
        requests: Requests, batch: Batch, costs: Costs, plan: Plan, state: np.record, trace: Trace, until_s: float
    ) -> int:
        """Run every step that starts before `until_s`; returns DONE, PAUSED or TRACE_FULL."""
        assert sources
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
            waiting = state.next_arrival - state.refused - state.finished - state.running
            scheduled = np.int64(0)
            if general:  # a constant: numba drops the branch before it compiles what it calls
                scheduled = schedule_prompts(requests, batch, plan, state)
            if scheduled == 0:
                scheduled = schedule(requests, batch, plan, state)
            assert scheduled > 0
            start_s = state.now_s
            step = tally(batch, costs.windows, state.running)
            draft_tokens = plan.draft_by_batch[scheduled]
            if general:
                if plan.varied or plan.tree:
                    _accept_varied(batch, plan, state)
                else:
                    _accept(batch, plan, state.running, batch.row)
                if plan.control != STATIC:
                    draft_tokens = controlled_draft_tokens(batch, costs, plan, state, step, scheduled)
            else:
                _accept(batch, plan, state.running, batch.row)
            rejected = _rejected(batch, state.running) if costs.draft_leaves_out_rejected else 0
            part = step
            if costs.stages * costs.ranks > 1:
                part = one_part(batch, costs, step, state.running)
            steps, done = np.int64(1), np.int64(0)
            if not tracing:
                steps = steady_steps(batch, plan, state, costs, scheduled)
            while done < steps:
                verify_s, draft_s, host_s = price(batch.sums, costs, plan, state, draft_tokens, part, rejected)
                if costs.stages * costs.ranks > 1:
                    verify_s, draft_s = together(costs, state, step, part, verify_s, draft_s)
                if state.draft_tokens >= 0 and draft_tokens != state.draft_tokens:
                    host_s += plan.switch_s
                state.draft_tokens = draft_tokens
                step_s = verify_s + draft_s + host_s
                state.steps += 1
                state.busy_s += step_s
                state.verify_s += verify_s
                state.draft_s += draft_s
                state.host_s += host_s
                state.running_request_s += state.running * step_s
                _pass_time(requests, state, step_s)
                done += 1
                if state.now_s >= until_s or _somebody_came(requests, state):
                    break
                read_on(batch, state.running)
            if done > 1:
                skip_steps(batch, plan, state, done)
            finished_before = state.finished
            emitted, last = _emit(requests, batch, state, draft_tokens)
            if general:
                _vary_drafts(requests, batch, plan, state, draft_tokens)
            if last > 0:
                _retire(requests, batch, plan, state)
            if tracing:
                trace.times[state.trace_rows] = start_s, verify_s, draft_s, host_s
                tokens, decoding, prefilling, _, drafts = step
                trace.counts[state.trace_rows] = tokens, decoding, prefilling, drafts, emitted, waiting
                state.trace_rows += 1
            if plan.pause_on_finish and state.finished > finished_before:
                return PAUSED

    return advance


advance = _compiled(digest_of(*LOOP_FILES), general=True)
advance_plainly = _compiled(digest_of(*LOOP_FILES), general=False)
"""For plans without trees, matches, varying acceptance, controllers or alternating prompts: same steps, same bytes."""
