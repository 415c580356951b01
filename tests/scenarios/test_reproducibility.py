"""Two runs of the same requests: which of them are computed in other batch shapes."""

import copy

import pytest

from roofline.errors import InvalidInput
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.questions.reproducibility import reproducibility

BASE = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
    "acceptance": {"alpha": 0.7},
    "workload": {"kind": "poisson", "rate_per_s": 20.0, "requests": 80, "input_tokens": 100, "output_tokens": 60},
}


def _found(arm="on", **workload):
    table = copy.deepcopy(BASE)
    table["workload"] = {**table["workload"], **workload} if "kind" not in workload else workload
    return reproducibility(scenario_from_dict(table), arm=arm)


def test_requests_that_share_batches_meet_other_shapes_at_other_times_and_without_drafts():
    times, without = _found().changes
    assert times.requests_fraction > 0.8
    assert 0.0 < times.steps_fraction < 1.0
    assert without.requests_fraction == 1.0


def test_requests_that_never_meet_are_computed_in_the_same_shapes_again():
    found = _found(arm="off", rate_per_s=0.01)
    assert [change.name for change in found.changes] == ["the same requests at other times"]
    assert found.changes[0].requests_fraction == 0.0


def test_a_closed_loop_repeats_itself_and_only_the_drafts_change_its_shapes():
    times, without = _found(kind="closed", concurrency=4, requests=40, input_tokens=100, output_tokens=60).changes
    assert (times.requests_fraction, without.requests_fraction) == (0.0, 1.0)


def test_sessions_are_refused():
    with pytest.raises(InvalidInput, match="their batches are never the same"):
        _found(kind="sessions", rate_per_s=4.0, requests=16, input_tokens=10, output_tokens=10)


def test_the_command_says_what_follows(capsys):
    arguments = ["simulate", "llama8b_h100_chat", "--requests", "60", "--reproducibility"]
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert "requests in other shapes" in printed
    assert "Speculation keeps the distribution of outputs" in " ".join(printed.split())
    assert run([*arguments, "--json"]) == 0
    assert '"requests_fraction"' in capsys.readouterr().out
