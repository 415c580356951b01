import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from roofline.speculation import (
    LatencyModel,
    additive_crossover_batch,
    alpha_from_length,
    best_draft_tokens,
    break_even_alpha,
    checked_positions,
    conditional,
    crossover_batches,
    crossover_rate_per_s,
    expected_tokens,
    latency_model,
    length_from_positions,
    length_from_rate,
    minimum_variance_positions,
    positions_from_alpha,
    positions_from_length,
    rate_from_length,
    speedup,
    textbook_round_ratio,
    textbook_speedup,
    unconditional,
)

ALPHAS = st.floats(0.0, 1.0)
DRAFTS = st.integers(1, 20)


def test_expected_tokens_at_alpha_seven_tenths():
    assert np.round(expected_tokens(0.7, [1, 2, 3, 5, 7]), 2).tolist() == [1.7, 2.19, 2.53, 2.94, 3.14]


def test_break_even_alpha_of_a_draft_at_a_tenth_of_a_step():
    ratios = textbook_round_ratio([1, 3, 5, 7], 0.1)
    assert np.round(break_even_alpha([1, 3, 5, 7], ratios), 2).tolist() == [0.1, 0.23, 0.33, 0.41]


def test_best_drafts_at_alpha_seven_tenths_and_a_draft_at_a_tenth():
    drafts = np.arange(21)
    best = best_draft_tokens(expected_tokens(0.7, drafts), textbook_round_ratio(drafts, 0.1))
    assert best.draft_tokens == 4
    assert round(best.speedup, 2) == 1.98
    assert best.speedup == pytest.approx(textbook_speedup(0.7, 4, draft_cost_ratio=0.1))


def test_no_drafts_are_best_where_no_round_pays():
    drafts = np.arange(9)
    best = best_draft_tokens(expected_tokens(0.05, drafts), textbook_round_ratio(drafts, 0.3))
    assert (best.draft_tokens, best.speedup) == (0, 1.0)


@given(ALPHAS, DRAFTS)
def test_alpha_survives_the_way_through_the_length(alpha: float, drafts: int):
    length = expected_tokens(alpha, drafts)
    assert expected_tokens(alpha_from_length(length, drafts), drafts) == pytest.approx(length, rel=1e-12)
    assert alpha_from_length(length, drafts) == pytest.approx(alpha, abs=1e-7)


@given(ALPHAS, ALPHAS, DRAFTS)
def test_length_grows_with_alpha_and_with_drafts(first: float, second: float, drafts: int):
    low, high = sorted((first, second))
    assert expected_tokens(low, drafts) <= expected_tokens(high, drafts) + 1e-12
    assert expected_tokens(low, drafts) <= expected_tokens(low, drafts + 1) + 1e-12
    assert 1.0 <= expected_tokens(low, drafts) <= drafts + 1.0 + 1e-12


@given(ALPHAS, DRAFTS)
def test_positions_never_increase_and_sum_to_the_length(alpha: float, drafts: int):
    positions = positions_from_alpha(alpha, drafts)
    assert np.all(np.diff(positions) <= 0)
    assert length_from_positions(positions) == pytest.approx(expected_tokens(alpha, drafts))


@given(st.data(), DRAFTS)
def test_both_shapes_of_a_length_have_that_length(data, drafts: int):
    length = data.draw(st.floats(1.0, drafts + 1.0))
    for shape in (positions_from_length(length, drafts), minimum_variance_positions(length, drafts)):
        assert len(shape) == drafts
        assert length_from_positions(shape) == pytest.approx(length, rel=1e-9)


def test_the_minimum_variance_shape_is_the_engines():
    assert minimum_variance_positions(2.4, 3).tolist() == pytest.approx([1.0, 0.4, 0.0])


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=8))
def test_conditional_and_unconditional_shares_are_inverse(shares: list[float]):
    assert conditional(unconditional(shares)) == pytest.approx(np.array(shares), rel=1e-9)


def test_conditional_shares_are_zero_where_no_round_got():
    assert conditional([0.5, 0.0, 0.0]).tolist() == [0.5, 0.0, 0.0]


@given(ALPHAS, DRAFTS)
def test_the_acceptance_rate_falls_with_drafts_and_converts_back(alpha: float, drafts: int):
    length = expected_tokens(alpha, drafts)
    rate = rate_from_length(length, drafts)
    assert length_from_rate(rate, drafts) == pytest.approx(length)
    assert rate_from_length(expected_tokens(alpha, drafts + 1), drafts + 1) <= rate + 1e-12


@given(ALPHAS, DRAFTS, st.floats(0.0, 1.0))
def test_scalars_and_arrays_agree(alpha: float, drafts: int, cost: float):
    both = expected_tokens(np.array([alpha, 0.3]), np.array([drafts, 2]))
    assert isinstance(both, np.ndarray)
    assert both[0] == expected_tokens(alpha, drafts)
    gains = textbook_speedup([alpha], [drafts], draft_cost_ratio=[cost])
    assert isinstance(gains, np.ndarray)
    assert gains[0] == textbook_speedup(alpha, drafts, draft_cost_ratio=cost)


@given(DRAFTS, st.floats(0.0, 0.9))
def test_at_break_even_the_speed_up_is_one(drafts: int, cost: float):
    ratio = textbook_round_ratio(drafts, cost)
    alpha = break_even_alpha(drafts, ratio)
    assert textbook_speedup(alpha, drafts, draft_cost_ratio=cost) == pytest.approx(1.0)


def test_a_round_no_acceptance_can_pay_for_is_refused():
    with pytest.raises(InvalidInput, match="no acceptance pays"):
        break_even_alpha(2, 3.1)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: expected_tokens(1.2, 3), "alpha"),
        (lambda: expected_tokens(float("nan"), 3), "alpha"),
        (lambda: expected_tokens(0.5, -1), "draft_tokens"),
        (lambda: expected_tokens(0.5, 1.5), "draft_tokens"),
        (lambda: alpha_from_length(4.5, 3), "acceptance_length"),
        (lambda: alpha_from_length(0.9, 3), "acceptance_length"),
        (lambda: rate_from_length(1.0, 0), "draft_tokens"),
        (lambda: speedup(2.0, 0.0), "round_ratio"),
        (lambda: checked_positions([0.5, 0.6]), "must not increase"),
        (lambda: checked_positions([[0.5], [0.4]]), "one list"),
        (lambda: crossover_batches([2, 1], [1.5, 0.5]), "increasing"),
    ],
)
def test_wrong_input_is_named(call, field: str):
    with pytest.raises(InvalidInput, match=field):
        call()


def test_crossings_are_found_in_both_directions():
    assert crossover_batches([1, 2, 4, 8], [1.5, 0.5, 0.5, 1.5]) == (1.5, 6.0)
    assert crossover_batches([1, 2], [2.0, 1.5]) == ()


@given(st.floats(0.3, 0.95), st.integers(1, 8), st.floats(0.0, 0.1), st.floats(0.0, 0.1))
def test_the_additive_crossover_is_where_both_arms_emit_alike(alpha, drafts, fixed, slope):
    length, knee = expected_tokens(alpha, drafts), 15.0
    batch = additive_crossover_batch(length, drafts, knee_tokens=knee, draft_fixed_ratio=fixed, draft_slope_ratio=slope)
    assume(batch > 0)
    plain = 1 + batch / knee
    verify = 1 + batch * (drafts + 1) / knee
    draft = drafts * (fixed + slope * batch / knee)
    assert length / (verify + draft) == pytest.approx(1 / plain)


def test_the_additive_crossover_of_the_cpu_study():
    """Knee 17 tokens, free draft, by hand: 17 x 1.3056 / 2.6944."""
    assert additive_crossover_batch(expected_tokens(0.6, 4), 4, knee_tokens=17.0) == pytest.approx(8.2375, abs=1e-3)
    assert additive_crossover_batch(1.0, 4, knee_tokens=17.0) == 0.0


def test_latency_follows_littles_law():
    model = LatencyModel(load_independent_s=2.0, load_dependent_s=0.1)
    rate = 4.0
    assert model.latency_s(rate) == pytest.approx(2.0 + model.batch(rate) * 0.1)
    assert model.batch(rate) == pytest.approx(rate * model.latency_s(rate))
    assert model.saturation_rate_per_s == pytest.approx(10.0)
    with pytest.raises(InvalidInput, match="saturation"):
        model.latency_s(10.0)


def test_two_latencies_meet_at_the_crossover_rate():
    plain = latency_model(0.01, 0.0001, output_tokens=101, prefill_s=0.02)
    speculative = latency_model(0.013, 0.0004, output_tokens=101, acceptance_length=2.5, prefill_s=0.02)
    rate = crossover_rate_per_s(plain, speculative)
    assert plain.latency_s(rate) == pytest.approx(speculative.latency_s(rate))
    assert speculative.latency_s(rate / 2) < plain.latency_s(rate / 2)


def test_no_crossover_rate_is_said_in_words():
    fast, slow = LatencyModel(1.0, 0.01), LatencyModel(2.0, 0.02)
    with pytest.raises(InvalidInput, match="faster up to saturation"):
        crossover_rate_per_s(slow, fast)
    with pytest.raises(InvalidInput, match="slower already"):
        crossover_rate_per_s(fast, slow)
