"""Counting: parameters, bytes and flops of a `Model`. Pure; scalars and arrays alike.

One convention for "active" parameters: everything a token touches, i.e. all parameters but the routed experts
it does not use, with the input embedding table counted in full (so DeepSeek-V3 is 37.55 B, where its paper
prints 37 B; models whose cards leave the embedding out, like gpt-oss, come out larger here). Tied matrices
are counted once.
"""

from collections.abc import Iterable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from roofline.specs import Experts, Layer, Linear, Model, WeightFormat
from roofline.units import BITS_PER_BYTE

FloatArray = NDArray[np.float64]
Amount = TypeVar("Amount", float, FloatArray)
"""A number or an array of numbers: what goes in comes out."""


def linear_parameters(linear: Linear) -> int:
    """Entries of the matrix and of its bias."""
    return linear.weights + (linear.outputs if linear.bias else 0)


def linear_format(model: Model, linear: Linear) -> WeightFormat:
    """Format a matrix of a layer or of the inputs is stored in; what is never quantised has the embedding's
    format.
    """
    if not linear.quantised:
        return model.precision.embedding
    return model.precision.attention if linear.kind == "attention" else model.precision.ffn


def weight_formats(model: Model) -> frozenset[str]:
    """Names of the formats the model's matrices are multiplied in."""
    precision = model.precision
    linears = [*model.inputs, *(linear for layer in model.layers for linear in layer.linears)]
    names = {precision.lm_head.name, *(linear_format(model, linear).name for linear in linears)}
    experts = {precision.experts.name for layer in model.layers if layer.experts is not None}
    return frozenset(names | experts)


def parameters(model: Model) -> int:
    """Parameters the model holds itself: tied or shared tables once or not at all, MTP layers apart."""
    return _parameters(model, active=False)


def active_parameters(model: Model) -> int:
    """Parameters one token touches; the input embedding table is counted in full (see the module's
    convention).
    """
    return _parameters(model, active=True)


def mtp_parameters(model: Model) -> int:
    """Parameters of the multi-token-prediction layers shipped with a model; `parameters` omits them."""
    layers = sum(_layer_parameters(layer, active=False) for layer in model.mtp_layers)
    return layers + sum(linear_parameters(linear) for linear in model.mtp_inputs) + model.mtp_other_parameters


def _parameters(model: Model, *, active: bool) -> int:
    held = model.embedding_rows * model.hidden_size + model.other_parameters
    held += sum(linear_parameters(linear) for linear in model.inputs)
    held += linear_parameters(model.lm_head) if model.owns_lm_head else 0
    return held + sum(_layer_parameters(layer, active=active) for layer in model.layers)


def _layer_parameters(layer: Layer, *, active: bool) -> int:
    held = sum(linear_parameters(linear) for linear in layer.linears) + layer.other_parameters
    if layer.experts is not None:
        used = layer.experts.per_token if active else layer.experts.count
        held += used * _expert_parameters(layer.experts)
    return layer.count * held


def _expert_parameters(experts: Experts) -> int:
    return sum(linear_parameters(linear) for linear in experts.linears)


def weight_bytes(model: Model) -> int:
    """Bytes of the weights as stored, scales included; tables of other models (tied, shared) and MTP layers
    left out.
    """
    precision = model.precision
    bits = model.embedding_rows * model.hidden_size * precision.embedding.bits_per_weight
    bits += model.other_parameters * precision.embedding.bits_per_weight
    if model.owns_lm_head:
        bits += _linear_bits(model.lm_head, precision.lm_head, precision.embedding)
    bits += _linears_bits(model, model.inputs)
    bits += sum(_layer_bits(model, layer) for layer in model.layers)
    return round(bits / BITS_PER_BYTE)


def _layer_bits(model: Model, layer: Layer) -> float:
    bits = _linears_bits(model, layer.linears) + layer.other_parameters * model.precision.embedding.bits_per_weight
    if layer.experts is not None:
        each = sum(
            _linear_bits(linear, model.precision.experts, model.precision.embedding) for linear in layer.experts.linears
        )
        bits += layer.experts.count * each
    return layer.count * bits


def expert_bytes(model: Model) -> float:
    """Bytes of all routed experts as stored."""
    precision = model.precision
    bits = 0.0
    for layer in model.layers:
        if layer.experts is not None:
            each = sum(_linear_bits(item, precision.experts, precision.embedding) for item in layer.experts.linears)
            bits += layer.count * layer.experts.count * each
    return bits / BITS_PER_BYTE


def end_bytes(model: Model) -> tuple[float, float]:
    """Bytes of the tables at both ends: (input embedding, LM head; a tied head is the embedding again)."""
    embedding = model.embedding_rows * model.hidden_size * model.precision.embedding.bits_per_weight / BITS_PER_BYTE
    if not model.owns_lm_head:
        return embedding, embedding
    return embedding, _linear_bits(model.lm_head, model.precision.lm_head, model.precision.embedding) / BITS_PER_BYTE


def _linears_bits(model: Model, linears: Iterable[Linear]) -> float:
    return sum(_linear_bits(linear, linear_format(model, linear), model.precision.embedding) for linear in linears)


def _linear_bits(linear: Linear, fmt: WeightFormat, plain: WeightFormat) -> float:
    return linear.weights * fmt.bits_per_weight + (linear.outputs * plain.bits_per_weight if linear.bias else 0)


def kv_bytes_per_token(model: Model) -> float:
    """Bytes cached per token of context over all layers, while no window is full."""
    elements = sum(layer.count * layer.attention.kv_elements_per_token for layer in model.layers if layer.attention)
    return elements * model.precision.kv_bits / BITS_PER_BYTE


def state_bytes(model: Model) -> float:
    """Bytes of the fixed state one sequence holds in recurrent layers."""
    bits = sum(
        layer.count * layer.recurrence.state_elements * layer.recurrence.state_bits
        for layer in model.layers
        if layer.recurrence
    )
    return bits / BITS_PER_BYTE


def kv_bytes_for_context(model: Model, context_tokens: Amount) -> Amount:
    """Bytes one sequence holds at a context length: full windows stop growing, fixed states are counted from
    the start.
    """
    context = np.asarray(context_tokens, dtype=float)
    elements = np.zeros_like(context)
    for layer in model.layers:
        if layer.attention is not None:
            elements = elements + layer.count * layer.attention.kv_elements_per_token * _seen(context, layer)
    total = elements * model.precision.kv_bits / BITS_PER_BYTE + state_bytes(model)
    return cast(Amount, total if total.ndim else float(total))


def _seen(context: FloatArray, layer: Layer) -> FloatArray:
    window = layer.attention.window_tokens if layer.attention else None
    return context if window is None else np.minimum(context, window)


def flops_per_token(model: Model, context_tokens: float) -> dict[str, float]:
    """Floating-point operations of decoding one token, by operator; a multiply-add counts two.

    `context_tokens`: tokens the new one attends to, itself included. Elementwise work is left out.
    Keys: inputs, attention_gemm, ffn_gemm, experts, attention, recurrence, lm_head.
    """
    flops: dict[str, float] = dict.fromkeys(
        ("inputs", "attention_gemm", "ffn_gemm", "experts", "attention", "recurrence"), 0.0
    )
    flops["inputs"] = 2.0 * sum(linear.weights for linear in model.inputs)
    for layer in model.layers:
        for linear in layer.linears:
            flops[f"{linear.kind}_gemm"] += 2.0 * layer.count * linear.weights
        if layer.experts is not None:
            flops["experts"] += 2.0 * layer.count * layer.experts.per_token * layer.experts.weights_each
        if layer.attention is not None:
            seen = float(_seen(np.asarray(context_tokens, dtype=float), layer))
            flops["attention"] += layer.count * layer.attention.flops_per_pair * seen
        if layer.recurrence is not None:
            flops["recurrence"] += float(layer.count * layer.recurrence.flops_per_token)
    return flops | {"lm_head": 2.0 * model.lm_head.weights}


def experts_touched(count: int, per_token: int, tokens: Amount, skew: float = 0.0) -> Amount:
    """Expected number of distinct experts of a layer that `tokens` independent tokens use.

    `skew` 0: every expert is as likely, E (1 - (1 - k/E)^T). `skew` s > 0: expert i is used by a share of
    tokens proportional to 1/(i+1)^s, no share above one, the shares adding up to k; the sum over experts of 1
    - (1 - q_i)^T. Real routers are in between; tokens of one sequence are also alike, which this leaves out.
    """
    new = np.asarray(tokens, dtype=float)
    if skew == 0.0:
        touched = (
            count * -np.expm1(new * np.log1p(-per_token / count))
            if per_token < count
            else np.where(new > 0, count, 0.0)
        )
    else:
        shares = expert_shares(count, per_token, skew=skew)
        touched = (1.0 - np.power(1.0 - shares, new[..., None])).sum(axis=-1)
    result = np.asarray(touched, dtype=float)
    return cast(Amount, result if new.ndim else float(result))


def expert_shares(count: int, per_token: int, *, skew: float) -> FloatArray:
    """Share of tokens that use each expert, most popular first: at most one each, `per_token` together."""
    weights = np.arange(1, count + 1, dtype=float) ** -skew
    for always in range(per_token):
        scale = (per_token - always) / weights[always:].sum()
        if scale * weights[always] <= 1.0:
            return np.concatenate([np.ones(always), scale * weights[always:]])
    return np.concatenate([np.ones(per_token), np.zeros(count - per_token)])
