"""What an answer rests on is said, with its label."""

import pytest

from calibrate.environment import host_id
from roofline.catalog import engine, gpu
from roofline.efficiency import catalogue_calibration
from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from scenarios.questions.assumptions import assumptions_of


def _texts(tmp_path, host: str) -> list[str]:
    measured = catalogue_calibration(gpu("H100-SXM"), engine("vllm"))
    machine = measured.machine.model_copy(update={"host": host})
    file = tmp_path / "calibration.json"
    file.write_text(measured.model_copy(update={"label": "calibrated", "machine": machine}).model_dump_json())
    scenario = {
        "schema_version": 1,
        "name": "calibrated",
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM", "calibration": str(file)},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"length": "2.5@3"},
        "workload": {"kind": "poisson", "rate_per_s": 2.0, "input_tokens": 100, "output_tokens": 50},
    }
    service = build_service(scenario_from_dict(scenario, origin="test"))
    return [item.text for item in assumptions_of(service) if item.label == "calibrated"]


@pytest.mark.parametrize(("host", "said"), [("ffffffffffff", True), ("", False), (host_id(), False)])
def test_a_calibration_made_elsewhere_says_so(tmp_path, host, said):
    [text] = [text for text in _texts(tmp_path, host) if "step times" in text]
    assert ("made on another machine" in text) == said
