"""Stages and ranks reach a scenario and the serve lines; engines that refuse them say why."""

import pytest

from roofline.errors import InvalidInput, SpecdecError
from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from scenarios.imports.serve_command import parse_serve_command
from scenarios.questions.simulate import simulate_one

EAGLE = {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3}
NGRAM = {"method": "ngram", "draft_tokens": 3, "proposal_fraction": 1.0}
WORKLOAD = {"kind": "closed", "concurrency": 16, "requests": 64, "input_tokens": 100, "output_tokens": 40}
SGLANG = "python -m sglang.launch_server --model-path m "


def _scenario(model="meta-llama/Llama-3.1-8B-Instruct", speculation=EAGLE, engine=None, **hardware):
    return scenario_from_dict(
        {
            "schema_version": 1,
            "target": {"model": model},
            "hardware": {"gpu": "H100-SXM", "calibration": "catalogue", **hardware},
            "engine": engine or {},
            "speculation": speculation,
            "acceptance": {"alpha": 0.7},
            "workload": WORKLOAD,
        }
    )


def test_drafting_on_the_last_stage_takes_part_of_the_gain():
    def speedup(stages):
        on, off = (simulate_one(_scenario(pipeline_parallel=stages), arm=arm).result for arm in ("on", "off"))
        return off.mean("tpot") / on.mean("tpot")

    assert speedup(4) < speedup(1) - 0.1


def test_ranks_share_experts_and_every_rank_has_a_budget_and_a_cache_of_its_own():
    moe = "Qwen/Qwen3-30B-A3B"
    one, four = (build_service(_scenario(moe, NGRAM, data_parallel=ranks, expert_parallel=True)) for ranks in (1, 4))
    assert four.off.limits.max_sequences == 4 * one.off.limits.max_sequences
    assert four.off.limits.kv_blocks > 4 * one.off.limits.kv_blocks
    run = simulate_one(_scenario(moe, NGRAM, data_parallel=4, expert_parallel=True))
    assert run.result.counts.finished == 64
    assert any("4 attention ranks in lockstep" in item.text for item in run.assumptions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": {"profile": "sglang"}, "pipeline_parallel": 2}, "SGLang asserts that no speculation"),
        ({"engine": {"version": "0.15.1"}, "pipeline_parallel": 2}, "vLLM up to 0.15 refuses speculation"),
        ({"speculation": {"method": "mtp", "draft_tokens": 1}, "model": "deepseek-ai/DeepSeek-V3",
          "pipeline_parallel": 2, "tensor_parallel": 8}, "reported broken on later releases"),
        ({"data_parallel": 2}, "has no routed experts"),
        ({"data_parallel": 2, "pipeline_parallel": 2}, "not computed together"),
        ({"pipeline_parallel": 99}, "at most the 32 layers"),
        ({"model": "Qwen/Qwen3-30B-A3B", "speculation": NGRAM, "engine": {"profile": "sglang"}, "data_parallel": 2},
         "SGLang does not run ngram under attention data parallelism"),
    ],
)  # fmt: skip
def test_what_does_not_run_is_refused_with_the_reason(changes, message):
    with pytest.raises(SpecdecError, match=message):
        build_service(_scenario(**changes))


def test_plain_decoding_runs_over_stages_where_speculation_does_not():
    plain = build_service(_scenario(speculation={"method": "none"}, engine={"profile": "sglang"}, pipeline_parallel=2))
    assert plain.off.costs.stages == 2


@pytest.mark.parametrize(
    ("line", "hardware"),
    [
        ("vllm serve m -tp 2 -pp 4", {"tensor_parallel": 2, "pipeline_parallel": 4}),
        ("vllm serve m -dp 8 --enable-expert-parallel",
         {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": True}),
        (SGLANG + "--tp 8 --pp-size 2", {"tensor_parallel": 8, "pipeline_parallel": 2}),
        (SGLANG + "--tp 8 --dp 4 --enable-dp-attention --ep-size 8",
         {"tensor_parallel": 2, "data_parallel": 4, "expert_parallel": True}),
    ],
)  # fmt: skip
def test_serve_lines_say_stages_and_ranks(line, hardware):
    found = parse_serve_command(line).scenario["hardware"]
    assert {**{"tensor_parallel": 1}, **found} == hardware


@pytest.mark.parametrize(
    "line", ["vllm serve m -dp 4", SGLANG + "--dp-size 2", SGLANG + "--tp 8 --dp 3 --enable-dp-attention"]
)
def test_separate_replicas_are_refused(line):
    with pytest.raises(InvalidInput, match="give the load of one"):
        parse_serve_command(line)
