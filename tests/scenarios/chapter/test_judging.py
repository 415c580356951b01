"""The one function that judges: numbers against a range and its tolerance, claims into rows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from scenarios.chapter.judging import Claim, Quantity, judge, judge_all, weakest


def claim(*values, low=2.0, high=4.0, tolerance=0.0, published=()):
    return Claim(
        "said",
        low,
        high,
        tolerance_fraction=tolerance,
        found=tuple(Quantity("ours", value, "assumed") for value in values),
        published=tuple(Quantity("theirs", value, "measured") for value in published),
    )


@pytest.mark.parametrize(
    ("values", "verdict"), [((2.0, 4.0), "holds"), ((3.0, 4.1), "in part"), ((1.9, 4.1), "does not hold")]
)
def test_all_some_or_none_of_the_numbers_lie_in_the_range(values, verdict):
    assert judge(claim(*values)) == verdict


def test_a_measurement_that_contradicts_keeps_our_own_number_from_deciding():
    assert judge(claim(3.0)) == "holds"
    assert judge(claim(3.0, published=(1.4,))) == "in part"
    assert judge(claim(1.4, published=(1.4,))) == "does not hold"


def test_the_tolerance_widens_both_ends_and_no_further():
    assert judge(claim(1.81, 4.39, tolerance=0.1)) == "holds"
    assert judge(claim(1.79, tolerance=0.1)) == "does not hold"
    assert judge(claim(4.41, tolerance=0.1)) == "does not hold"
    assert judge(claim(-2.1, low=-2.0, high=None, tolerance=0.1)) == "holds"


def test_an_open_end_takes_everything_on_that_side():
    assert judge(claim(1e9, low=2.0, high=None)) == "holds"
    assert judge(claim(-1e9, low=None, high=4.0)) == "holds"


def test_a_number_that_is_not_known_supports_nothing():
    assert judge(claim(math.nan, low=None, high=4.0)) == "does not hold"


def test_what_is_missing_is_not_judged_and_does_not_count():
    missing = judge(Claim("said", missing="a real model"))
    assert missing == "not yet"
    assert judge_all([missing]) == "not yet"
    assert judge_all([missing, "holds"]) == "holds"


@given(st.lists(st.sampled_from(["holds", "in part", "does not hold", "not yet"]), min_size=1))
def test_a_row_holds_or_not_only_where_all_its_claims_do(verdicts):
    known = {verdict for verdict in verdicts if verdict != "not yet"}
    expected = known.pop() if len(known) == 1 else "in part" if known else "not yet"
    assert judge_all(verdicts) == expected


def test_a_claim_that_nothing_could_contradict_is_refused():
    with pytest.raises(InvalidInput, match="low or a high end"):
        Claim("said", found=(Quantity("ours", 1.0, "assumed"),))
    with pytest.raises(InvalidInput, match="no number to judge"):
        Claim("said", 1.0, 2.0)


def test_a_number_carries_the_weakest_label_of_its_inputs():
    assert weakest("measured", "calibrated") == "calibrated"
    assert weakest("catalogue", "calibrated", "assumed") == "assumed"
