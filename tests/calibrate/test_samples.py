"""One number per job: neighbours are corrected for alike, order does not matter, halves tell the noise."""

from dataclasses import replace

import numpy as np
import pytest

from calibrate.jobs import Job
from calibrate.measurements import Row
from calibrate.samples import clean_fraction, collect, repetitions, spread_fraction, typical_s

COMPONENT = Job("forward", "target", 1, 1, 128)
ROUND = Job("round", "target", 1, 3, 128, 2)


def row(job: Job, repetition: int, busy_s: float, *, probe_s: float = 1e-3) -> Row:
    return Row(job, repetition, busy_s, 2 * busy_s, probe_s, 0, 0, 0.0, 0.0)


def test_a_neighbour_that_slows_everything_alike_leaves_no_trace():
    generator = np.random.default_rng(4)
    rows: list[Row] = []
    for repetition in range(40):
        for job, quiet_s in ((COMPONENT, 0.04), (ROUND, 0.10)):
            slowdown = float(generator.choice([1.0, 1.8]))
            rows.append(row(job, repetition, quiet_s * slowdown, probe_s=1e-3 * slowdown))
    samples = collect(rows)
    assert samples.exponents["round"] == pytest.approx(1.0, abs=0.02)
    ratio = typical_s(samples, ROUND) / typical_s(samples, COMPONENT)
    assert ratio == pytest.approx(2.5, rel=1e-6)


def test_without_neighbours_the_correction_does_nothing():
    rows = [row(COMPONENT, repetition, 0.05 + 0.001 * repetition) for repetition in range(9)]
    samples = collect(rows)
    assert samples.exponents == {"forward": 0.0}
    assert typical_s(samples, COMPONENT) == pytest.approx(0.054)


def test_a_single_wild_sample_moves_nothing():
    rows = [row(COMPONENT, repetition, 0.05) for repetition in range(8)] + [row(COMPONENT, 8, 5.0)]
    assert typical_s(collect(rows), COMPONENT) == pytest.approx(0.05)


def test_halves_that_disagree_are_noise():
    rows = [row(COMPONENT, repetition, 0.05 if repetition % 2 else 0.055) for repetition in range(10)]
    assert spread_fraction(collect(rows), COMPONENT) == pytest.approx(0.005 / 0.0525, rel=1e-6)


def test_wall_time_is_the_other_clock():
    rows = [row(COMPONENT, repetition, 0.05) for repetition in range(5)]
    assert typical_s(collect(rows, "wall"), COMPONENT) == pytest.approx(0.1)


def test_repetitions_are_those_of_the_rarest_job():
    rows = [row(COMPONENT, repetition, 0.05) for repetition in range(5)] + [row(ROUND, 0, 0.1)]
    assert repetitions(rows) == 1


def test_the_clean_share_counts_samples_without_involuntary_switches():
    rows = [row(COMPONENT, 0, 0.05), replace(row(COMPONENT, 1, 0.05), involuntary_switches=3)]
    assert clean_fraction(rows) == 0.5
