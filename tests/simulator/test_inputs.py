"""What may go into a simulation: refusals name the field, the value and the way out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance, LengthAcceptance, PerPositionAcceptance
from simulator.policy import DraftByBatch, FixedDraft
from simulator.proposers import NgramProposer
from simulator.result import Slo
from simulator.rng import ALWAYS, Streams, luck, luck_keys, threshold
from simulator.workload import (
    empirical_lengths,
    gamma_arrivals,
    lognormal_lengths,
    make_workload,
    poisson_arrivals,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IidAcceptance(1.2), "alpha must be in 0..1, got 1.2"),
        (lambda: LengthAcceptance(4.5, 3), r"must be in 1\.\.4 .* got 4.5"),
        (lambda: LengthAcceptance(1.5, 0), "at least 1, got 0"),
        (lambda: PerPositionAcceptance((0.5, 0.6)), "p_2 must be in 0..0.5"),
        (lambda: PerPositionAcceptance(()), "needs at least one share"),
        (lambda: PerPositionAcceptance((0.5,)).conditional(2), "given for 1 positions, K = 2"),
        (lambda: FixedDraft(-1), "draft_tokens must be 0 or more, got -1"),
        (lambda: DraftByBatch(((2, 3, 1),)), "start at batch size 1"),
        (lambda: DraftByBatch(((1, 3, 1), (3, 4, 0))), "overlaps"),
        (lambda: DraftByBatch(((1, 3, -1),)), "K must be 0 or more"),
        (lambda: NgramProposer(1.5), "match_fraction must be in 0..1, got 1.5"),
        (lambda: Slo("tpot", 0.95, float("nan")), "positive time, got nan"),
        (lambda: Slo("tpot", 0.0, 1.0), "quantile must be in"),
        (
            lambda: make_workload([0.0, -1.0], prompt_tokens=[1, 1], output_tokens=[1, 1]),
            r"arrival_s\[1\] must be .* got -1.0",
        ),
        (
            lambda: make_workload([1.0, 0.5], prompt_tokens=[1, 1], output_tokens=[1, 1]),
            r"arrival_s\[1\] must be non-decreasing",
        ),
        (
            lambda: make_workload([0.0], prompt_tokens=[0], output_tokens=[1]),
            r"prompt_tokens\[0\] must be at least 1 token, got 0",
        ),
        (lambda: make_workload([0.0], prompt_tokens=[1], output_tokens=[0]), r"output_tokens\[0\]"),
        (lambda: make_workload([], prompt_tokens=[], output_tokens=[]), "at least one request, got 0"),
        (lambda: make_workload([0.0], prompt_tokens=[1, 2], output_tokens=[1]), "one length"),
        (
            lambda: make_workload([0.0], prompt_tokens=[5], output_tokens=[1], prefix_hit_fraction=1.0),
            "prefix_hit_fraction must be in",
        ),
        (
            lambda: make_workload([0.0], prompt_tokens=[5], output_tokens=[1], concurrency=0),
            "concurrency must be at least 1, got 0",
        ),
        (
            lambda: make_workload([0.0], prompt_tokens=[5], output_tokens=[1]).scaled(0.0),
            "rate factor must be a positive number, got 0.0",
        ),
        (lambda: poisson_arrivals(5, float("nan"), Streams(0).get("arrivals")), "rate_per_s must be .* got nan"),
        (lambda: lognormal_lengths(5, 0.0, Streams(0).get("x"), sigma=1.0, max_tokens=9), "mean_tokens must be"),
    ],
)
def test_wrong_input_is_refused_with_the_field_the_value_and_a_way_out(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_ranges_keep_k_in_gaps_and_beyond_the_last():
    table = DraftByBatch(((1, 2, 5), (4, 6, 2))).by_batch(8)
    assert table.tolist() == [5, 5, 5, 5, 2, 2, 2, 2, 2]


@given(alpha=st.floats(0.0, 1.0), draft_tokens=st.integers(1, 12))
def test_a_length_at_its_k_gives_back_the_acceptance_it_came_from(alpha, draft_tokens):
    length = sum(alpha**i for i in range(draft_tokens + 1))
    conditional = LengthAcceptance(length, draft_tokens).conditional(4)
    assert conditional == pytest.approx(np.full(4, alpha), abs=1e-5)


def test_per_position_shares_become_conditional():
    assert PerPositionAcceptance((0.8, 0.4, 0.0)).conditional(3) == pytest.approx([0.8, 0.5, 0.0])


def test_gamma_gaps_have_the_rate_and_the_burstiness():
    for burstiness in (0.25, 1.0, 4.0):
        gaps = np.diff(gamma_arrivals(200_000, 5.0, Streams(3).get("arrivals"), burstiness=burstiness))
        assert gaps.mean() == pytest.approx(0.2, rel=0.02)
        assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.03)


def test_lengths_have_the_mean_asked_for_and_only_observed_values():
    lengths = lognormal_lengths(200_000, 500.0, Streams(1).get("prompt"), sigma=0.8, max_tokens=1_000_000)
    assert lengths.mean() == pytest.approx(500.0, rel=0.02)
    assert set(empirical_lengths(50, [3, 7], Streams(1).get("prompt")).tolist()) == {3, 7}


def test_scaling_moves_arrivals_and_nothing_else():
    load = make_workload([0.0, 2.0, 4.0], prompt_tokens=[1, 2, 3], output_tokens=[4, 5, 6])
    fast = load.scaled(4.0)
    assert fast.arrival_s.tolist() == [0.0, 0.5, 1.0]
    assert fast.rate_per_s == 4 * load.rate_per_s
    assert fast.prompt_tokens.tolist() == [1, 2, 3]


def test_luck_is_uniform_and_independent_over_requests_and_positions():
    with np.errstate(over="ignore"):
        drawn = np.array([[luck(key, position) for position in range(64)] for key in luck_keys(7, "acceptance", 512)])
    uniform = drawn / ALWAYS
    assert uniform.mean() == pytest.approx(0.5, abs=0.005)
    assert np.quantile(uniform, [0.1, 0.9]) == pytest.approx([0.1, 0.9], abs=0.01)
    assert abs(np.corrcoef(uniform[:, 0], uniform[:, 1])[0, 1]) < 0.1
    assert abs(np.corrcoef(uniform[:-1].ravel(), uniform[1:].ravel())[0, 1]) < 0.02


def test_thresholds_make_certain_and_impossible_events_exact():
    never, always = threshold(np.array([0.0, 1.0]))
    assert never == 0
    assert always == ALWAYS


def test_streams_depend_on_their_name_alone():
    first = Streams(5).get("arrivals").random(3)
    other = Streams(5)
    other.get("lengths").random(100)
    assert np.array_equal(other.get("arrivals").random(3), first)
    assert not np.array_equal(Streams(5).get("arrivals", 1).random(3), first)
