"""Paired ratios: exact where the arms differ by a factor, honest about noise and about mismatched seeds."""

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.compare import half_width, paired_speedup
from simulator.replica import simulate
from tests.strategies import PLAIN, affine_costs, head, limits, workload


def _arm(step_s, *, seeds=(0, 1, 2), speculation=PLAIN, requests=200):
    load = workload(np.arange(requests) * 0.5, 4, 20)
    return [
        simulate(load, costs=affine_costs(step_s=step_s), limits=limits(), speculation=speculation, seed=seed)
        for seed in seeds
    ]


def test_a_constant_factor_has_a_point_interval():
    interval = paired_speedup(_arm(0.2), _arm(0.1))
    assert interval.estimate == pytest.approx(2.0, rel=0.05)
    assert interval.low <= interval.estimate <= interval.high
    assert not interval.is_tie


def test_the_same_arm_twice_is_a_tie():
    interval = paired_speedup(_arm(0.1), _arm(0.1))
    assert (interval.low, interval.estimate, interval.high) == (1.0, 1.0, 1.0)
    assert interval.is_tie


def test_throughput_compares_whole_runs():
    interval = paired_speedup(_arm(0.1), _arm(0.1, speculation=head(2, IidAcceptance(0.5))), metric="throughput")
    assert interval.pairs == 3


def test_one_run_has_no_interval_for_throughput():
    interval = paired_speedup(_arm(0.2, seeds=(0,)), _arm(0.1, seeds=(0,)), metric="throughput")
    assert (interval.low, interval.high) == (0.0, float("inf"))


def test_arms_with_other_seeds_are_refused():
    with pytest.raises(InvalidInput, match="same seeds"):
        paired_speedup(_arm(0.1, seeds=(0, 1)), _arm(0.1, seeds=(0, 2)))


def test_intervals_narrow_with_requests():
    speculation = head(3, IidAcceptance(0.6))
    widths = []
    for requests in (100, 1600):
        interval = paired_speedup(_arm(0.1, requests=requests), _arm(0.1, speculation=speculation, requests=requests))
        widths.append(np.log(interval.high / interval.low))
    assert widths[1] < widths[0] / 2


def test_more_luck_over_one_trace_is_no_more_evidence_on_its_load():
    speculation = head(3, IidAcceptance(0.6))
    few = paired_speedup(_arm(0.1), _arm(0.1, speculation=speculation))
    seeds = tuple(range(12))
    many = paired_speedup(_arm(0.1, seeds=seeds), _arm(0.1, seeds=seeds, speculation=speculation))
    assert few.pairs == many.pairs == 8


def test_other_arrivals_are_more_evidence():
    def arm(step_s):
        return [
            simulate(
                workload(np.arange(200) * (0.5 + seed / 100), 4, 20),
                costs=affine_costs(step_s=step_s),
                limits=limits(),
                speculation=PLAIN,
                seed=seed,
            )
            for seed in range(3)
        ]

    assert paired_speedup(arm(0.2), arm(0.1)).pairs == 24


def test_half_widths_are_students_t_over_the_last_axis():
    widths = half_width(np.array([[1.0, 3.0], [2.0, 2.0]]))
    assert widths == pytest.approx([12.7062, 0.0], rel=1e-5)  # 97.5 % of t with one degree of freedom, times 1
    assert np.isnan(half_width(np.array([5.0])))
