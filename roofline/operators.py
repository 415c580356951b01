"""Operators of one forward pass: bytes, flops and seconds of each, for any number of new tokens.

The one place where counts meet ceilings. Tokens may be a scalar or an array; every result has its shape.
Attention is priced apart (`roofline.attention`), since it depends on contexts and not on tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.calibration import Calibration, OperatorFit
from roofline.collectives import all_reduce_s
from roofline.counts import experts_touched, linear_format, weight_bytes
from roofline.expert_groups import busiest_experts, busiest_rows
from roofline.kernel_bands import banded_s
from roofline.specs import Gpu, Layer, Linear, Model, WeightFormat
from roofline.units import BITS_PER_BYTE

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shard:
    """One GPU's part of a model: the machine, its constants, and over how many GPUs the model is cut.

    `graph_tokens`: sizes, ascending, to which a step is padded because a graph was captured for each;
    above the largest, or with none, operators are launched one by one.
    `routing_skew`: 0 is uniform expert routing, see `roofline.counts.experts_touched`. `whole_experts`: experts are
    dealt to the GPUs whole, see `roofline.expert_groups`. `data`: ranks of attention data parallelism, over all of
    which the routed experts are spread; a rank's other matrices are its own.
    """

    gpu: Gpu
    calibration: Calibration
    tensor: int = 1
    graph_tokens: tuple[int, ...] = ()
    routing_skew: float = 0.0
    whole_experts: bool = False
    data: int = 1


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator class member over a whole pass, on one GPU; arrays by tokens."""

    name: str
    term: str
    hbm_bytes: FloatArray
    flops: FloatArray
    seconds: FloatArray
    launches: int


def joined_s(memory_s: ArrayLike, compute_s: ArrayLike, p_norm: float | None) -> FloatArray:
    """`(m**p + c**p)**(1/p)` elementwise, in seconds; the maximum where `p_norm` is None."""
    memory, compute = np.broadcast_arrays(np.asarray(memory_s, float), np.asarray(compute_s, float))
    larger = np.maximum(memory, compute)
    if p_norm is None:
        return larger
    ratio = np.divide(np.minimum(memory, compute), larger, out=np.zeros_like(larger), where=larger > 0)
    return larger * (1.0 + ratio**p_norm) ** (1.0 / p_norm)


def knot_factor(fit: OperatorFit, rows: ArrayLike) -> FloatArray:
    """Factor of the kernel chosen at that many rows (`OperatorFit.knots`); 1 without knots."""
    factors = np.array([1.0, *(knot.factor for knot in fit.knots)])
    return factors[np.searchsorted([knot.rows for knot in fit.knots], np.asarray(rows, float), side="right")]


def operator_s(
    fit: OperatorFit, hbm_bytes: ArrayLike, flops: ArrayLike, *, cached: bool = False, rows: ArrayLike = 0
) -> FloatArray:
    """Seconds of one launch that moves `hbm_bytes` and does `flops` over `rows` rows (DESIGN: cost of a step)."""
    streaming_bytes_per_s = fit.cache_bytes_per_s if cached and fit.cache_bytes_per_s else fit.bytes_per_s
    memory_s = np.asarray(hbm_bytes, float) / streaming_bytes_per_s
    compute_s = np.asarray(flops, float) / fit.flops_per_s
    return fit.overhead_s + joined_s(memory_s, compute_s, fit.p_norm) * knot_factor(fit, rows)


def matrix_s(
    fit: OperatorFit,
    hbm_bytes: FloatArray,
    flops: FloatArray,
    *,
    rows: FloatArray,
    shape: tuple[float, float],
    cached: bool = False,
) -> FloatArray:
    """Seconds of one matrix of `shape` (inner, columns) on one GPU, by the kernel bands where the fit has them."""
    if not fit.bands:
        return operator_s(fit, hbm_bytes, _tiled(flops, rows, fit), cached=cached, rows=rows)
    inner, columns = shape
    seconds = banded_s(fit.bands, hbm_bytes, flops, rows=rows, columns=columns, inner=inner, processors=fit.processors)
    return seconds * knot_factor(fit, rows)


def padded_tokens(tokens: ArrayLike, graph_tokens: tuple[int, ...]) -> NDArray[np.int64]:
    """Tokens a captured graph really runs: the next captured size; unchanged above the largest."""
    asked = np.asarray(tokens, dtype=np.int64)
    if not graph_tokens:
        return asked
    sizes = np.asarray(graph_tokens, dtype=np.int64)
    index = np.minimum(np.searchsorted(sizes, asked), len(sizes) - 1)
    return np.where((asked > sizes[-1]) | (asked == 0), asked, sizes[index])


def forward_operators(model: Model, tokens: ArrayLike, shard: Shard) -> Iterator[OperatorCost]:
    """Every operator of the pass but attention and the LM head, layers multiplied out.

    Parameters
    ----------
    tokens
        New tokens of the pass, already padded; scalar or array.
    """
    count = np.asarray(tokens, dtype=float)
    cached = _fits_cache(model, shard)
    for linear in model.inputs:
        yield _linear_cost(linear, 1, count, model=model, shard=shard, cached=cached)
    for layer in model.layers:
        for linear in layer.linears:
            yield _linear_cost(linear, layer.count, count, model=model, shard=shard, cached=cached)
        if layer.experts is not None:
            yield _experts_cost(layer, count, model=model, shard=shard)
        yield _elementwise_cost(layer, count, model=model, shard=shard)
        if shard.tensor > 1:
            yield _all_reduce_cost(layer, count, model=model, shard=shard)


def logits_operators(model: Model, rows: ArrayLike, shard: Shard) -> Iterator[OperatorCost]:
    """LM head over `rows`, and the gathering of its slices when the vocabulary is cut over GPUs."""
    count = np.asarray(rows, dtype=float)
    fmt = model.precision.lm_head
    fit = shard.calibration.operator("lm_head", fmt.name)
    head = model.lm_head
    hbm_bytes, flops = _matrix_counts(
        head, fmt, count, tensor=shard.tensor, activation_bytes=model.precision.activation_bytes
    )
    seconds = matrix_s(
        fit,
        hbm_bytes,
        flops,
        rows=count,
        shape=cut_shape(head, shard.tensor),
        cached=_fits_cache(model, shard),
    )
    yield OperatorCost("lm_head", "logits", hbm_bytes, flops, np.where(count > 0, seconds, 0.0), 1)
    if shard.tensor > 1:
        link = shard.calibration.collective(shard.tensor)
        moved_bytes = count * head.outputs * model.precision.activation_bytes * (shard.tensor - 1) / shard.tensor
        seconds = link.latency_s + moved_bytes / link.bytes_per_s
        zero = np.zeros_like(count)
        yield OperatorCost("logits_gather", "collective", zero, zero, np.where(count > 0, seconds, 0.0), 1)


def launches(operators: list[OperatorCost]) -> int:
    """Operators a pass launches, for the host time of an eager pass."""
    return sum(operator.launches for operator in operators)


def _fits_cache(model: Model, shard: Shard) -> bool:
    largest = max((fit.cache_bytes for fit in shard.calibration.operators), default=0.0)
    return largest > 0.0 and weight_bytes(model) / shard.tensor <= largest


def _tiled(flops: FloatArray, rows: FloatArray, fit: OperatorFit) -> FloatArray:
    if fit.tile_tokens == 1:
        return flops
    tiles = np.ceil(rows / fit.tile_tokens) * fit.tile_tokens
    return flops * np.divide(tiles, rows, out=np.ones_like(rows), where=rows > 0)


def cut_shape(linear: Linear, tensor: int) -> tuple[float, float]:
    """(inputs, outputs) of one GPU's part of a matrix."""
    inputs = linear.inputs / (tensor if linear.shard == "row" else 1)
    return inputs, linear.outputs / (tensor if linear.shard == "column" else 1)


def _matrix_counts(
    linear: Linear, fmt: WeightFormat, tokens: FloatArray, *, tensor: int, activation_bytes: float
) -> tuple[FloatArray, FloatArray]:
    """HBM bytes and flops of one matrix on one GPU: weights once, activations in and out."""
    cut = 1 if linear.shard == "replicated" else tensor
    inputs, outputs = cut_shape(linear, tensor)
    hbm_bytes = (
        linear.weights / cut * fmt.bits_per_weight / BITS_PER_BYTE + tokens * (inputs + outputs) * activation_bytes
    )
    return hbm_bytes, 2.0 * tokens * linear.weights / cut


def _linear_cost(
    linear: Linear, layers: int, tokens: FloatArray, *, model: Model, shard: Shard, cached: bool
) -> OperatorCost:
    fmt = linear_format(model, linear)
    fit = shard.calibration.operator("gemm", fmt.name)
    hbm_bytes, flops = _matrix_counts(
        linear, fmt, tokens, tensor=shard.tensor, activation_bytes=model.precision.activation_bytes
    )
    shape = cut_shape(linear, shard.tensor)
    seconds = matrix_s(fit, hbm_bytes, flops, rows=tokens, shape=shape, cached=cached)
    seconds = np.where(tokens > 0, seconds, 0.0)
    return OperatorCost(linear.name, "gemm", layers * hbm_bytes, layers * flops, layers * seconds, layers)


def _experts_cost(layer: Layer, tokens: FloatArray, *, model: Model, shard: Shard) -> OperatorCost:
    """Routed experts: bytes of the experts touched, flops of the experts used; cut like the matrices."""
    experts = layer.experts
    assert experts is not None
    fmt = model.precision.experts
    fit = shard.calibration.operator("moe_gemm", fmt.name)
    touched = np.asarray(experts_touched(experts.count, experts.per_token, tokens, skew=shard.routing_skew), float)
    bytes_each = experts.weights_each * fmt.bits_per_weight / BITS_PER_BYTE
    rows = tokens * experts.per_token
    activation_elements = sum(linear.inputs + linear.outputs for linear in experts.linears)
    gpus = shard.tensor * shard.data
    cut = 1 if shard.whole_experts else gpus
    if shard.whole_experts and gpus > 1:
        touched = busiest_experts(experts.count, gpus, touched)
        rows = busiest_rows(rows, gpus)
    hbm_bytes = (touched * bytes_each + rows * activation_elements * model.precision.activation_bytes) / cut
    flops = 2.0 * rows * experts.weights_each / cut
    shape = (float(experts.linears[0].inputs), experts.linears[0].outputs / cut)
    seconds = np.where(tokens > 0, matrix_s(fit, hbm_bytes, flops, rows=tokens, shape=shape), 0.0)
    return OperatorCost(
        "experts",
        "gemm",
        layer.count * hbm_bytes,
        layer.count * flops,
        layer.count * seconds,
        layer.count * 2,
    )


def _elementwise_cost(layer: Layer, tokens: FloatArray, *, model: Model, shard: Shard) -> OperatorCost:
    fit = shard.calibration.operator("elementwise", "any")
    hbm_bytes = tokens * layer.elementwise_elements * model.precision.activation_bytes
    recurrent = layer.recurrence.flops_per_token if layer.recurrence is not None else 0
    flops = tokens * (layer.elementwise_elements + recurrent / shard.tensor)
    seconds = np.where(tokens > 0, operator_s(fit, hbm_bytes, flops), 0.0)
    return OperatorCost(
        "elementwise",
        "elementwise",
        layer.count * hbm_bytes,
        layer.count * flops,
        layer.count * seconds,
        layer.count * 4,
    )


def _all_reduce_cost(layer: Layer, tokens: FloatArray, *, model: Model, shard: Shard) -> OperatorCost:
    """One all-reduce after each part of a layer that ends in row-cut matrices: the mixer, the feed-forward part."""
    link = shard.calibration.collective(shard.tensor)
    message_bytes = tokens * model.hidden_size * model.precision.activation_bytes
    seconds = np.where(tokens > 0, all_reduce_s(link, message_bytes), 0.0)
    row_cut = {linear.kind for linear in layer.linears if linear.shard == "row"}
    parts = int("attention" in row_cut) + int("ffn" in row_cut or layer.experts is not None)
    calls = parts * layer.count
    zero = np.zeros_like(tokens)
    return OperatorCost("all_reduce", "collective", zero, zero, calls * seconds, calls)
