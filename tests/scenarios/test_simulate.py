"""What `specdec simulate` says of one run, and what it refuses."""

import json

import pytest

from roofline.calibration import Domain
from roofline.catalog import engine, gpu
from roofline.efficiency import catalogue_calibration
from roofline.errors import OutsideDomain
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.questions.simulate import simulate_one
from scenarios.report.run_text import run_json, summary_lines
from scenarios.report.words import duration_text, durations_text


def scenario(requests=100, hardware=None, **changes):
    """An 8B model with a draft head on one H100."""
    content = {
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM", **(hardware or {})},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"task": "chat"},
        "workload": {
            "kind": "poisson", "rate_per_s": 4.0, "requests": requests, "input_tokens": 200, "output_tokens": 50,
        },
    }  # fmt: skip
    return scenario_from_dict({**content, **changes})


def test_a_run_says_what_it_rests_on_in_text_and_json():
    run = simulate_one(scenario())
    text = "\n".join(summary_lines(run))
    assert "keeps up" in text.splitlines()[0]
    labels = [f"[{item.label}]" for item in run.assumptions]
    assert all(item.text in text for item in run.assumptions)
    assert all(label in text for label in labels)
    assert sum("acceptance: " in item.text for item in run.assumptions) == 1, "the median of the preset, not its ends"
    shown = json.loads(run_json(run))["assumptions"]
    assert shown == [{"label": item.label, "text": item.text} for item in run.assumptions]


def test_plain_decoding_rests_on_no_draft_and_no_acceptance():
    texts = [item.text for item in simulate_one(scenario(), arm="off").assumptions]
    assert not any("acceptance" in text or "draft" in text for text in texts)


def test_too_few_requests_to_tell_are_not_said_to_keep_up():
    run = simulate_one(scenario(requests=30))
    assert "too few requests to tell" in summary_lines(run)[0]
    assert json.loads(run_json(run))["saturation_known"] is False
    assert any("too few requests to tell" in item.text for item in run.assumptions)


def calibrated(folder, verdict=None, **domain):
    """A file measured in a narrow range."""
    catalogue = catalogue_calibration(gpu("H100-SXM"), engine("vllm"))
    changes = {"label": "calibrated", "domain": Domain(**domain)}
    if verdict is not None:
        changes["verdict"] = catalogue.verdict.model_copy(update=verdict)
    file = folder / "narrow.json"
    file.write_text(catalogue.model_copy(update=changes).model_dump_json(), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ({"draft_tokens": (1, 2)}, "draft_tokens = 3"),
        ({"tokens": (1, 100)}, "tokens = 200"),
        ({"context_tokens": (1, 100)}, "context_tokens = 250"),
        ({"batch": (64, 128)}, "batch = "),
    ],
)
def test_a_run_outside_the_calibration_is_refused_unless_extrapolation_is_asked_for(tmp_path, domain, words):
    file = calibrated(tmp_path, **domain)
    with pytest.raises(OutsideDomain, match=words):
        simulate_one(scenario(hardware={"calibration": file}))
    run = simulate_one(scenario(hardware={"calibration": file, "outside_domain": "clip"}))
    assert any("extrapolated: " in line and words in line for line in summary_lines(run))


def test_plain_decoding_asks_nothing_of_the_measured_k(tmp_path):
    run = simulate_one(scenario(hardware={"calibration": calibrated(tmp_path, draft_tokens=(1, 2))}), arm="off")
    assert not any("extrapolated" in item.text for item in run.assumptions)


def test_an_unstable_calibration_is_named_in_a_run(tmp_path):
    file = calibrated(tmp_path, verdict={"stable": False, "reasons": ("clocks moved",)})
    assert any(
        "NOT STABLE: clocks moved" in line
        for line in summary_lines(simulate_one(scenario(hardware={"calibration": file})))
    )


def test_times_carry_the_unit_they_are_in():
    assert duration_text(0.012) == "12 ms"
    assert duration_text(148.2) == "148 s"
    assert duration_text(float("nan")) == "-"
    assert durations_text([0.012, 0.015, 0.02]) == "12/15/20 ms"
    assert durations_text([148.0, 311.0, 320.0]) == "148/311/320 s"
    assert durations_text([0.5, 12.0, 13.0]) == "500 ms/12 s/13 s"
    assert durations_text([float("nan")] * 3) == "-/-/-"


@pytest.mark.parametrize("command", ["simulate", "decide"])
def test_a_service_that_refuses_every_request_says_so(capsys, command):
    options = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100-SXM", "--method", "ngram", "-k", "3")
    load = ("--rate", "4", "--input-tokens", "200000", "--output-tokens", "10", "--requests", "60")
    assert run([command, *options, "--proposal-fraction", "0.5", "--alpha", "0.6", "--clip", *load]) == 2
    assert "the engine refuses all 60 requests" in capsys.readouterr().err
