# pyright: basic, reportAttributeAccessIssue=false
# Compiled code: its arguments are the named tuples and the record of `simulator.state`; numba infers their types.
"""What a scheduled step costs: sums over its sequences, then lookups in the cost table."""

import math

import numpy as np

from simulator.compiled import compiled, inlined


@compiled
def group_s(kv_s, pair_s, read, pairs, p_norm, tile_rows):
    """`(m**p + c**p)**(1/p)` over sums by window; 0 is the maximum. `roofline.operators.joined_s`, compiled.

    Arithmetic is that of `tile_rows` rows against what was read, at least.
    """
    memory_s = compute_s = 0.0
    for window in range(len(read)):
        memory_s += kv_s[window] * read[window]
        compute_s += pair_s[window] * max(pairs[window], tile_rows * read[window])
    larger = max(memory_s, compute_s)
    if p_norm == 0.0 or larger == 0.0:
        return larger
    if p_norm == 2.0:  # the usual exponent, without the cost of two powers
        return math.sqrt(memory_s * memory_s + compute_s * compute_s)
    return larger * (1.0 + (min(memory_s, compute_s) / larger) ** p_norm) ** (1.0 / p_norm)


@inlined
def _attention_s(forward, read, pairs, prefill_read, prefill_pairs, decoding, prefilling, drafts):
    """Both attention groups of a pass, from sums over sequences by window."""
    tile_rows = forward.decode_tile_rows if prefilling + drafts > 0 else 1.0
    total_s = forward.state_s * (decoding + prefilling)
    if decoding > 0:
        total_s += forward.decode_base_s
        total_s += group_s(forward.kv_s, forward.decode_pair_s, read, pairs, forward.decode_p, tile_rows)
    if prefilling > 0:
        total_s += forward.prefill_base_s
        total_s += group_s(
            forward.prefill_kv_s, forward.prefill_pair_s, prefill_read, prefill_pairs, forward.prefill_p, 1.0
        )
    return total_s


@inlined
def tally(batch, windows, running):
    """Sums over the scheduled step: (tokens, decoding, prefilling, emitting, drafts), and `batch.sums` by window.

    Rows of `sums`: cached tokens read and row-token pairs of decoding sequences, tokens a later draft pass reads,
    then the first two of prefill chunks. `roofline.attention` has the array form of one sequence.
    """
    computed, known, scheduled, sums = batch.computed, batch.known, batch.scheduled, batch.sums
    tokens = decoding = prefilling = emitting = drafts = np.int64(0)  # no literal: see `schedule_prompts`
    read = pairs = later = prefill_read = prefill_pairs = 0
    for place in range(running):  # no branches: the loop is vectorised
        new, context = scheduled[place], computed[place]
        fresh = known[place] - context
        active = int(new > 0)
        emits = active * int(new >= fresh)
        decodes = active * int(fresh == 1)
        prefills = active - decodes
        seen_pairs = new * context + (new * (new + 1) >> 1)
        tokens += new
        emitting += emits
        drafts += emits * (new - fresh)
        later += emits * (context + new)
        decoding += decodes
        prefilling += prefills
        read += decodes * (context + new)
        pairs += decodes * seen_pairs
        prefill_read += prefills * (context + new)
        prefill_pairs += prefills * seen_pairs
    sums[:] = 0.0
    if windows[0] == 0:
        sums[0, 0], sums[1, 0], sums[2, 0], sums[3, 0], sums[4, 0] = read, pairs, later, prefill_read, prefill_pairs
    if windows[len(windows) - 1] > 0:
        _tally_windows(batch, windows, running)
    return tokens, decoding, prefilling, emitting, drafts


@compiled
def _tally_windows(batch, windows, running):
    """The part of `tally` for layers that see a limited window."""
    for place in range(running):
        new, context = batch.scheduled[place], batch.computed[place]
        fresh = batch.known[place] - context
        group = 0 if fresh == 1 else 3
        for index in range(len(windows)):
            window = windows[index]
            if window == 0 or new == 0:
                continue
            open_rows = min(max(window - context, 0), new)
            pairs = open_rows * context + open_rows * (open_rows + 1) // 2 + (new - open_rows) * window
            batch.sums[group, index] += min(context + new, window + new - 1)
            batch.sums[group + 1, index] += pairs
            if new >= fresh:
                batch.sums[2, index] += min(context + new, window)


@compiled
def _wide_passes_s(draft, read, pass_rows):
    """Attention of the draft passes after the first over a tree: the cache once a sequence, every row's pairs."""
    total_s = 0.0
    for index in range(1, len(pass_rows)):
        if pass_rows[index] > 0:
            total_s += group_s(draft.kv_s, draft.decode_pair_s, read, read, draft.decode_p, float(pass_rows[index]))
    return total_s


@inlined
def _query_rows_s(draft, read, rows, sequences):
    """Attention of a block drafter's one pass: `rows` rows a sequence over its whole cache, nothing of the step."""
    total_s = draft.state_s * sequences + (draft.decode_base_s if sequences > 0 else 0.0)
    return total_s + group_s(draft.kv_s, draft.decode_pair_s, read, read, draft.decode_p, float(rows))


@inlined
def _mask_rows_s(draft, read, rows):
    """Arithmetic of mask rows beside the step's own; the cache they see is read already."""
    pairs_s = 0.0
    for window in range(len(read)):
        pairs_s += draft.decode_pair_s[window] * rows * read[window]
    return pairs_s


@inlined
def price(sums, costs, plan, state, draft_tokens, tally, rejected):
    """Seconds of the scheduled step: (target pass with sampling, drafting, host)."""
    tokens, decoding, prefilling, emitting, drafts = tally
    read, pairs, later_read, prefill_read, prefill_pairs = sums[0], sums[1], sums[2], sums[3], sums[4]
    target = costs.target
    rows = emitting + drafts
    prompt_s = costs.prompt_trunk_s if prefilling > 0 else 0.0
    verify_s = max(target.trunk_s[tokens], prompt_s) + target.logits_s[rows]
    verify_s += _attention_s(target, read, pairs, prefill_read, prefill_pairs, decoding, prefilling, drafts)
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
            if costs.draft_leaves_out_rejected:
                first_tokens -= rejected
            prompt_s = costs.prompt_draft_s if prefilling > 0 else 0.0
            draft_s += max(costs.draft.trunk_s[first_tokens], prompt_s)
            masks = costs.mask_rows[draft_tokens]
            if masks > 0 and not costs.draft_reads_whole_step:
                draft_s += _query_rows_s(costs.draft, later_read, masks, emitting)
            else:
                draft_s += _attention_s(
                    costs.draft, read, pairs, prefill_read, prefill_pairs, decoding, prefilling, drafts
                )
                if masks > 0:
                    draft_s += _mask_rows_s(costs.draft, later_read, masks)
            later = costs.draft
            later_s = group_s(later.kv_s, later.decode_pair_s, later_read, later_read, later.decode_p, 1.0)
            if costs.wide_draft:
                later_s = _wide_passes_s(later, later_read, costs.draft_pass_rows[draft_tokens])
                draft_s += later_s
            else:
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
