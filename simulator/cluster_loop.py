# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and records of `simulator.state` and `simulator.cluster_state`.
"""Requests to replicas in order of arrival; each replica runs on its own between the moments somebody looks at it.

A replica changes nobody else, so it may lag behind the clock: it is brought up to date when a router has to know how
many requests it holds, and only if one of them can have finished since.
"""

import numpy as np

from simulator.cluster_state import NOBODY, SERVING, Cluster, Rule
from simulator.compiled import compiled, digest_of, inlined
from simulator.control import CLOSED_LOOP
from simulator.prefix_cache import matching_tokens, use_blocks
from simulator.scheduler import report
from simulator.state import Batch, Costs, Plan, Requests, Trace
from simulator.step_loop import LOOP_FILES, advance, advance_plainly

ROUND_ROBIN, LEAST_OUTSTANDING, PREFIX_AWARE, OWN = 0, 1, 2, 3
"""`Rule.kind`; `OWN` is chosen outside."""
ROUTE, HAND_IN, CATCH_UP = 0, 1, 2
"""What `run` is asked to do."""
ALL_ROUTED, NOT_YET, FULL = 0, 1, 2
"""Why it came back: no request is left; done up to the time that was asked for; a replica's arrays must grow."""

CLUSTER_FILES = ("cluster_loop.py", "cluster_state.py", "prefix_cache.py")


@inlined
def _requests_of(held, row):
    return Requests(
        held.arrival_s[row],
        held.prompt_tokens[row],
        held.output_tokens[row],
        held.prefix_hit_tokens[row],
        held.class_id[row],
        held.accept_row[row],
        held.luck_key[row],
        held.match_key[row],
        held.admitted_s[row],
        held.first_token_s[row],
        held.finished_s[row],
        held.emitted_tokens[row],
        held.rounds[row],
        held.drafted_tokens[row],
        held.accepted_tokens[row],
        held.preemptions[row],
        held.refused[row],
        held.preempted_stack[row],
    )


@inlined
def _batch_of(batches, row):
    return Batch(
        batches.request[row],
        batches.class_id[row],
        batches.row[row],
        batches.row_now[row],
        batches.luck_key[row],
        batches.output[row],
        batches.emitted[row],
        batches.computed[row],
        batches.known[row],
        batches.drafts[row],
        batches.scheduled[row],
        batches.capacity[row],
        batches.agreed[row],
        batches.agreeing[row],
        batches.below[row],
        batches.gained[row],
        batches.rounds[row],
        batches.drafted[row],
        batches.accepted[row],
        batches.bins[row],
        batches.sums[row],
    )


@compiled
def _recall(cluster, plan, row):
    """The plan remembers for the controller of this replica."""
    for slot in range(len(plan.slot_average)):
        plan.slot_average[slot] = cluster.averages[row, slot]
        plan.slot_index[slot] = cluster.indices[row, slot]
        plan.slot_rounds[slot] = cluster.rounds[row, slot]


@compiled
def _memorise(cluster, plan, row):
    for slot in range(len(plan.slot_average)):
        cluster.averages[row, slot] = plan.slot_average[slot]
        cluster.indices[row, slot] = plan.slot_index[slot]
        cluster.rounds[row, slot] = plan.slot_rounds[slot]


@compiled
def _next_finish_s(cluster, rule, row):
    """A time before which no request of the replica finishes."""
    place, state, batches = cluster.places[row], cluster.states[row], cluster.batches
    if place.finishing > 0:
        return state.now_s
    left = np.int64(NOBODY)
    for index in range(state.running):
        left = min(left, batches.output[row, index] - batches.emitted[row, index])
    waiting = place.fed - state.refused - state.finished - state.running
    if waiting > 0:
        left = min(left, place.least_output)
    else:
        place.least_output = NOBODY
    if state.preempted > 0:
        left = 1
    if left >= NOBODY:
        return np.inf
    steps = (left + rule.tokens_per_step - 1) // rule.tokens_per_step
    return state.now_s + steps * rule.least_step_s


@compiled
def _take_back(cluster, row):
    """Requests that left the replica go to the table, the others move to the front of its arrays."""
    held, place, state = cluster.held, cluster.places[row], cluster.states[row]
    kept = admitted_before = arrived_before = 0
    for index in range(place.fed):
        if index == state.next_admission:
            admitted_before = kept
        if index == state.next_arrival:
            arrived_before = kept
        refused = held.refused[row, index] and index < state.next_arrival
        if refused or not np.isnan(held.finished_s[row, index]):
            _write_down(cluster, row, index)
            if refused:
                state.refused -= 1
            else:
                state.finished -= 1
            continue
        cluster.moved[index] = kept
        if kept < index:
            _move_up(cluster, row, index, kept)
        kept += 1
    if state.next_admission == place.fed:
        admitted_before = kept
    if state.next_arrival == place.fed:
        arrived_before = kept
    state.next_admission, state.next_arrival = admitted_before, arrived_before
    held.arrival_s[row, kept : place.fed] = np.inf
    place.fed = kept
    for index in range(state.running):
        cluster.batches.request[row, index] = cluster.moved[cluster.batches.request[row, index]]
    for index in range(state.preempted):
        held.preempted_stack[row, index] = cluster.moved[held.preempted_stack[row, index]]


@compiled
def _write_down(cluster, row, index):
    """What happened to a request so far."""
    table, held, request = cluster.table, cluster.held, cluster.request[row, index]
    table.admitted_s[request] = held.admitted_s[row, index]
    table.first_token_s[request] = held.first_token_s[row, index]
    table.finished_s[request] = held.finished_s[row, index]
    table.emitted_tokens[request] = held.emitted_tokens[row, index]
    table.rounds[request] = held.rounds[row, index]
    table.drafted_tokens[request] = held.drafted_tokens[row, index]
    table.accepted_tokens[request] = held.accepted_tokens[row, index]
    table.preemptions[request] = held.preemptions[row, index]


@compiled
def _move_up(cluster, row, index, to):
    held = cluster.held
    cluster.request[row, to] = cluster.request[row, index]
    held.arrival_s[row, to] = held.arrival_s[row, index]
    held.prompt_tokens[row, to] = held.prompt_tokens[row, index]
    held.output_tokens[row, to] = held.output_tokens[row, index]
    held.prefix_hit_tokens[row, to] = held.prefix_hit_tokens[row, index]
    held.class_id[row, to] = held.class_id[row, index]
    held.accept_row[row, to] = held.accept_row[row, index]
    held.luck_key[row, to] = held.luck_key[row, index]
    held.match_key[row, to] = held.match_key[row, index]
    held.admitted_s[row, to] = held.admitted_s[row, index]
    held.first_token_s[row, to] = held.first_token_s[row, index]
    held.finished_s[row, to] = held.finished_s[row, index]
    held.emitted_tokens[row, to] = held.emitted_tokens[row, index]
    held.rounds[row, to] = held.rounds[row, index]
    held.drafted_tokens[row, to] = held.drafted_tokens[row, index]
    held.accepted_tokens[row, to] = held.accepted_tokens[row, index]
    held.preemptions[row, to] = held.preemptions[row, index]
    held.refused[row, to] = held.refused[row, index]


@inlined
def _hand_over(cluster, plan, rule, row, request):
    """The request goes to the replica and waits there from its arrival on."""
    table, held, place, state = cluster.table, cluster.held, cluster.places[row], cluster.states[row]
    index, arrival_s = place.fed, table.arrival_s[request]
    place.fed += 1
    cluster.replica[request] = row
    cluster.request[row, index] = request
    if len(cluster.caches.start) > 0:
        found = matching_tokens(cluster.caches, row, request, table.prompt_tokens[request])
        table.prefix_hit_tokens[request] = found
        use_blocks(cluster.caches, row, request)
    held.prompt_tokens[row, index] = table.prompt_tokens[request]
    held.output_tokens[row, index] = table.output_tokens[request]
    held.prefix_hit_tokens[row, index] = table.prefix_hit_tokens[request]
    held.class_id[row, index] = table.class_id[request]
    held.accept_row[row, index] = table.accept_row[request]
    held.luck_key[row, index] = table.luck_key[request]
    held.match_key[row, index] = table.match_key[request]
    held.admitted_s[row, index] = held.first_token_s[row, index] = held.finished_s[row, index] = np.nan
    held.emitted_tokens[row, index] = held.rounds[row, index] = held.preemptions[row, index] = 0
    held.drafted_tokens[row, index] = held.accepted_tokens[row, index] = 0
    held.refused[row, index] = table.refused[request]
    held.arrival_s[row, index] = arrival_s
    if table.refused[request]:
        return
    if state.now_s > arrival_s:  # it came during a step that was run before it was known
        state.system_request_s += state.now_s - arrival_s
    place.outstanding += 1
    output_tokens = table.output_tokens[request]
    place.least_output = min(place.least_output, output_tokens)
    steps = (output_tokens + rule.tokens_per_step - 1) // rule.tokens_per_step
    place.next_finish_s = min(place.next_finish_s, max(arrival_s, state.now_s) + steps * rule.least_step_s)


@compiled
def _fewest(places, desk):
    """The serving replica with the fewest requests, the next after the last chosen where several have."""
    best, fewest = np.int64(-1), np.int64(NOBODY)
    for ahead in range(1, len(places) + 1):
        row = (desk.last_replica + ahead) % len(places)
        if places[row].mode == SERVING and places[row].outstanding < fewest:
            best, fewest = row, places[row].outstanding
    return best


@compiled
def _next_in_turn(places, desk):
    row = desk.last_replica
    while True:
        row = (row + 1) % len(places)
        if places[row].mode == SERVING:
            return row


@inlined
def _best_match(cluster, rule, request):
    """The longest cached prefix, unless it is short or the load is out of balance: then the fewest requests."""
    places, desk = cluster.places, cluster.desk[0]
    fewest_at = _fewest(places, desk)
    fewest = most = places[fewest_at].outstanding
    prompt_tokens = cluster.table.prompt_tokens[request]
    best, longest = fewest_at, np.int64(0)
    for row in range(len(places)):
        if places[row].mode != SERVING:
            continue
        most = max(most, places[row].outstanding)
        found = matching_tokens(cluster.caches, row, request, prompt_tokens)
        if found > longest or (found == longest and places[row].outstanding < places[best].outstanding):
            best, longest = row, found
    unbalanced = most - fewest > rule.imbalance_requests and most > fewest * rule.imbalance_ratio
    if unbalanced or longest < rule.match_fraction * prompt_tokens:
        return fewest_at
    return best


@inlined
def _chosen(cluster, rule, request):
    """The replica that a built-in router sends the request to."""
    if rule.kind == ROUND_ROBIN:
        return _next_in_turn(cluster.places, cluster.desk[0])
    if rule.kind == LEAST_OUTSTANDING:
        return _fewest(cluster.places, cluster.desk[0])
    return _best_match(cluster, rule, request)


def _compiled(sources: str, general: bool):
    """`run` around the general step loop or the smaller one."""

    @compiled
    def run(
        cluster: Cluster, costs: Costs, plan: Plan, rule: Rule, trace: Trace, what: int, given: int, until_s: float
    ) -> int:
        """Hand out the requests that arrive before `until_s` (`ROUTE`), the next one to replica `given` (`HAND_IN`), or
        bring every replica up to `until_s` (`CATCH_UP`); returns ALL_ROUTED, NOT_YET or FULL.

        One function, so that the step loop is compiled into it once.
        """
        assert sources
        table, places, desk = cluster.table, cluster.places, cluster.desk[0]
        crowded = np.int64(-1)
        while True:
            look_s = until_s
            if what != CATCH_UP:
                if desk.next_request == len(table.arrival_s):
                    return ALL_ROUTED
                look_s = float(table.arrival_s[desk.next_request])
                if what == ROUTE and look_s >= until_s:
                    return NOT_YET
            for row in range(len(places)):
                place, state = places[row], cluster.states[row]
                asked = what == ROUTE and rule.kind != ROUND_ROBIN and place.next_finish_s <= look_s
                if not (asked or what == CATCH_UP or row == crowded):
                    continue
                requests, batch = _requests_of(cluster.held, row), _batch_of(cluster.batches, row)
                if plan.control == CLOSED_LOOP:
                    _recall(cluster, plan, row)
                while True:  # one turn for every step that finishes something
                    if place.finishing > 0:
                        if state.now_s > look_s:
                            break
                        place.outstanding -= place.finishing
                    before = state.finished
                    if general:  # a constant: numba drops the other branch
                        advance(requests, batch, costs, plan, state, trace, look_s)
                    else:
                        advance_plainly(requests, batch, costs, plan, state, trace, look_s)
                    place.finishing = state.finished - before
                    if place.finishing == 0:
                        break
                if plan.control == CLOSED_LOOP:
                    _memorise(cluster, plan, row)
                place.next_finish_s = _next_finish_s(cluster, rule, row)
            if what == CATCH_UP:
                return NOT_YET
            row = given if what == HAND_IN else crowded if crowded >= 0 else _chosen(cluster, rule, desk.next_request)
            if crowded >= 0:
                _take_back(cluster, row)
                if 2 * places[row].fed > cluster.request.shape[1]:
                    return FULL
            elif places[row].fed == cluster.request.shape[1]:
                crowded = row
                continue
            _hand_over(cluster, plan, rule, row, desk.next_request)
            crowded = np.int64(-1)
            desk.last_replica = row
            desk.next_request += 1
            if what == HAND_IN:
                return NOT_YET

    return run


@compiled
def settle(cluster: Cluster) -> None:
    """Everything known about every request goes to the table."""
    for row in range(len(cluster.places)):
        requests, batch = _requests_of(cluster.held, row), _batch_of(cluster.batches, row)
        for index in range(cluster.states[row].running):
            report(requests, batch, index)
        for index in range(cluster.places[row].fed):
            _write_down(cluster, row, index)


run = _compiled(digest_of(*LOOP_FILES, *CLUSTER_FILES), general=True)
run_plainly = _compiled(digest_of(*LOOP_FILES, *CLUSTER_FILES), general=False)
"""For the plans of `simulator.step_loop.advance_plainly`."""
