"""The same `StepCostTable`, with matrix times read from measured tables instead of fitted constants.

Everything that is no dense matrix (attention, experts, all-reduce, elementwise kernels, sampler, host) is priced by
the deployment's calibration, as in `roofline.cost`.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roofline.cost import Deployment, DraftWork, TableSize, step_cost_table
from roofline.counts import linear_format
from roofline.errors import OutsideDomain
from roofline.measured_matrices import MeasuredMatrices
from roofline.operators import Shard, cut_shape, forward_operators, launches, logits_operators, padded_tokens
from roofline.specs import Linear, Model
from roofline.step_table import StepCostTable

FloatArray = NDArray[np.float64]


def measured_cost_table(
    target: Model,
    deployment: Deployment,
    *,
    measured: tuple[MeasuredMatrices, ...],
    size: TableSize,
    draft: Model | None = None,
    work: DraftWork | None = None,
) -> StepCostTable:
    """Tabulate a deployment with the target's matrices as measured; the draft keeps the fitted constants.

    Raises
    ------
    OutsideDomain
        The target has a weight format that was not measured.
    """
    table = step_cost_table(target, deployment, size=size, draft=draft, work=work)
    shard = deployment.shard()
    tokens, rows = len(table.target.trunk_s), len(table.target.logits_s)
    costs = replace(
        table.target,
        trunk_s=measured_trunk_s(target, np.arange(tokens), shard=shard, measured=measured),
        logits_s=measured_logits_s(target, np.arange(rows), shard=shard, measured=measured),
    )
    return replace(table, target=costs)


def measured_trunk_s(
    model: Model, tokens: NDArray[np.int64], *, shard: Shard, measured: tuple[MeasuredMatrices, ...]
) -> FloatArray:
    """As `roofline.cost.trunk_s`, with measured matrices."""
    padded = padded_tokens(tokens, shard.graph_tokens)
    linears = [(1, linear) for linear in model.inputs]
    linears += [(layer.count, linear) for layer in model.layers for linear in layer.linears]
    names = {linear.name for _, linear in linears}
    operators = list(forward_operators(model, padded, shard))
    device_s = np.zeros(len(tokens))
    for operator in operators:
        if operator.name not in names:
            device_s = device_s + operator.seconds
    for count, linear in linears:
        device_s = device_s + count * _linear_s(model, linear, padded, shard, measured)
    device_s = np.where(tokens > 0, device_s, 0.0)
    largest_graph = shard.graph_tokens[-1] if shard.graph_tokens else 0
    launch_s = np.where(tokens > 0, launches(operators) * shard.calibration.host.launch_s, 0.0)
    return np.where(tokens > largest_graph, np.maximum(device_s, launch_s), device_s)


def measured_logits_s(
    model: Model, rows: NDArray[np.int64], *, shard: Shard, measured: tuple[MeasuredMatrices, ...]
) -> FloatArray:
    """LM head as measured, and the gathering of its slices."""
    head = _measured(measured, model.precision.lm_head.name).product_s(rows, cut_shape(model.lm_head, shard.tensor))
    others = [operator.seconds for operator in logits_operators(model, rows, shard) if operator.name != "lm_head"]
    return np.where(rows > 0, head, 0.0) + sum(others, np.zeros(len(rows)))


def _linear_s(
    model: Model, linear: Linear, tokens: NDArray[np.int64], shard: Shard, measured: tuple[MeasuredMatrices, ...]
) -> FloatArray:
    own = _measured(measured, linear_format(model, linear).name)
    return own.product_s(tokens, cut_shape(linear, shard.tensor))


def _measured(measured: tuple[MeasuredMatrices, ...], weights: str) -> MeasuredMatrices:
    for one in measured:
        if one.weights == weights:
            return one
    known = ", ".join(sorted(one.weights for one in measured)) or "none"
    raise OutsideDomain(f"no measured products with {weights!r} weights (there are: {known}); use fitted constants")
