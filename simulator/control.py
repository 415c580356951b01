# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""How many drafts the next round gets, where that is decided in every step: compiled forms of the controllers."""

import numpy as np

from simulator.compiled import compiled, inlined
from simulator.pricing import group_s
from simulator.rng import LUCK_BITS, luck
from simulator.state import SURVIVAL_BINS

STATIC, OPTIMAL, BUDGET, CLOSED_LOOP = 0, 1, 2, 3
"""`Plan.control`: K by batch size; argmax of tokens per second; that with a verification budget; by measured AL."""

UP, DOWN, CEILING, WEIGHT, INTERVAL, WARMUP = 0, 1, 2, 3, 4, 5
"""Columns of `Plan.slot_rule`."""

MEMORY = 1.0 / 64.0
"""Weight of the last step in what a controller remembers."""

_LEVEL_SALT = np.uint64(0x5851F42D4C957F2D)
_LUCK_BITS = np.uint64(LUCK_BITS)


@inlined
def round_rows(batch, plan, running):
    """Acceptance row of every sequence in its next round, into `batch.row_now`: level drawn anew, band of context."""
    for place in range(running):
        row = batch.row[place]
        if plan.round_levels > 1:
            drawn = luck(batch.luck_key[place] ^ _LEVEL_SALT, batch.emitted[place])
            row += int((drawn * np.uint64(plan.round_levels)) >> _LUCK_BITS) * plan.bands
        if plan.bands > 1:
            row += min(batch.known[place] // plan.band_tokens, plan.bands - 1)
        batch.row_now[place] = row


@compiled
def controlled_draft_tokens(batch, costs, plan, state, step, scheduled):
    """K of the drafts made in this step, verified in the next, where it is not a matter of batch size alone."""
    if plan.control == CLOSED_LOOP:
        _observe(batch, plan, state, scheduled)
        slot = _slot(plan, scheduled)
        return plan.slot_drafts[slot, plan.slot_index[slot]]
    return _best_draft_tokens(batch, costs, plan, state, step, scheduled)


@inlined
def _best_draft_tokens(batch, costs, plan, state, step, scheduled):
    """K with the most emitted tokens per second, as the cost table knows it, 0 included.

    With a verification budget only all or nothing is drafted. The present K stays unless another is better by more
    than `plan.least_gain_fraction`.
    """
    _remember_prompts(batch, state, step)
    emitting = step[3]
    if emitting == 0:
        return state.draft_tokens if state.draft_tokens >= 0 else plan.draft_by_batch[scheduled]
    largest = len(plan.verify_rows) - 1
    best, best_per_s, present_per_s = 0, 0.0, 0.0
    for draft_tokens in range(largest + 1):
        if plan.control == BUDGET and 0 < draft_tokens < largest:
            continue
        if plan.control == BUDGET and draft_tokens == largest:
            per_s = _budget(batch, costs, plan, state, emitting)
        else:
            rows = int(emitting * plan.verify_rows[draft_tokens] + 0.5)
            if draft_tokens > 0 and rows > plan.max_batched_tokens:
                break
            gain = _gain_tokens(batch, plan, state.running, emitting, draft_tokens)
            per_s = _tokens_per_s(gain, batch.sums[2], costs, plan, state, emitting, rows, draft_tokens)
        if per_s > best_per_s:
            best, best_per_s = draft_tokens, per_s
        if draft_tokens == state.draft_tokens:
            present_per_s = per_s
    if present_per_s > 0.0 and best_per_s <= present_per_s * (1.0 + plan.least_gain_fraction):
        return state.draft_tokens
    return best


@inlined
def _remember_prompts(batch, state, step):
    """Moving averages of the last steps: share with prompts, their tokens, tokens emitted."""
    tokens, decoding, prefilling, emitting, drafts = step
    emitted = emitting
    for place in range(state.running):
        if batch.scheduled[place] > 0:
            emitted += batch.agreed[place]
    weight = max(1.0 / (1.0 + state.steps), MEMORY)
    state.prompt_steps += weight * (min(prefilling, 1) - state.prompt_steps)
    state.emitted_per_step += weight * (emitted - state.emitted_per_step)
    if prefilling > 0:
        prompt_tokens = tokens - decoding - drafts
        if state.prompt_tokens == 0.0:
            state.prompt_tokens = prompt_tokens
        state.prompt_tokens += max(weight, 4.0 * MEMORY) * (prompt_tokens - state.prompt_tokens)


@compiled
def _tokens_per_s(gain, read, costs, plan, state, sequences, rows, draft_tokens):
    """One over the seconds of a token: a round of decodes alone, and what its rows add to steps that hold prompts.

    Prompts take their steps whatever K is; each emitted token comes with `prompt_steps / emitted_per_step` of them.
    """
    nothing = np.int64(0)  # no literal: numba would compile what it is handed to twice
    alone_s = _steady_s(read, costs, plan, sequences, rows, nothing, draft_tokens)
    token_s = alone_s / gain
    if state.prompt_steps > 0.0 and state.emitted_per_step > 0.0:
        shared_s = _steady_s(read, costs, plan, sequences, rows, int(state.prompt_tokens), draft_tokens)
        token_s += state.prompt_steps / state.emitted_per_step * (shared_s - alone_s)
    return 1.0 / token_s


@inlined
def _gain_tokens(batch, plan, running, emitting, draft_tokens):
    """Expected tokens of a round, from what is known of each class at its context."""
    if len(plan.gain_tokens) == 1:
        return emitting * plan.gain_tokens[0, draft_tokens]
    gain = 0.0
    for place in range(running):
        if batch.scheduled[place] > 0 and batch.computed[place] + batch.scheduled[place] >= batch.known[place]:
            band = min(batch.known[place] // plan.band_tokens, plan.bands - 1) if plan.bands > 1 else 0
            gain += plan.gain_tokens[batch.class_id[place] * plan.bands + band, draft_tokens]
    return gain


@compiled
def _steady_s(read, costs, plan, sequences, rows, prompt_tokens, draft_tokens):
    """Seconds of a round of `rows` rows over the contexts read, its drafts made by the same round."""
    target = costs.target
    tokens = rows + prompt_tokens
    priced = min(tokens, len(target.trunk_s) - 1)
    beyond = tokens / plan.max_batched_tokens if tokens > plan.max_batched_tokens else 1.0
    rows_each = rows / sequences
    total_s = target.trunk_s[priced] * beyond + target.logits_s[min(rows, len(target.logits_s) - 1)]
    total_s += target.state_s * sequences + target.decode_base_s
    tile_rows = max(rows_each, target.decode_tile_rows) if rows > sequences or prompt_tokens > 0 else 1.0
    total_s += group_s(target.kv_s, target.decode_pair_s, read, read, target.decode_p, tile_rows)
    total_s += costs.step_host_s + costs.host_per_sequence_s * sequences
    if draft_tokens == 0:
        total_s += costs.sample_plain_s[sequences]
        return total_s + (costs.idle_speculation_s if plan.speculation_loaded else 0.0)
    total_s += costs.verify_base_s + costs.verify_per_sequence_s * sequences + costs.verify_per_row_s * rows
    total_s += costs.round_host_s + costs.draft_chain_s[draft_tokens, sequences]
    if costs.has_draft:
        draft = costs.draft
        first_tokens = tokens if costs.draft_reads_whole_step else sequences
        first_tokens += costs.first_pass_extra_tokens[draft_tokens] * sequences
        total_s += draft.trunk_s[min(first_tokens, len(draft.trunk_s) - 1)] * beyond
        total_s += draft.state_s * sequences + draft.decode_base_s
        tile_rows = max(rows_each, draft.decode_tile_rows)
        total_s += group_s(draft.kv_s, draft.decode_pair_s, read, read, draft.decode_p, tile_rows)
        later_s = group_s(draft.kv_s, draft.decode_pair_s, read, read, draft.decode_p, 1.0)
        total_s += (costs.draft_passes[draft_tokens] - 1) * later_s
    return total_s


@compiled
def _budget(batch, costs, plan, state, sequences):
    """Best tokens per second over verification budgets; the drafts likely enough to keep: `state.least_survival`.

    All drafts of all sequences sorted by their chance to be emitted (in bins); the best prefix is verified.
    """
    largest = len(plan.verify_rows) - 1
    batch.bins[:] = 0
    for place in range(state.running):
        if batch.computed[place] + batch.scheduled[place] >= batch.known[place]:
            for draft in range(largest):
                batch.bins[int(plan.survival[batch.row_now[place], draft] * SURVIVAL_BINS)] += 1
    gain, rows = float(sequences), sequences
    best_per_s = _tokens_per_s(gain, batch.sums[2], costs, plan, state, sequences, rows, largest)
    state.least_survival = SURVIVAL_BINS + 1
    for index in range(SURVIVAL_BINS, -1, -1):
        if batch.bins[index] == 0:
            continue
        rows += batch.bins[index]
        gain += batch.bins[index] * min((index + 0.5) / SURVIVAL_BINS, 1.0)
        if rows > plan.max_batched_tokens:
            break
        per_s = _tokens_per_s(gain, batch.sums[2], costs, plan, state, sequences, rows, largest)
        if per_s > best_per_s:
            best_per_s, state.least_survival = per_s, index
    return best_per_s


@inlined
def keep_likely_drafts(batch, plan, state):
    """Adaptive verification: each sequence keeps its drafts above the budget's bar; `row_now` is of the next round."""
    for place in range(state.running):
        kept = 0
        while kept < batch.drafts[place]:
            if int(plan.survival[batch.row_now[place], kept] * SURVIVAL_BINS) < state.least_survival:
                break
            kept += 1
        batch.drafts[place] = kept


@inlined
def _slot(plan, batch_size):
    """The last slot whose batch size is not above this one."""
    slot = 0
    while slot + 1 < len(plan.slot_batch) and plan.slot_batch[slot + 1] <= batch_size:
        slot += 1
    return slot


@inlined
def _observe(batch, plan, state, scheduled):
    """Closed loop: the accepted drafts of this step enter the moving average of its slot, now and then a new K.

    SGLang's rule (adaptive speculative decoding): down while the average is at most the next lower K - 0.5 + DOWN
    (0.5 + DOWN for 0), else up while it is above K - 0.5 + UP; from 0 drafts the next K is always probed.
    """
    slot = _slot(plan, scheduled)
    verified = accepted = 0
    for place in range(state.running):
        if batch.scheduled[place] > 0 and batch.computed[place] + batch.scheduled[place] >= batch.known[place]:
            verified += 1
            accepted += batch.agreed[place]
    if verified == 0:
        return
    rule = plan.slot_rule[slot]
    if plan.slot_drafts[slot, plan.slot_index[slot]] > 0:
        plan.slot_average[slot] += rule[WEIGHT] * (accepted / verified - plan.slot_average[slot])
    plan.slot_rounds[slot] += 1
    past = plan.slot_rounds[slot] - int(rule[WARMUP])
    if past > 0 and past % int(rule[INTERVAL]) == 0:
        plan.slot_index[slot] = _next_index(plan, slot)


@inlined
def _next_index(plan, slot):
    """Index of the slot's next K."""
    rule, drafts = plan.slot_rule[slot], plan.slot_drafts[slot]
    last = plan.slot_sizes[slot] - 1
    index = before = plan.slot_index[slot]
    if drafts[index] == 0:
        index = min(index + 1, last)
        if drafts[index] > 0 and plan.slot_average[slot] < 0:
            plan.slot_average[slot] = drafts[index] - 1.0
        return index
    average = plan.slot_average[slot]
    while index > 0:
        lower = drafts[index - 1]
        if average > (0.5 if lower == 0 else lower - 0.5) + rule[DOWN]:
            break
        index -= 1
    if index == before:
        while index < last and average > drafts[index] - 0.5 + rule[UP]:
            index += 1
    if rule[CEILING] > 0.0 and index <= before:
        ceiling = max(1, -int(-average * rule[CEILING] // 1))
        while index > 0 and drafts[index] > ceiling:
            index -= 1
    return index
