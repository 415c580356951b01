"""The first line of an answer says no more than is known."""

import dataclasses
import math

import pytest

from scenarios import decide
from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from scenarios.loads import load_points, workload_at
from scenarios.questions.break_even import break_even, simulate_arm
from scenarios.questions.verdict import JudgedLoad, judge
from scenarios.report.verdict_text import headline


def scenario(**changes):
    """A 3B draft for an 8B model on one H100, acceptance unknown."""
    content = {
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "speculation": {"method": "draft_model", "draft": "meta-llama/Llama-3.2-3B-Instruct", "draft_tokens": 1},
        "workload": {"kind": "closed", "requests": 300, "input_tokens": 100, "output_tokens": 50},
        "loads": {"concurrencies": [1, 32, 200]},
        "run": {"seeds": 1},
    }
    return scenario_from_dict({**content, **changes})


def with_words(decision, *words):
    """The decision, its loads judged otherwise."""
    rows = [JudgedLoad(load.point.value, word, 1.0, 1.0, 1.0) for load, word in zip(decision.loads, words, strict=True)]
    return dataclasses.replace(decision, verdict=judge(rows))


@pytest.fixture(scope="module")
def unknown():
    return decide(scenario())


def test_off_at_one_load_does_not_answer_for_the_loads_in_doubt(unknown):
    assert [load.break_even.kind for load in unknown.loads] == ["at", "at", "never"]
    assert unknown.verdict.headline == "CANNOT SAY"
    text = headline(unknown)
    assert text.startswith("CANNOT SAY below 80 in flight without an acceptance length: pays if AL > ")
    assert " at 1 in flight and if AL > " in text
    assert text.endswith("; OFF above 80 in flight")


def test_a_gain_between_loads_in_doubt_names_them(unknown):
    text = headline(with_words(unknown, "CANNOT SAY", "ON", "OFF"))
    assert text.startswith("ON between 6 in flight and 80 in flight, K = 1; CANNOT SAY below 6 in flight")
    assert "pays if AL > " in text
    assert text.endswith("; OFF above 80 in flight")


def test_off_names_the_loads_that_cannot_be_carried_and_the_ties(unknown):
    text = headline(with_words(unknown, "OFF", "OFF", "SATURATED"))
    assert text == "OFF at every load that can be carried, up to 80 in flight (32 to 200)"
    text = headline(with_words(unknown, "TIE", "OFF", "OFF"))
    assert text == "OFF at every load asked (1 in flight to 200 in flight), a tie below 6 in flight"


def open_loop(requests, output_tokens):
    """A few loads of Poisson arrivals with a given acceptance."""
    return {
        "workload": {"kind": "poisson", "requests": requests, "input_tokens": 100, "output_tokens": output_tokens},
        "loads": {"rates_per_s": [1.0, 4.0]},
        "acceptance": {"alpha": 0.8},
    }


def test_runs_too_short_to_tell_saturation_say_so():
    decision = decide(scenario(**open_loop(30, 20)))
    assert not any(load.off.saturation_known for load in decision.loads)
    assert "that the service keeps up at 1 req/s, 4 req/s: too few requests to tell" in decision.report()
    assert "keeps up" not in decide(scenario(**open_loop(100, 20))).report().split("Rests on")[1]


def test_outputs_of_one_token_have_no_speed_of_tokens_and_no_nan():
    for changes in (open_loop(100, 1), {**open_loop(100, 1), "acceptance": None}):
        decision = decide(scenario(**changes))
        assert {load.break_even.kind for load in decision.loads} == {"unknown"}
        assert headline(decision) == "CANNOT SAY: outputs of one token have no time between tokens to compare"
        report = decision.report()
        assert "nan" not in report.lower()
        assert "cannot say" in report


def test_a_search_that_does_not_settle_is_unknown():
    service = build_service(scenario())
    [first, *_] = load_points(scenario(), None)
    workload = workload_at(scenario(), first, trace=None, seed=0)
    plain = simulate_arm(service.off, workload, seed=0)
    found = break_even(service, workload, plain=plain, guess=1.9, metric="tpot")
    assert found.kind == "at"
    hurried = break_even(service, workload, plain=plain, guess=1.9, metric="tpot", steps=1)
    assert hurried.kind == "unknown"
    assert math.isnan(hurried.length)
