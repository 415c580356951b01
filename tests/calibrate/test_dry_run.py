"""A run on a GPU is checked without one: every job, shape, bytes and time, memory and budget."""

from dataclasses import replace

import pytest

from calibrate.dry_run import dry_run, memory_account
from calibrate.dry_run_text import dry_run_lines
from calibrate.jobs import Job, shape_of, work_of
from calibrate.presets import PRESETS
from calibrate.run import RunPlan
from calibrate.shapes import as_model, gemm_parameters
from roofline.catalog import gpu
from roofline.counts import kv_bytes_per_token, weight_bytes

H200 = "H200-SXM"


def plan_of(name: str, budget_s: float = 360.0) -> RunPlan:
    preset = PRESETS[name]
    return RunPlan(preset, "bf16", "cuda", preset.context_tokens, budget_s)


@pytest.mark.parametrize("name", ["8b", "70b-shard", "small"])
def test_the_gpu_presets_fit_an_h200_and_six_minutes(name: str):
    result = dry_run(plan_of(name), gpu(H200))
    assert result.fits_memory
    assert result.fits_budget
    assert result.start_s + 20 * result.repetition_s < 360.0


def test_a_dry_run_lists_every_job_with_shape_bytes_and_time():
    plan = plan_of("8b")
    result = dry_run(plan, gpu(H200))
    lines = dry_run_lines(plan, result, gpu_name=H200)
    text = "\n".join(lines)
    assert len(result.jobs) == len(plan.jobs()) == len(set(plan.jobs()))
    for job in plan.jobs():
        assert job.key in text
    assert all(entry.seconds > 0 and entry.work.moved_bytes > 0 and entry.work.flops > 0 for entry in result.jobs)
    assert "fits" in lines[-2]


def test_what_does_not_fit_says_so():
    small = replace_memory(memory_bytes=40e9)
    result = dry_run(plan_of("8b"), small)
    assert not result.fits_memory
    assert "DOES NOT FIT" in "\n".join(dry_run_lines(plan_of("8b"), result, gpu_name="small"))
    assert not dry_run(plan_of("8b", budget_s=60.0), gpu(H200)).fits_budget


def replace_memory(*, memory_bytes: float):
    return gpu(H200).model_copy(update={"memory_bytes": memory_bytes})


def test_the_8b_target_has_the_parameters_of_an_8b_model():
    shape = PRESETS["8b"].target
    assert gemm_parameters(shape) + shape.hidden * shape.vocab == pytest.approx(8.03e9, rel=0.001)


def test_the_small_pair_has_the_sizes_the_goals_name():
    assert gemm_parameters(PRESETS["small"].target) == pytest.approx(200e6, rel=0.1)
    assert gemm_parameters(PRESETS["small"].draft) == pytest.approx(20e6, rel=0.1)


def test_a_plain_step_moves_the_weights_once_and_every_sequence_its_cache():
    preset = PRESETS["8b"]
    job = Job("plain_step", "target", 16, 1, 1024)
    model = as_model(preset.target, "bf16")
    weights = weight_bytes(model) - preset.target.vocab * preset.target.hidden * 2
    cache = 16 * 1025 * kv_bytes_per_token(model)
    moved = work_of(job, preset, dtype="bf16").moved_bytes
    assert moved == pytest.approx(weights + cache, rel=0.01)
    assert moved > weights + cache


def test_a_truncated_target_is_the_same_shape_with_fewer_layers():
    preset = PRESETS["8b"]
    cut = shape_of(preset, "target:8")
    assert replace(cut, name="", layers=0) == replace(preset.target, name="", layers=0)
    assert cut.layers == 8


def test_the_memory_account_grows_with_the_context():
    preset = PRESETS["8b"]
    short = memory_account(preset, "bf16", context_tokens=1024)
    long = memory_account(preset, "bf16", context_tokens=2048)
    assert long["target cache"] > 1.8 * short["target cache"]
    assert long["target weights"] == short["target weights"]
