import pytest

from roofline.calibration import load_calibration
from roofline.catalog import engine, engine_names, gpu, gpu_names, shipped_calibration, shipped_names
from roofline.catalog.shipped import SHIPPED
from roofline.cost import Deployment, TableSize, round_cost, step_cost_table
from roofline.hf_config import load_model

FILES = sorted(SHIPPED.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_shipped_calibration_is_of_a_known_gpu_and_engine_and_names_its_inputs(path):
    calibration = load_calibration(path)
    device, engine = path.stem.split("--")
    assert (calibration.machine.device, calibration.machine.engine) == (device, engine)
    assert device in gpu_names()
    assert engine in engine_names()
    assert calibration.label == "calibrated"
    assert any(note.startswith("inputs: ") and "sha256" in note for note in calibration.notes)
    assert len(calibration.rows_sha256) == 64
    assert any(one.held_out for one in calibration.residuals)
    assert path.stat().st_size < 60_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_shipped_kernel_is_faster_than_the_peaks(path):
    calibration = load_calibration(path)
    spec = gpu(calibration.machine.device)
    for fit in calibration.operators:
        for band in fit.bands:
            assert band.bytes_per_s <= spec.hbm_bytes_per_s * 1.001
            assert band.flops_per_s <= max(spec.peak_flops_per_s.values()) * 1.001


def test_a_calibration_ships_for_exactly_its_gpu_and_engine():
    assert ("H200-SXM", "vllm") in shipped_names()
    assert shipped_calibration("h200-sxm", "VLLM") is not None
    assert shipped_calibration("H100-PCIe", "vllm") is None
    assert shipped_calibration("H200-SXM", "llama.cpp") is None


def test_an_engine_goes_by_its_other_name_too():
    assert engine("TensorRT-LLM").name == "trtllm"


def test_fp16_and_the_lm_head_take_the_kernels_measured_for_bf16_products():
    calibration = shipped_calibration("H200-SXM", "vllm")
    assert calibration is not None
    assert calibration.operator("lm_head", "fp16") == calibration.operator("gemm", "bf16")


def plain_and_verify_attention_s(calibration, row_tile):
    """What 60,000 more tokens of context add to a plain step and to a verification of 4 rows."""
    operators = tuple(
        fit.model_copy(update={"row_tile": row_tile, "packs_group": False})
        if fit.operator == "attention_decode"
        else fit
        for fit in calibration.operators
    )
    place = Deployment(gpu=gpu("A100-SXM-80GB"), calibration=calibration.model_copy(update={"operators": operators}))
    model = load_model("meta-llama/Llama-3.1-8B-Instruct")
    table = step_cost_table(model, place, size=TableSize(max_tokens=64, max_sequences=8, max_draft_tokens=3))
    costs = [
        round_cost(table, batch=8, context_tokens=context, draft_tokens=drafts)
        for drafts in (0, 3)
        for context in (1000, 61000)
    ]
    return costs[1].plain_s - costs[0].plain_s, costs[3].verify_s - costs[2].verify_s


def test_kernels_that_compute_whole_tiles_make_a_long_verification_dearer_and_leave_plain_steps_alone():
    calibration = shipped_calibration("A100-SXM-80GB", "vllm")
    assert calibration is not None
    plain_s, verify_s = plain_and_verify_attention_s(calibration, 1)
    tiled_plain_s, tiled_verify_s = plain_and_verify_attention_s(calibration, 64)
    assert tiled_plain_s == pytest.approx(plain_s)
    assert tiled_verify_s > 1.5 * verify_s
