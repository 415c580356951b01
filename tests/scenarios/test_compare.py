import json

import pytest

from roofline.errors import InvalidInput
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.questions.compare import TERMS, compare
from scenarios.report.compare_text import compare_lines


def small(**changes):
    content = {
        "name": "small",
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"alpha": 0.6},
        "workload": {
            "kind": "poisson", "rate_per_s": 8.0, "requests": 150, "input_tokens": 200, "output_tokens": 100,
        },
        "run": {"seeds": 3},
    }  # fmt: skip
    return scenario_from_dict({**content, **changes})


def moved(found):
    return {term.name: term for term in found.moved}


def test_a_scenario_does_not_differ_from_itself():
    found = compare(small(), small())
    assert found.total.estimate_s == 0.0
    assert all(term.is_tie for term in found.moved)
    assert "the two are a tie" in "\n".join(compare_lines(found))


def test_the_terms_add_up_to_the_difference_of_mean_latencies():
    found = compare(small(), small(acceptance={"alpha": 0.8}, speculation={**small().speculation.model_dump(
        exclude_unset=True), "draft_tokens": 5}))  # fmt: skip
    a, b = found.times
    assert found.total.estimate_s == pytest.approx(b.latency_s - a.latency_s, rel=1e-3)
    assert sum(term.estimate_s for term in found.moved) == pytest.approx(found.total.estimate_s, rel=1e-9)
    assert tuple(term.name for term in found.moved) == TERMS


def test_a_better_acceptance_alone_moves_the_acceptance_term_most():
    terms = moved(compare(small(), small(acceptance={"alpha": 0.85})))
    assert terms["acceptance"].estimate_s < 0
    assert not terms["acceptance"].is_tie
    others = [abs(term.estimate_s) for name, term in terms.items() if name != "acceptance"]
    assert max(others) < 0.2 * abs(terms["acceptance"].estimate_s)


def test_turning_speculation_on_adds_draft_time_and_takes_rounds_away():
    found = compare(small(), small(), arms=("off", "on"))
    assert found.arms == ("off", "on")
    terms = moved(found)
    assert terms["draft"].estimate_s > 0
    assert terms["acceptance"].estimate_s < 0
    assert found.times[0].draft_s == 0.0
    assert found.times[0].acceptance_length == pytest.approx(1.0)


def test_fewer_sequences_at_a_time_move_the_queue():
    found = compare(small(), small(engine={"max_sequences": 2}))
    terms = moved(found)
    assert max(found.moved, key=lambda term: term.estimate_s).name == "queue"
    assert not terms["queue"].is_tie


def test_longer_answers_move_the_lengths():
    workload = {**small().workload.model_dump(exclude_unset=True), "output_tokens": 199}
    terms = moved(compare(small(), small(workload=workload)))
    assert terms["lengths"].estimate_s == max(term.estimate_s for term in terms.values())


def test_one_seed_has_no_interval_and_everything_is_a_tie():
    found = compare(small(run={"seeds": 1}), small(acceptance={"alpha": 0.9}))
    assert found.total.is_tie
    assert "one seed" in "\n".join(compare_lines(found))


def test_a_speculating_arm_nobody_gave_an_acceptance_for_is_refused():
    with pytest.raises(InvalidInput, match="no speculating arm"):
        compare(small(acceptance=None), small(), arms=("on", "on"))


def test_the_command_compares_a_scenario_with_itself_changed(capsys):
    line = ["compare", "llama8b_h100_chat", "--seeds", "2", "--at", "2"]
    assert run([*line, "--with", "speculation.draft_tokens=1"]) == 0
    assert "B  llama8b_h100_chat with speculation.draft_tokens = 1" in capsys.readouterr().out
    assert run([*line, "--arms", "off,on", "--with", "engine.max_sequences=64", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arms"] == ["off", "on"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "give SECOND or --with"),
        (["--with", "speculation.draft=1"], "error"),
        (["--with", "acceptance.alpha=0.1,0.2"], "must set one value"),
        (["--with", "workload.rate=2"], "names no field"),
        (["--arms", "on"], "must be two of on and off"),
        (["llama8b_h100_chat", "--seeds", "0"], "--seeds must be a whole number"),
    ],
)
def test_a_comparison_that_is_none_is_one_sentence(capsys, options, words):
    assert run(["compare", "llama8b_h100_chat", *options]) == 2
    assert words in capsys.readouterr().err
