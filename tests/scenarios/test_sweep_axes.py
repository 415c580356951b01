import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InvalidInput, UnknownName
from scenarios.sweeps.axes import Axis, Span, axes_of, axis, parse_axis, zipped
from scenarios.sweeps.design import Design
from scenarios.sweeps.fields import field_types, with_fields

BASE = {
    "acceptance": {"length": "2.4@3", "factor": 0.9},
    "workload": {"kind": "poisson", "rate_per_s": 4.0, "input_tokens": 600, "output_tokens": 250},
    "loads": {"factors": [0.5, 1.0]},
}


def test_every_field_of_a_scenario_can_be_an_axis_but_seeds_and_names():
    known = field_types()
    for path in (
        "hardware.gpu", "hardware.tensor_parallel", "engine.max_sequences", "speculation.draft_tokens",
        "speculation.tree.widths", "acceptance.alpha", "workload.rate_per_s", "workload.concurrency",
        "workload.input_tokens.mean_tokens", "workload.classes.0.share_fraction", "loads.factors", "slo",
    ):  # fmt: skip
        assert path in known
    assert "run.seeds" not in known
    assert "name" not in known


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("workload.rate", ("names no field", "nearest: workload.rate_per_s")),
        ("hardware.gpus", ("hardware.gpu",)),
        ("draft_tokens", ("speculation.draft_tokens",)),
        ("acceptance.alfa", ("acceptance.alpha",)),
        ("run.seeds", ("--seeds",)),
        ("zzz", ("names no field", "workload.rate_per_s")),
    ],
)
def test_an_axis_that_names_no_field_is_refused_with_the_nearest_ones(path, words):
    with pytest.raises(UnknownName) as refused:
        parse_axis(f"{path}=1,2")
    for word in words:
        assert word in str(refused.value)


def test_a_field_takes_the_place_of_other_ways_to_say_the_same_and_leaves_the_table_alone():
    changed = with_fields(BASE, {"acceptance.alpha": 0.6})
    assert changed["acceptance"] == {"alpha": 0.6, "factor": 0.9}
    assert changed["loads"] == BASE["loads"]
    assert with_fields(BASE, {"workload.rate_per_s": 2.0}).get("loads") is None
    assert with_fields(BASE, {"loads.rates_per_s": [2.0]})["loads"] == {"rates_per_s": [2.0]}
    longer = with_fields(BASE, {"workload.input_tokens.mean_tokens": 700, "workload.input_tokens.sigma": 0.5})
    assert longer["workload"]["input_tokens"] == {"mean_tokens": 700, "sigma": 0.5}
    assert BASE["acceptance"] == {"length": "2.4@3", "factor": 0.9}
    assert BASE["workload"]["input_tokens"] == 600


def test_values_are_read_in_the_type_of_their_field():
    assert parse_axis("workload.rate_per_s=1,2.5").rows == ((1.0,), (2.5,))
    assert parse_axis("hardware.gpu=H100-SXM, H200-SXM").rows == (("H100-SXM",), ("H200-SXM",))
    assert parse_axis("acceptance.length=2.4@3,3@3").rows == (("2.4@3",), ("3@3",))
    assert parse_axis("acceptance.per_position=[0.8,0.5],[0.7,0.6]").rows == (([0.8, 0.5],), ([0.7, 0.6],))
    assert parse_axis("speculation.draft_tokens=1..3").grid() == ((1,), (2,), (3,))
    assert parse_axis("engine.enforce_eager=true,false").rows == ((True,), (False,))


def test_a_range_is_spread_evenly_or_in_even_ratios():
    shares = [value for (value,) in parse_axis("acceptance.alpha=0.2..0.8/4").grid()]
    assert shares == pytest.approx([0.2, 0.4, 0.6, 0.8])
    rates = [value for (value,) in parse_axis("workload.rate_per_s=1..16/5 log").grid()]
    assert rates == pytest.approx([1, 2, 4, 8, 16])
    assert parse_axis("speculation.draft_tokens=1..9/3").grid() == ((1,), (5,), (9,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("workload.rate_per_s", "must read FIELD=VALUES"),
        ("workload.rate_per_s=", "must read FIELD=VALUES"),
        ("workload.rate_per_s=4..2/3", "must rise"),
        ("workload.rate_per_s=0..2/3 log", "starts above 0"),
        ("speculation.draft_tokens=1..2.5", "whole numbers"),
        ("workload.rate_per_s=1..2/1", "at least 2 points"),
        ("workload.rate_per_s=nan,1", "finite"),
    ],
)
def test_an_axis_that_cannot_be_read_is_one_sentence(text, words):
    with pytest.raises(InvalidInput, match=words):
        parse_axis(text)


def test_a_range_without_points_is_refused_in_a_grid_and_sampled_otherwise():
    rates = parse_axis("workload.rate_per_s=1..16")
    with pytest.raises(InvalidInput, match=r"1\.\.16/5"):
        len(Design((rates,)))
    [values] = zip(*(point.values() for point in Design((rates,), "random", 20).points(0, 20)), strict=True)
    assert all(1 <= value <= 16 for value in values)


def test_a_grid_goes_through_every_combination_with_the_last_axis_fastest():
    design = Design((axis("speculation.draft_tokens", [1, 2]), axis("workload.rate_per_s", [1, 2, 4])))
    points = list(design.points(0, len(design)))
    assert len(design) == 6
    assert [tuple(point.values()) for point in points[:4]] == [(1, 1.0), (1, 2.0), (1, 4.0), (2, 1.0)]
    assert list(design.points(2, 4)) == points[2:4]


def test_zipped_axes_advance_together_and_must_be_as_long():
    gpus, sizes = axis("hardware.gpu", ["H100-SXM", "L40S"]), axis("hardware.tensor_parallel", [1, 4])
    design = Design((zipped([gpus, sizes]), axis("workload.rate_per_s", [1, 2])))
    assert len(design) == 4
    assert next(islice(design.points(2, 4), 1)) == {
        "hardware.gpu": "L40S", "hardware.tensor_parallel": 4, "workload.rate_per_s": 1.0,
    }  # fmt: skip
    pairs = axis(("hardware.gpu", "hardware.tensor_parallel"), [("H100-SXM", 1), ("L40S", 4)])
    assert pairs == zipped([gpus, sizes])
    with pytest.raises(InvalidInput, match=r"hardware.gpu has 2, hardware.tensor_parallel has 3"):
        zipped([gpus, axis("hardware.tensor_parallel", [1, 2, 4])])
    with pytest.raises(InvalidInput, match="given twice"):
        axes_of([gpus, gpus])


SAMPLED = (Axis(("workload.rate_per_s",), span=Span(1.0, 32.0, log=True)), axis("speculation.draft_tokens", [1, 2, 3]))


@pytest.mark.parametrize("kind", ["random", "sobol"])
@settings(max_examples=10)
@given(first=st.integers(0, 30), count=st.integers(1, 10))
def test_a_sampled_point_depends_on_its_index_alone(kind, first, count):
    design = Design(SAMPLED, kind, 100, seed=3)
    assert list(design.points(first, first + count)) == list(design.points(0, 40))[first : first + count]


@pytest.mark.parametrize("kind", ["random", "sobol"])
def test_another_seed_samples_other_points(kind):
    one, other = (list(Design(SAMPLED, kind, 10, seed=seed).points(0, 10)) for seed in (3, 4))
    assert one != other


def test_a_sobol_sequence_fills_every_cell_of_a_square_once():
    square = (
        Axis(("acceptance.alpha",), span=Span(0.0, 1.0)), Axis(("acceptance.factor",), span=Span(0.0, 1.0)),
    )  # fmt: skip
    points = np.array([list(point.values()) for point in Design(square, "sobol", 64).points(0, 64)])
    for place in (0, 1):  # one point in each 64th of either axis, round the edge where the shift cuts one
        counts = np.bincount((points[:, place] * 64 - points[0, place] * 64 % 1).astype(int) % 64, minlength=64)
        assert counts.max() <= 2
    below = [(points <= np.array([x, y])).all(axis=1).mean() - x * y for x in (0.25, 0.5, 0.75) for y in (0.3, 0.7)]
    assert math.fsum(value * value for value in below) ** 0.5 < 0.06


def test_samples_are_asked_of_samplings_only():
    with pytest.raises(InvalidInput, match="grid sweep needs no number"):
        Design((), "grid", 4)
    with pytest.raises(InvalidInput, match="at least one axis"):
        Design((), "sobol", 4)
