import pytest
from click.testing import CliRunner

from roofline.catalog import shipped_calibration
from roofline.cost import round_cost
from scenarios.build import build_service
from scenarios.cli.import_tables import command as import_tables
from scenarios.files import scenario_from_dict
from scenarios.questions.against_catalogue import moved_from_catalogue


def service(**hardware):
    """An 8B model with an EAGLE-3 head on one GPU."""
    return build_service(
        scenario_from_dict(
            {
                "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
                "hardware": {"gpu": "H200-SXM", **hardware},
                "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
                "acceptance": {"length": "2.5@3"},
                "workload": {"kind": "poisson", "requests": 50, "input_tokens": 200, "output_tokens": 100},
                "loads": {"rates_per_s": [2.0]},
            }
        )
    )


def test_a_gpu_and_engine_with_a_shipped_calibration_use_it():
    calibration = service().deployment.calibration
    assert calibration.label == "calibrated"
    assert calibration == shipped_calibration("H200-SXM", "vllm")


def test_catalogue_efficiencies_can_be_asked_for():
    assert service(calibration="catalogue").deployment.calibration.label == "catalogue"


def test_no_neighbour_stands_in_for_a_gpu_without_a_calibration():
    assert service(gpu="H100-PCIe").deployment.calibration.label == "catalogue"


def test_the_sentence_on_the_catalogue_holds_both_speed_ups():
    calibrated = service()
    [found] = moved_from_catalogue(calibrated, [8.2], 300)
    ratio = round_cost(calibrated.on.costs, batch=8, context_tokens=300, draft_tokens=3).ratio
    length = calibrated.cases[0].length(3)
    assert found.label == "calibrated"
    assert f"-> {length / ratio:.2f}" in found.text
    assert "the verdict stays" in found.text


def test_nothing_is_compared_where_the_catalogue_itself_is_used():
    assert moved_from_catalogue(service(calibration="catalogue"), [8.0], 300) == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--system", "h200_sxm"], "give --system and --engine, or --all"),
        (["--all", "--ship", "--out", "."], "leave --out away"),
        (["--system", "h200_sxm", "--engine", "vllm", "--package", "."], "give an unpacked wheel"),
    ],
)
def test_wrong_options_of_an_import_say_what_to_give(arguments, said):
    result = CliRunner().invoke(import_tables, arguments)
    assert said in str(result.exception)
