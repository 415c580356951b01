"""Closed forms of speculative decoding: expected tokens, speed-ups, break-even points, crossovers.

Symbols as in docs/model.md: K drafts per round, alpha the i.i.d. conditional acceptance, p_i the unconditional
share of rounds in which at least i drafts were accepted, AL the acceptance length (bonus included), R the cost of a
round in plain steps, S = AL / R. Functions take scalars or arrays and agree on both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
Amount = float | FloatArray
_BISECTIONS = 80
"""Halvings of [0, 1]: beyond the resolution of a float."""


def expected_tokens(alpha: ArrayLike, draft_tokens: ArrayLike) -> Amount:
    """AL = 1 + alpha + ... + alpha^K: tokens a sequence emits per round, bonus included (arXiv 2211.17192)."""
    share, drafts = np.broadcast_arrays(_shares("alpha", alpha), _drafts(draft_tokens))
    total = np.ones(share.shape)
    for done in range(int(drafts.max(initial=0.0))):
        total = np.where(done < drafts, 1.0 + share * total, total)
    return _same_shape(total)


def length_from_positions(positions: Sequence[float] | FloatArray) -> float:
    """AL = 1 + sum of the unconditional shares p_1 .. p_K."""
    return 1.0 + float(checked_positions(positions).sum())


def checked_positions(positions: Sequence[float] | FloatArray) -> FloatArray:
    """The shares as an array; refuses what cannot be unconditional shares: outside 0..1, or increasing."""
    shares = _shares("per-position shares", positions)
    if shares.ndim != 1:
        raise InvalidInput(f"per-position shares must be one list, got {shares.ndim} dimensions; give p_1 .. p_K")
    rises = np.flatnonzero(np.diff(shares) > 0)
    if rises.size:
        first = int(rises[0])
        raise InvalidInput(
            f"per-position shares must not increase, got p_{first + 1} = {shares[first]:g} before "
            f"p_{first + 2} = {shares[first + 1]:g}; conditional shares must be multiplied up first"
        )
    return shares


def unconditional(conditional: Sequence[float] | FloatArray) -> FloatArray:
    """p_i from c_i = p_i / p_(i-1)."""
    return np.cumprod(_shares("conditional shares", conditional), dtype=np.float64)


def conditional(positions: Sequence[float] | FloatArray) -> FloatArray:
    """c_i = p_i / p_(i-1); 0 where no round got that far."""
    shares = checked_positions(positions)
    before = np.concatenate(([1.0], shares[:-1]))
    return np.divide(shares, before, out=np.zeros_like(shares), where=before > 0)


def alpha_from_length(acceptance_length: ArrayLike, draft_tokens: ArrayLike) -> Amount:
    """The i.i.d. alpha that gives this AL at this K.

    Raises
    ------
    InvalidInput
        AL outside 1..K + 1.
    """
    length = _lengths(acceptance_length, draft_tokens)
    length, drafts = np.broadcast_arrays(length, _drafts(draft_tokens))
    low, high = np.zeros(length.shape), np.ones(length.shape)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        below = np.asarray(expected_tokens(middle, drafts)) < length
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return _same_shape(np.where(drafts == 0, 0.0, (low + high) / 2))


def positions_from_alpha(alpha: float, draft_tokens: int) -> FloatArray:
    """p_i = alpha^i, i = 1..K."""
    exponents = np.arange(1, int(_drafts(draft_tokens)) + 1, dtype=np.float64)
    return np.power(_shares("alpha", alpha), exponents)


def positions_from_length(acceptance_length: float, draft_tokens: int) -> FloatArray:
    """The geometric p_i with this AL at this K: the shape used for questions about other K."""
    return positions_from_alpha(float(alpha_from_length(acceptance_length, draft_tokens)), draft_tokens)


def minimum_variance_positions(acceptance_length: float, draft_tokens: int) -> FloatArray:
    """1, ..., 1, fraction, 0, ..., 0 with this AL: what an engine's synthetic acceptance replays.

    For replaying such runs only: under it no K beyond ceil(AL - 1) could ever win.
    """
    accepted = float(_lengths(acceptance_length, draft_tokens)) - 1.0
    before = np.arange(int(_drafts(draft_tokens)), dtype=np.float64)
    return np.clip(accepted - before, 0.0, 1.0)


def rate_from_length(acceptance_length: ArrayLike, draft_tokens: ArrayLike) -> Amount:
    """Acceptance rate accepted / drafted = (AL - 1) / K; it falls with K on identical work."""
    drafts = _drafts(draft_tokens)
    _refuse_zero_drafts(drafts)
    return _same_shape((_lengths(acceptance_length, draft_tokens) - 1.0) / drafts)


def length_from_rate(acceptance_rate: ArrayLike, draft_tokens: ArrayLike) -> Amount:
    """AL from accepted / drafted at the K it was measured with."""
    return _same_shape(1.0 + _shares("acceptance rate", acceptance_rate) * _drafts(draft_tokens))


def speedup(acceptance_length: ArrayLike, round_ratio: ArrayLike) -> Amount:
    """S = AL / R; speculation pays iff AL > R."""
    return _same_shape(np.asarray(acceptance_length, float) / _positive("round_ratio", round_ratio))


def textbook_round_ratio(draft_tokens: ArrayLike, draft_cost_ratio: ArrayLike) -> Amount:
    """R = 1 + K c with c = time of one draft pass / time of one plain step; verification is taken as free."""
    return _same_shape(1.0 + _drafts(draft_tokens) * np.asarray(draft_cost_ratio, float))


def textbook_speedup(alpha: ArrayLike, draft_tokens: ArrayLike, *, draft_cost_ratio: ArrayLike) -> Amount:
    """S of Leviathan et al. (arXiv 2211.17192, theorem 3.8)."""
    return speedup(expected_tokens(alpha, draft_tokens), textbook_round_ratio(draft_tokens, draft_cost_ratio))


def break_even_alpha(draft_tokens: ArrayLike, round_ratio: ArrayLike) -> Amount:
    """Smallest alpha at which a round of cost R pays for itself: AL(alpha, K) = R. The break-even AL is R itself.

    Raises
    ------
    InvalidInput
        R above K + 1: no acceptance pays for such a round.
    """
    ratio = _positive("round_ratio", round_ratio)
    drafts = _drafts(draft_tokens)
    if np.any(ratio > drafts + 1.0):
        raise InvalidInput(
            f"round_ratio must be at most K + 1 for a break-even to exist, got {ratio} at K = {drafts}; "
            "no acceptance pays for such a round, lower K or the cost of the draft"
        )
    return alpha_from_length(np.maximum(ratio, 1.0), draft_tokens)


@dataclass(frozen=True, slots=True)
class BestDraft:
    """K with the largest speed-up, and that speed-up; K = 0 where no round pays."""

    draft_tokens: int
    speedup: float


def best_draft_tokens(acceptance_lengths: ArrayLike, round_ratios: ArrayLike) -> BestDraft:
    """Best K from AL and R by K, arrays of shape (K_max + 1,) whose first entries are K = 0 (AL = R = 1)."""
    gains = np.atleast_1d(np.asarray(speedup(acceptance_lengths, round_ratios)))
    best = int(np.argmax(gains))
    return BestDraft(best, float(gains[best]))


def crossover_batches(batches: ArrayLike, speedups: ArrayLike) -> tuple[float, ...]:
    """Batches at which S crosses 1, interpolated linearly between the given ones, ascending; empty: never.

    Any cost function will do: tabulate S over batches first. Both directions are reported, since at long context
    speculation may stop paying and pay again.
    """
    where, gain = np.asarray(batches, float), np.asarray(speedups, float) - 1.0
    if where.ndim != 1 or where.shape != gain.shape or np.any(np.diff(where) <= 0):
        raise InvalidInput("batches must be one increasing list as long as speedups; sort and pair them")
    crossings: list[float] = []
    for left in range(len(where) - 1):
        if (gain[left] > 0) != (gain[left + 1] > 0):
            share = gain[left] / (gain[left] - gain[left + 1])
            crossings.append(float(where[left] + share * (where[left + 1] - where[left])))
    return tuple(crossings)


def additive_crossover_batch(
    acceptance_length: ArrayLike,
    draft_tokens: ArrayLike,
    *,
    knee_tokens: ArrayLike,
    draft_fixed_ratio: ArrayLike = 0.0,
    draft_slope_ratio: ArrayLike = 0.0,
) -> Amount:
    """Batch above which speculation loses where step time is additive: t(T) = t0 (1 + T / knee).

    B* = T0 (AL - 1 - K d0) / (K + 1 - AL + K d1), with d0 a draft pass's fixed time over the target's and d1 its
    time per token over the target's time per token. Attention is left out. 0: it loses at every batch.

    Raises
    ------
    InvalidInput
        K + 1 - AL + K d1 = 0: every draft is accepted by a free draft and no batch is the last to pay.
    """
    drafts, length = _drafts(draft_tokens), _lengths(acceptance_length, draft_tokens)
    gain = length - 1.0 - drafts * np.asarray(draft_fixed_ratio, float)
    loss = drafts + 1.0 - length + drafts * np.asarray(draft_slope_ratio, float)
    if np.any(loss <= 0):
        raise InvalidInput("acceptance_length must be below K + 1, or the draft cost something per token; lower it")
    return _same_shape(np.maximum(_positive("knee_tokens", knee_tokens) * gain / loss, 0.0))


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Mean latency under load in closed form: L = C1 + B C2 with B = rate x L by Little's law (arXiv 2605.15051).

    `load_independent_s` (C1): what a request takes alone. `load_dependent_s` (C2): what each other request in
    the batch adds to it.
    """

    load_independent_s: float
    load_dependent_s: float

    @property
    def saturation_rate_per_s(self) -> float:
        """Requests per second at which the batch grows without bound."""
        if self.load_dependent_s <= 0:
            raise InvalidInput("load_dependent_s must be positive for a saturation rate; nothing grows with load")
        return 1.0 / self.load_dependent_s

    def latency_s(self, rate_per_s: float) -> float:
        """Mean latency at a request rate; raises `InvalidInput` at and above saturation."""
        share = 1.0 - rate_per_s * self.load_dependent_s
        if rate_per_s < 0 or share <= 0:
            raise InvalidInput(
                f"rate_per_s must be in 0..{self.saturation_rate_per_s:.6g} (saturation, excluded), "
                f"got {rate_per_s:g}; lower the rate or add replicas"
            )
        return self.load_independent_s / share

    def batch(self, rate_per_s: float) -> float:
        """Mean number of requests in the batch, by Little's law."""
        return rate_per_s * self.latency_s(rate_per_s)


def latency_model(
    step_base_s: float,
    step_per_sequence_s: float,
    *,
    output_tokens: float,
    acceptance_length: float = 1.0,
    prefill_s: float = 0.0,
) -> LatencyModel:
    """Latency model of requests of `output_tokens` whose steps take base + slope x batch.

    The first token comes from the prefill, the others from (output_tokens - 1) / AL rounds. Others' prefills run
    in the same engine: each request's prefill is added to C1 once for itself and to C2 for everyone else.
    """
    rounds = (output_tokens - 1.0) / acceptance_length
    return LatencyModel(
        load_independent_s=prefill_s + rounds * step_base_s,
        load_dependent_s=prefill_s + rounds * step_per_sequence_s,
    )


def crossover_rate_per_s(plain: LatencyModel, speculative: LatencyModel) -> float:
    """Request rate above which the speculative latency exceeds the plain one.

    Raises
    ------
    InvalidInput
        One of the two is never slower before either saturates; the message says which.
    """
    gain = plain.load_independent_s - speculative.load_independent_s
    slope = (
        plain.load_independent_s * speculative.load_dependent_s
        - speculative.load_independent_s * plain.load_dependent_s
    )
    if gain <= 0:
        raise InvalidInput("speculation is slower already without load; there is no rate above which it turns so")
    if slope <= 0 or gain / slope >= min(plain.saturation_rate_per_s, speculative.saturation_rate_per_s):
        raise InvalidInput("speculation is faster up to saturation; there is no rate above which it is slower")
    return gain / slope


def _same_shape(values: ArrayLike) -> Amount:
    array = np.asarray(values, dtype=float)
    return float(array) if array.ndim == 0 else array


def _shares(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if not np.all((array >= 0.0) & (array <= 1.0)):
        raise InvalidInput(f"{name} must be in 0..1, got {values}; a share is accepted over possible, not percent")
    return array


def _drafts(draft_tokens: ArrayLike) -> FloatArray:
    array = np.asarray(draft_tokens, dtype=float)
    if not np.all((array >= 0) & (array == np.floor(array))):
        raise InvalidInput(f"draft_tokens must be whole and at least 0, got {draft_tokens}; give K")
    return array


def _lengths(acceptance_length: ArrayLike, draft_tokens: ArrayLike) -> FloatArray:
    length, limit = np.asarray(acceptance_length, dtype=float), _drafts(draft_tokens) + 1.0
    if not np.all((length >= 1.0) & (length <= limit)):
        raise InvalidInput(
            f"acceptance_length must be in 1..K + 1 = {limit}, got {acceptance_length}; it counts the bonus token"
        )
    return length


def _positive(name: str, values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if not np.all((array > 0) & np.isfinite(array)):
        raise InvalidInput(f"{name} must be positive and finite, got {values}; check the costs it came from")
    return array


def _refuse_zero_drafts(drafts: FloatArray) -> None:
    if np.any(drafts == 0):
        raise InvalidInput("draft_tokens must be at least 1 for an acceptance rate, got 0; nothing was drafted")
