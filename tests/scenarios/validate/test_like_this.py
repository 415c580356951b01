"""What `decide` says about published rows like a scenario: only what the shipped result holds."""

import json
import math
from dataclasses import replace

import pytest

from roofline.catalog import gpu
from roofline.errors import InvalidInput
from scenarios.questions.decide import decide
from scenarios.report.explain import published_lines
from scenarios.report.files import decision_json
from scenarios.schema import Scenario
from scenarios.validate.like_this import hardware_class, like_this, result_json
from scenarios.validate.rows import DATA_FOLDER, Prediction, rows_of

H100 = gpu("H100-SXM")


def _predictions():
    rows, _ = rows_of([DATA_FOLDER / "speedups.csv"])
    rows = [row for row in rows if row.speedup][:3]
    made = [
        Prediction(
            row=replace(row, speedup=2.0, source_id=source),
            status="computed",
            speedup=speedup,
            engine="vllm",
            gpu="H100-SXM",
            tags={"method": method},
        )
        for row, source, speedup, method in zip(
            rows, ("S1", "S2", "S2"), (2.2, 1.8, 3.0), ("eagle3", "eagle3 tree", "mtp"), strict=True
        )
    ]
    return [*made, replace(made[0], status="not computed", reason="why")]


def test_errors_of_a_kind_are_those_of_its_rows(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(result_json(_predictions(), version="1"))
    found = like_this(H100, engine="vllm", method="eagle3", path=path)
    assert (found.rows, found.sources) == (2, ("S1", "S2"))
    assert found.median_abs_error == pytest.approx(0.1)
    assert found.bias == pytest.approx(0.0, abs=1e-9)
    assert "2 published rows" in found.text
    assert "10%" in found.text


def test_a_kind_nobody_published_says_so_and_gives_no_number(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(result_json(_predictions(), version="1"))
    for other in (
        like_this(H100, engine="vllm", method="suffix", path=path),
        like_this(H100, engine="llama.cpp", method="eagle3", path=path),
        like_this(gpu("B200-SXM"), engine="vllm", method="eagle3", path=path),
    ):
        assert other.rows == 0
        assert math.isnan(other.median_abs_error)
        assert other.text.startswith("no published rows of this kind")
        assert "%" not in other.text


def test_serving_engines_count_as_one_class():
    assert like_this(H100, engine="sglang", method="eagle3") == like_this(H100, engine="vllm", method="eagle3")


def test_the_result_is_the_same_bytes_for_the_same_predictions():
    predictions = _predictions()
    assert result_json(predictions, version="1") == result_json(predictions, version="1")
    changed = [replace(predictions[0], speedup=2.3), *predictions[1:]]
    first, second = (json.loads(result_json(one, version="1")) for one in (predictions, changed))
    assert first["rows_sha256"] != second["rows_sha256"]


def test_a_file_that_is_no_result_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "result.json"
    path.write_text('{"schema_version": 99}')
    with pytest.raises(InvalidInput, match="schema_version must be 1, got 99"):
        like_this(H100, engine="vllm", method="eagle3", path=path)


def test_the_two_data_centre_blackwells_are_one_class():
    assert hardware_class(gpu("B200-SXM")) == hardware_class(gpu("B300-SXM"))
    assert hardware_class(gpu("B200-SXM")) != hardware_class(gpu("RTX-5090"))


def test_a_decision_shows_how_far_off_rows_like_it_were_in_text_json_and_explanation():
    scenario = Scenario.model_validate(
        {
            "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
            "hardware": {"gpu": "H100-SXM"},
            "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 2},
            "acceptance": {"length": "2.2@2"},
            "workload": {"kind": "closed", "concurrency": 1, "requests": 8, "input_tokens": 64, "output_tokens": 16},
            "loads": {"concurrencies": [1]},
            "run": {"seeds": 1, "max_draft_tokens": 2},
        }
    )
    decision = decide(scenario)
    expected = like_this(H100, engine="vllm", method="eagle3")
    assert expected.rows > 100
    assert expected.text in decision.report()
    assert json.loads(decision_json(decision))["published_rows"]["rows"] == expected.rows
    explained = "\n".join(published_lines(decision))
    assert expected.text in explained
    assert expected.sources[0] in explained
