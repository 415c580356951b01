"""Loads that swing: the mean rate is kept, phases repeat, roll-outs share prompts."""

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.controllers import ThroughputOptimal
from simulator.policy import FixedDraft
from simulator.proposers import HeadProposer
from simulator.replica import Speculation, simulate
from simulator.rng import Streams
from simulator.workload import (
    bursts_within,
    diurnal_phases,
    lognormal_lengths,
    on_off_phases,
    rollout_workload,
    swinging_arrivals,
)
from tests.strategies import affine_costs, limits


def _mean_per_s(phases) -> float:
    spans_s, rates_per_s = np.array(phases).T
    return float((spans_s * rates_per_s).sum() / spans_s.sum())


def test_phases_keep_the_mean_rate():
    assert _mean_per_s(on_off_phases(5.0, on_s=10.0, off_s=30.0, quiet_fraction=0.1)) == pytest.approx(5.0)
    assert _mean_per_s(diurnal_phases(5.0, period_s=600.0, swing_fraction=0.8)) == pytest.approx(5.0)


def test_bursts_within_a_day_keep_the_mean_rate_of_every_hour():
    day = diurnal_phases(5.0, period_s=86_400.0, swing_fraction=0.8, steps=24)
    bursty = bursts_within(day, on_s=70.0, off_s=230.0, quiet_fraction=0.2)
    assert len(bursty) == 24 * 12 * 2
    for hour, (span_s, rate_per_s) in enumerate(day):
        inside = bursty[24 * hour : 24 * hour + 24]
        assert sum(each_s for each_s, _ in inside) == pytest.approx(span_s)
        assert _mean_per_s(inside) == pytest.approx(rate_per_s)
    assert bursts_within(((40.0, 5.0),), on_s=10.0, off_s=30.0) == on_off_phases(5.0, on_s=10.0, off_s=30.0)


def test_arrivals_follow_their_phases():
    phases = on_off_phases(5.0, on_s=10.0, off_s=30.0, quiet_fraction=0.1)
    arrivals_s = swinging_arrivals(40_000, phases, Streams(0).get("arrivals"))
    assert np.all(np.diff(arrivals_s) >= 0)
    assert len(arrivals_s) / arrivals_s[-1] == pytest.approx(5.0, rel=0.02)
    in_burst = np.mean(arrivals_s % 40.0 < 10.0)
    assert in_burst == pytest.approx(10 / (10 + 0.1 * 30), abs=0.01)


def test_nothing_arrives_in_a_silent_phase():
    arrivals_s = swinging_arrivals(2_000, ((3.0, 0.0), (1.0, 8.0), (2.0, 0.0)), Streams(1).get("arrivals"))
    assert np.all((arrivals_s % 6.0 >= 3.0) & (arrivals_s % 6.0 <= 4.0 + 1e-9))


def test_a_rollout_is_there_at_once_and_shares_its_prompts():
    load = rollout_workload(2, 3, prompt_tokens=np.array([10, 20]), output_tokens=np.arange(1, 7))
    assert load.arrival_s.tolist() == [0.0] * 6
    assert load.prompt_tokens.tolist() == [10, 10, 10, 20, 20, 20]
    assert load.prefix_hit_tokens.tolist() == [0, 9, 9, 0, 19, 19]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: swinging_arrivals(1, ((0.0, 1.0),), Streams(0).get("a")), "seconds above 0"),
        (lambda: swinging_arrivals(1, ((1.0, 0.0),), Streams(0).get("a")), "nothing would ever arrive"),
        (lambda: diurnal_phases(1.0, period_s=1.0, swing_fraction=1.5), "must be in 0..1, got 1.5"),
    ],
)
def test_swings_that_cannot_be_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_the_tail_of_a_rollout_is_where_speculation_pays():
    """A batch of 64 that empties: always-on loses while it is full, off loses in the tail, the controller neither."""
    outputs = lognormal_lengths(64, 120, Streams(2).get("outputs"), sigma=0.8, max_tokens=900)
    load = rollout_workload(8, 8, prompt_tokens=np.full(8, 30), output_tokens=outputs)
    costs = affine_costs(step_s=0.01, per_token_s=4e-4, draft_pass_s=0.0005)

    def end_s(policy):
        speculation = Speculation(HeadProposer(), policy, (IidAcceptance(0.7),))
        return simulate(load, costs=costs, limits=limits(), speculation=speculation, seed=1).end_s

    off_s, on_s, chosen_s = (end_s(policy) for policy in (FixedDraft(0), FixedDraft(4), ThroughputOptimal(6)))
    assert chosen_s < 0.95 * min(off_s, on_s)
