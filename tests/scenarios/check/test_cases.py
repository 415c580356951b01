"""Configurations of public reports that a check of the configuration would have settled; the number is the issue's."""

import json

import pytest

from tests.scenarios.check.checks import LLAMA, ask, levels, vllm

SGLANG = "python -m sglang.launch_server --model-path "


def config_file(folder, name, **values):
    file = folder / f"{name}.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    return str(file)


def dense(folder, name, *, hidden, layers, heads, kv_heads, ffn, vocab):
    """A Qwen2 config of a size."""
    return config_file(
        folder,
        name,
        architectures=["Qwen2ForCausalLM"],
        model_type="qwen2",
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=ffn,
        vocab_size=vocab,
        max_position_embeddings=32768,
        torch_dtype="bfloat16",
        tie_word_embeddings=False,
    )


def test_a_rotated_target_under_a_head_trained_on_16_bits_is_warned_of():  # vllm-ascend 5974
    line = vllm(
        "Qwen3-235B-A22B-w8a8-QuaRot", "--quantization ascend", method="eagle3", model="h", num_speculative_tokens=3
    )
    assert levels(ask(line), "basis of the hidden states") == ["warn"]
    line = vllm("Qwen3-235B-A22B-w8a8", "--quantization ascend", method="eagle3", model="h", num_speculative_tokens=3)
    assert levels(ask(line), "basis of the hidden states") == ["warn"]


def test_a_rotation_written_in_the_checkpoints_config_is_found(tmp_path):
    rotated = {"quant_method": "compressed-tensors", "transform_config": {"R1": {"type": "hadamard"}}}
    model = config_file(tmp_path, "model", model_type="llama", vocab_size=10, quantization_config=rotated)
    line = vllm("anything", "", method="eagle3", model="h", num_speculative_tokens=3)
    assert levels(ask(line, model=model), "basis of the hidden states") == ["warn"]
    plain = config_file(
        tmp_path, "plain", model_type="llama", vocab_size=10, quantization_config={"quant_method": "fp8"}
    )
    assert levels(ask(line, model=plain), "basis of the hidden states") == []


def test_a_matching_proposer_does_not_mind_a_rotated_target():
    line = vllm("Qwen3-235B-A22B-w8a8-QuaRot", "--quantization ascend", method="ngram", num_speculative_tokens=3)
    assert levels(ask(line), "basis of the hidden states") == []


def test_random_prompts_are_no_measure_of_acceptance():  # vllm 33497
    bench = "vllm bench serve --dataset-name random --random-input-len 1000 --random-output-len 1000 --ignore-eos"
    line = vllm("deepseek-ai/DeepSeek-V3.2", "-tp 8", method="mtp", num_speculative_tokens=1)
    report = ask(line, benchmarks=(bench,))
    assert levels(report, "benchmark data") == ["warn"]
    assert "loop" in next(finding.text for finding in report.findings if finding.rule == "benchmark data")


def test_sglangs_cap_of_48_is_found_for_a_load_above_it():  # sglang 34290
    line = SGLANG + "meta-llama/Llama-3.1-8B-Instruct --speculative-algorithm EAGLE3 --speculative-draft-model-path h"
    assert levels(ask(line, kind="closed", concurrency=49), "running requests") == ["warn"]
    assert levels(ask(line, kind="closed", concurrency=48), "running requests") == ["pass"]
    assert levels(ask(line + " --max-running-requests 64", kind="closed", concurrency=64), "running requests") == [
        "pass"
    ]


def test_attention_workers_share_the_cap():
    line = SGLANG + "deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention --speculative-algorithm EAGLE"
    [finding] = [one for one in ask(line, kind="closed", concurrency=256).findings if one.rule == "running requests"]
    assert finding.level == "warn"
    assert "6 for each of 8" in finding.number


@pytest.mark.parametrize(
    "more",
    [
        "--max-cudagraph-capture-size 42",
        "--cudagraph-capture-sizes 1 2 4 8 16 24 32 40",
        "--compilation-config '{\"cudagraph_capture_sizes\": [1, 2, 4, 8, 16, 24, 32, 40]}'",
        "",
    ],
)
def test_a_list_of_graphs_that_ends_below_the_full_batch_is_found(more):  # vllm 37865
    line = vllm("some/model", f"--max-num-seqs 6 {more}", method="eagle3", model="h", num_speculative_tokens=6)
    [finding] = [one for one in ask(line).findings if one.rule == "captured graphs"]
    assert finding.level == "warn"
    assert "42 against 40" in finding.number


@pytest.mark.parametrize("more", ["--cudagraph-capture-sizes 1 2 4 8 42", "--max-cudagraph-capture-size 48"])
def test_a_list_of_graphs_that_holds_the_full_batch_passes(more):
    line = vllm("some/model", f"--max-num-seqs 6 {more}", method="eagle3", model="h", num_speculative_tokens=6)
    assert levels(ask(line), "captured graphs") == ["pass"]


def test_chunked_prefill_with_a_sharded_draft_is_refused_by_v0():  # vllm 9291
    line = (
        "vllm serve neuralmagic/Meta-Llama-3.1-405B-FP8 -tp 8 --speculative-model meta-llama/Llama-3.1-8B-Instruct "
        "--num-speculative-tokens 8 --max-num-seqs 32 --enable-chunked-prefill --max-num-batched-tokens 4096 "
        "--max-model-len 32768 "
    )
    assert levels(ask(line, engine_version="0.6.3"), "draft tensor parallelism") == ["stop"]
    single = line + "--speculative-draft-tensor-parallel-size 1"
    assert levels(ask(single, engine_version="0.6.3"), "draft tensor parallelism") == ["pass"]
    assert levels(ask(line), "removed flags") == ["stop"]


@pytest.mark.parametrize(
    ("release", "level"), [("0.7.3", "stop"), ("0.15.1", "stop"), (None, "stop"), ("0.30", "stop")]
)
def test_mtp_over_pipeline_stages_is_stopped(release, level):  # vllm 14117
    line = vllm(
        "deepseek-ai/DeepSeek-R1", "-tp 8 -pp 2 --max-num-seqs 16", method="deepseek_mtp", num_speculative_tokens=1
    )
    assert levels(ask(line, engine_version=release), "pipeline parallelism") == [level]


def test_v0_drafts_with_mtp_layers_where_only_k_is_given():
    line = "vllm serve deepseek-ai/DeepSeek-R1 -tp 8 -pp 2 --num-speculative-tokens 1"
    report = ask(line, engine_version="0.7.3")
    assert levels(report, "pipeline parallelism") == ["stop"]
    assert levels(report, "MTP layers") == ["pass"]
    assert levels(report, "method") == []


@pytest.mark.parametrize(("release", "level"), [("0.15.1", "stop"), (None, "warn"), ("0.30", "pass")])
def test_eagle3_over_pipeline_stages_depends_on_the_release(release, level):
    line = vllm("some/model", "-pp 2", method="eagle3", model="h", num_speculative_tokens=3)
    assert levels(ask(line, engine_version=release), "pipeline parallelism") == [level]


def test_vocabularies_padded_differently_are_told_from_other_vocabularies(tmp_path):  # vllm 5203
    large = dense(tmp_path, "large", hidden=8192, layers=80, heads=64, kv_heads=8, ffn=29568, vocab=152064)
    small = dense(tmp_path, "small", hidden=896, layers=24, heads=14, kv_heads=2, ffn=4864, vocab=151936)
    speculative = {"model": "small", "num_speculative_tokens": 5, "method": "draft_model"}
    [finding] = [one for one in ask(vllm("large", "-tp 8", **speculative), model=large, draft=small).findings
                 if one.rule == "vocabulary"]  # fmt: skip
    assert finding.level == "stop"
    assert "128 apart" in finding.number
    assert "padding" in finding.text
    report = ask(vllm(**speculative), draft="TinyLlama/TinyLlama-1.1B-Chat-v1.0.json")
    [finding] = [one for one in report.findings if one.rule == "vocabulary"]
    assert finding.level == "stop"
    assert "another vocabulary" in finding.text


def test_a_draft_that_does_not_fit_beside_a_pool_sized_without_it_is_stopped(tmp_path):  # vllm 8731
    target = dense(tmp_path, "target", hidden=5120, layers=64, heads=40, kv_heads=8, ffn=27648, vocab=152064)
    line = (
        "vllm serve Qwen/Qwen2.5-32B-Instruct -tp 4 --max-model-len 1000 --speculative-model Qwen/Qwen2.5-7B-Instruct "
        "--num-speculative-tokens 5 "
    )
    for more in ("", "--speculative-draft-tensor-parallel-size 1"):
        report = ask(line + more, engine_version="0.6.1", gpu="A100-SXM-40GB", model=target)
        assert levels(report, "memory") == ["stop"]
    report = ask(line + "--gpu-memory-utilization 0.7", engine_version="0.6.1", gpu="A100-SXM-40GB", model=target)
    assert levels(report, "memory") == ["pass"]


def test_without_configs_the_sizes_in_the_names_decide():
    line = (
        "vllm serve Qwen/Qwen2.5-32B-Instruct -tp 4 --speculative-model Qwen/Qwen2.5-7B-Coder "
        "--num-speculative-tokens 5 --speculative-draft-tensor-parallel-size 1"
    )
    assert levels(ask(line, engine_version="0.6.1", gpu="A100-SXM-40GB"), "memory by name") == ["stop"]
    modern = vllm("Qwen/Qwen2.5-32B-Instruct", "-tp 4", method="draft_model", model="Qwen/Qwen2.5-7B-Coder",
                  num_speculative_tokens=5)  # fmt: skip
    assert levels(ask(modern, gpu="A100-SXM-40GB"), "memory by name") == ["pass"]


@pytest.mark.parametrize("fraction", ["0.5", "0.7", "0.88"])
def test_the_base_model_as_its_own_draft_is_stopped_in_memory_and_in_cost(fraction):  # sglang 6875
    line = (
        SGLANG
        + "meta-llama/Llama-3.1-70B-Instruct --tp 8 --speculative-algorithm STANDALONE --speculative-num-steps 3 "
        "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
        f"--speculative-draft-model-path meta-llama/Meta-Llama-3.1-70B --mem-fraction-static {fraction}"
    )
    report = ask(line, gpu="H100-SXM")
    assert levels(report, "memory") == ["stop"]
    assert levels(report, "size of the draft") == ["stop"]


def test_v0s_acceptance_rate_is_converted_and_warned_of():  # vllm 9565
    line = f"vllm serve {LLAMA} --speculative-model yuhuili/EAGLE-LLaMA3-Instruct-8B --num-speculative-tokens 3"
    findings = [one for one in ask(line, engine_version="0.6.3", figures=("acceptance_rate=29.6%",)).findings
                if one.rule == "acceptance rate"]  # fmt: skip
    assert [finding.level for finding in findings] == ["warn", "warn"]
    assert "AL = 1.89" in findings[0].number


def test_gaps_between_chunks_are_no_objective():  # sglang 12064
    line = SGLANG + "some/model --speculative-algorithm EAGLE3 --speculative-draft-model-path h"
    assert levels(ask(line, slo=("itl_p50=10ms",)), "ITL as an objective") == ["warn"]
    assert levels(ask(line, figures=("median_itl_ms",)), "ITL as an objective") == ["warn"]
    assert levels(ask(line, figures=("peak_throughput",)), "chunks counted as tokens") == ["warn"]
    assert levels(ask(line, slo=("tpot_p50=10ms",)), "ITL as an objective") == []
