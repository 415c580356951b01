"""Rounds beside plain steps at a batch of equal contexts, priced from a cost table."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.attention import seen_pairs, seen_tokens
from roofline.errors import InvalidInput
from roofline.operators import joined_s
from roofline.stages import cycle_s
from roofline.step_table import ForwardCosts, StepCostTable


@dataclass(frozen=True, slots=True)
class RoundCost:
    """One round beside one plain step at the same batch and context, seconds.

    `verify_s` is the target's pass over B(K+1) tokens with its sampler, `draft_s` all drafting, `host_s` what the
    round waits for the host. `plain_s` is the plain step, its host time included.
    """

    plain_s: float
    verify_s: float
    draft_s: float
    host_s: float

    @property
    def round_s(self) -> float:
        """Seconds of the whole round."""
        return self.verify_s + self.draft_s + self.host_s

    @property
    def ratio(self) -> float:
        """R: speculation pays at this batch and context iff the acceptance length exceeds it."""
        return self.round_s / self.plain_s


def round_cost(table: StepCostTable, *, batch: int, context_tokens: int, draft_tokens: int) -> RoundCost:
    """R at a batch of equal contexts, from the table: what a steady decode batch pays per round."""
    if not 1 <= batch <= table.max_sequences:
        raise InvalidInput(f"batch must be in 1..{table.max_sequences}, got {batch}; tabulate more sequences")
    if not 0 <= draft_tokens <= table.max_draft_tokens:
        raise InvalidInput(
            f"draft_tokens must be in 0..{table.max_draft_tokens}, got {draft_tokens}; tabulate more draft tokens"
        )
    rows = batch * (draft_tokens + 1)
    if draft_tokens > 0 and rows > table.max_tokens:
        raise InvalidInput(
            f"batch x (K + 1) = {rows} exceeds the step's token budget {table.max_tokens}; "
            "raise max_num_batched_tokens or lower K"
        )
    each = -(-batch // min(table.stages * table.ranks, batch))
    host_s = table.step_host_s + table.host_per_sequence_s * each
    pass_s, _ = _parts_s(table, batch=batch, context_tokens=context_tokens, draft_tokens=0)
    plain_s = pass_s + host_s
    if draft_tokens == 0:
        return RoundCost(plain_s, pass_s, 0.0, host_s)
    verify_s, draft_s = _parts_s(table, batch=batch, context_tokens=context_tokens, draft_tokens=draft_tokens)
    return RoundCost(plain_s, verify_s, draft_s, host_s + table.round_host_s)


def _parts_s(table: StepCostTable, *, batch: int, context_tokens: int, draft_tokens: int) -> tuple[float, float]:
    """(target pass with its sampler, drafting) of a batch, in its parts where stages or ranks share it."""
    parts = min(table.stages * table.ranks, batch)
    each = -(-batch // parts)
    rows_each = draft_tokens + 1
    tail_s = float(table.target.logits_s[each * rows_each])
    if draft_tokens > 0:
        tail_s += table.verify_base_s + table.verify_per_sequence_s * each + table.verify_per_row_s * each * rows_each
    else:
        tail_s += float(table.sample_plain_s[each])
    front_s = _trunk_pass_s(table.target, each, rows_each, context_tokens)
    draft_s = 0.0
    if draft_tokens > 0:
        draft_s = _draft_s(table, batch=each, context_tokens=context_tokens, draft_tokens=draft_tokens)
    if table.between_s is None:
        return front_s + tail_s, draft_s
    if table.ranks > 1:
        return front_s + float(table.between_s[batch * rows_each]) + tail_s, draft_s
    front_s += (table.stages - 1) * float(table.between_s[each * rows_each])
    return cycle_s((front_s, tail_s, draft_s), (table.stages, parts))


def decode_attention_s(costs: ForwardCosts, batch: int, *, rows_each: int, context_tokens: int) -> float:
    """Attention of `batch` equal sequences with `rows_each` new rows: each cache read once, every pair computed."""
    read_s = pair_s = 0.0
    tile_rows = costs.decode_tile_rows if rows_each > 1 else 1.0
    for index, window in enumerate(costs.window_tokens):
        seen = int(seen_tokens(context_tokens, rows_each, int(window)))
        pairs = max(int(seen_pairs(context_tokens, rows_each, int(window))), tile_rows * seen)
        read_s += costs.kv_s_per_token[index] * batch * seen
        pair_s += costs.decode_s_per_pair[index] * batch * pairs
    return float(joined_s(read_s, pair_s, costs.decode_p or None)) + costs.decode_base_s


def _first_attention_s(costs: ForwardCosts, batch: int, *, own_rows: int, masks: int, held_tokens: int) -> float:
    """Attention of a drafter's first pass: the step's own rows, and mask rows that each see the whole cache."""
    read_s = pair_s = 0.0
    for index, window in enumerate(costs.window_tokens):
        seen = min(held_tokens, int(window) or held_tokens)
        read_s += costs.kv_s_per_token[index] * batch * seen
        pair_s += costs.decode_s_per_pair[index] * batch * masks * seen
    if own_rows:  # what the masks see is read already
        own_s = decode_attention_s(costs, batch, rows_each=own_rows, context_tokens=held_tokens - own_rows)
        return own_s + float(pair_s)
    return float(joined_s(read_s, pair_s, costs.decode_p or None)) + costs.decode_base_s


def _trunk_pass_s(costs: ForwardCosts, batch: int, rows_each: int, context_tokens: int) -> float:
    attention_s = decode_attention_s(costs, batch, rows_each=rows_each, context_tokens=context_tokens)
    return float(costs.trunk_s[batch * rows_each]) + attention_s + costs.state_s_per_sequence * batch


def _draft_s(table: StepCostTable, *, batch: int, context_tokens: int, draft_tokens: int) -> float:
    """All drafting of a round. `draft_chain_s` already holds the launches of the later passes' attention."""
    total_s = float(table.draft_chain_s[draft_tokens, batch])
    if table.draft is None:
        return total_s
    costs, later_passes = table.draft, int(table.draft_passes[draft_tokens]) - 1
    rows_each = draft_tokens + 1
    trunk_tokens = rows_each if table.draft_reads_whole_step else 1
    trunk_tokens += int(table.first_pass_extra_tokens[draft_tokens])
    masks = 0 if table.mask_rows is None else int(table.mask_rows[draft_tokens])
    own_rows = rows_each if masks == 0 or table.draft_reads_whole_step else 0
    first_pass_s = (
        float(costs.trunk_s[batch * trunk_tokens])
        + _first_attention_s(costs, batch, own_rows=own_rows, masks=masks, held_tokens=context_tokens + rows_each)
        + costs.state_s_per_sequence * batch
    )
    later_read_s = later_pair_s = 0.0
    for index, window in enumerate(costs.window_tokens):
        seen = batch * min(context_tokens + rows_each, int(window) or context_tokens + rows_each)
        later_read_s += costs.kv_s_per_token[index] * seen
        later_pair_s += costs.decode_s_per_pair[index] * seen
    if table.draft_pass_rows is None:
        later_s = later_passes * float(joined_s(later_read_s, later_pair_s, costs.decode_p or None))
        return total_s + first_pass_s + later_s
    widths = table.draft_pass_rows[draft_tokens, 1 : later_passes + 1]
    later = [float(joined_s(later_read_s, later_pair_s * int(width), costs.decode_p or None)) for width in widths]
    return total_s + first_pass_s + sum(later)
