"""The byte and flop account of one decode or verification pass, operator by operator: what `--explain` prints."""

from dataclasses import dataclass

import numpy as np

from roofline.attention import attention_classes, seen_pairs, seen_tokens, state_bytes_per_sequence
from roofline.cost import decode_attention_s, forward_costs, trunk_s
from roofline.operators import OperatorCost, Shard, forward_operators, logits_operators, padded_tokens
from roofline.specs import Model


@dataclass(frozen=True, slots=True)
class AccountRow:
    """One operator over all layers of the pass, on one GPU.

    `floor_s` is what the ceilings alone allow: the larger of bytes over the peak bandwidth and flops over the
    peak rate of its number format.
    """

    name: str
    term: str
    hbm_bytes: float
    flops: float
    seconds: float
    launches: int
    floor_s: float


def pass_account(
    model: Model, shard: Shard, *, batch: int, rows_each: int, context_tokens: int
) -> tuple[AccountRow, ...]:
    """Account of a pass in which `batch` sequences with `context_tokens` cached tokens bring `rows_each` rows each.

    The seconds add up to what `StepCostTable` charges for the pass, sampling and host left out; where operators are
    launched one by one and the launches take longer than they do, the difference is a row of its own.
    """
    tokens = padded_tokens(batch * rows_each, shard.graph_tokens)
    trunk = list(forward_operators(model, tokens, shard))
    rows = [_operator_row(operator, model, shard) for operator in trunk]
    rows += [_operator_row(operator, model, shard) for operator in logits_operators(model, batch * rows_each, shard)]
    rows.append(_attention_row(model, shard, batch=batch, rows_each=rows_each, context_tokens=context_tokens))
    device_s = sum(float(operator.seconds) for operator in trunk)
    gaps_s = float(trunk_s(model, batch * rows_each, shard)[0]) - device_s
    if gaps_s > 0:
        rows.append(AccountRow("launch gaps", "host", 0.0, 0.0, gaps_s, 0, 0.0))
    return tuple(rows)


def _operator_row(operator: OperatorCost, model: Model, shard: Shard) -> AccountRow:
    hbm_bytes, flops = float(operator.hbm_bytes), float(operator.flops)
    return AccountRow(
        name=operator.name,
        term=operator.term,
        hbm_bytes=hbm_bytes,
        flops=flops,
        seconds=float(operator.seconds),
        launches=operator.launches,
        floor_s=_floor_s(hbm_bytes, flops, model, shard),
    )


def _attention_row(model: Model, shard: Shard, *, batch: int, rows_each: int, context_tokens: int) -> AccountRow:
    """Attention and recurrent state, with the seconds of the table itself."""
    classes = attention_classes(model, shard.tensor)
    read_bytes = flops = 0.0
    for group in classes:
        seen = int(seen_tokens(context_tokens, rows_each, group.window_tokens))
        pairs = int(seen_pairs(context_tokens, rows_each, group.window_tokens))
        read_bytes += batch * seen * group.kv_bytes_per_token
        flops += batch * pairs * group.flops_per_pair
    state_bytes = batch * state_bytes_per_sequence(model, shard.tensor)
    costs = forward_costs(model, shard, 1, rows=1)
    attention_s = decode_attention_s(costs, batch, rows_each=rows_each, context_tokens=context_tokens)
    return AccountRow(
        name="attention",
        term="attention",
        hbm_bytes=read_bytes + state_bytes,
        flops=flops,
        seconds=attention_s + costs.state_s_per_sequence * batch,
        launches=sum(group.layers for group in classes),
        floor_s=_floor_s(read_bytes + state_bytes, flops, model, shard),
    )


def _floor_s(hbm_bytes: float, flops: float, model: Model, shard: Shard) -> float:
    peaks = shard.gpu.peak_flops_per_s
    formats = (model.precision.attention, model.precision.ffn, model.precision.experts, model.precision.lm_head)
    fastest = max((peaks[fmt.math] for fmt in formats if fmt.math in peaks), default=max(peaks.values()))
    return float(np.maximum(hbm_bytes / shard.gpu.hbm_bytes_per_s, flops / fastest))
