import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.questions.verdict import JudgedLoad, judge


def loads(*rows):
    """(load, word, speed-up) with an interval of 5 % to both sides."""
    return [JudgedLoad(value, word, s, 0.95 * s, 1.05 * s) for value, word, s in rows]


@pytest.mark.parametrize(
    ("words", "headline"),
    [
        (("ON", "ON"), "ON"),
        (("ON", "SATURATED"), "ON"),
        (("OFF", "OFF"), "OFF"),
        (("OFF", "SATURATED"), "OFF"),
        (("ON", "OFF"), "ON below"),
        (("ON", "TIE"), "ON below"),
        (("ON", "OFF", "SATURATED"), "ON below"),
        (("OFF", "ON"), "ON above"),
        (("OFF", "ON", "SATURATED"), "ON above"),
        (("OFF", "ON", "OFF"), "ON between"),
        (("TIE", "ON", "TIE"), "ON between"),
        (("ON", "OFF", "ON"), "ON in parts"),
        (("SATURATED", "SATURATED"), "SATURATED"),
        (("TIE", "TIE"), "CANNOT SAY"),
        (("CANNOT SAY", "SATURATED"), "CANNOT SAY"),
        (("CANNOT SAY", "OFF"), "CANNOT SAY"),
        (("CANNOT SAY", "OFF", "SATURATED"), "CANNOT SAY"),
        (("TIE", "OFF"), "OFF"),
        (("TIE", "CANNOT SAY"), "CANNOT SAY"),
        (("ON", "CANNOT SAY", "OFF"), "ON below"),
        (("CANNOT SAY", "ON", "OFF"), "ON in parts"),
        (("OFF", "ON", "CANNOT SAY"), "ON in parts"),
    ],
)
def test_the_headline_follows_from_the_words_over_load(words, headline):
    values = {"ON": 1.5, "OFF": 0.7, "TIE": 1.0, "SATURATED": 0.9, "CANNOT SAY": 1.0}
    rows = [(float(2**index), word, values[word]) for index, word in enumerate(words)]
    assert judge(loads(*rows)).headline == headline


def test_the_crossover_is_interpolated_in_logs_and_lies_inside_its_interval():
    verdict = judge(loads((1.0, "ON", 2.0), (4.0, "OFF", 0.5)))
    crossover = verdict.crossover
    assert crossover is not None
    assert crossover.interpolated
    assert crossover.value == pytest.approx(2.0)
    # ln S falls by 2 ln 2 over a factor 4 of load: 5 % of S is 5 % of load, to first order.
    assert crossover.low == pytest.approx(2.0 * 0.95, rel=1e-9)
    assert crossover.high == pytest.approx(2.0 * 1.05, rel=1e-9)


def test_a_change_by_saturation_is_bracketed_not_interpolated():
    crossover = judge(loads((1.0, "ON", 1.5), (4.0, "SATURATED", 0.9))).crossover
    assert crossover is not None
    assert not crossover.interpolated
    assert (crossover.low, crossover.value, crossover.high) == (1.0, pytest.approx(2.0), 4.0)


def test_beside_a_tie_the_answer_ends_where_the_interval_touches_one():
    verdict = judge(loads((1.0, "ON", 2.0), (4.0, "TIE", 1.0)))
    crossover = verdict.crossover
    assert crossover is not None
    share = math.log(0.95 * 2.0) / (math.log(0.95 * 2.0) - math.log(0.95))
    assert crossover.value == pytest.approx(4.0**share)
    assert crossover.high == 4.0


@given(st.lists(st.floats(0.2, 5.0), min_size=2, max_size=8))
def test_segments_cover_all_loads_once_and_crossings_lie_between_them(speedups):
    words = ["ON" if 0.95 * s > 1 else "OFF" if 1.05 * s < 1 else "TIE" for s in speedups]
    rows = [(1.5**index, word, s) for index, (word, s) in enumerate(zip(words, speedups, strict=True))]
    verdict = judge(loads(*rows))
    assert verdict.segments[0].first == 1.0
    assert verdict.segments[-1].last == rows[-1][0]
    for before, after in zip(verdict.segments, verdict.segments[1:], strict=False):
        assert before.word != after.word
        assert before.ends == after.begins
        assert before.ends is not None
        assert before.last <= before.ends.value <= after.first
        assert before.ends.low <= before.ends.value <= before.ends.high
