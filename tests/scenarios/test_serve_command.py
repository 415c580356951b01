import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from scenarios.imports.serve_command import parse_serve_command
from scenarios.imports.speculative_config import least_variance_shares, shares_of_mean_rate

LLAMA = "vllm serve meta-llama/Llama-3.1-70B-Instruct"


def fate(command, flag):
    return {report.flag: report.fate for report in parse_serve_command(command).flags}[flag]


def test_the_line_of_the_main_job_fills_target_hardware_and_speculation():
    command = parse_serve_command(
        LLAMA + " --tensor-parallel-size 4 "
        """--speculative-config '{"method":"eagle3","num_speculative_tokens":3}'"""
    )
    assert command.scenario == {
        "target": {"model": "meta-llama/Llama-3.1-70B-Instruct"},
        "hardware": {"tensor_parallel": 4},
        "engine": {"profile": "vllm"},
        "speculation": {"method": "eagle3", "draft_tokens": 3},
    }
    assert {report.fate for report in command.flags} == {"honoured"}


@pytest.mark.parametrize(
    "line",
    [
        LLAMA + " --tensor-parallel-size 4",
        LLAMA + " --tensor-parallel-size=4",
        LLAMA + " --tensor_parallel_size 4",
        LLAMA + " -tp 4",
        LLAMA + " -tp=4",
        "CUDA_VISIBLE_DEVICES=0,1,2,3 " + LLAMA + " -tp 4",
        "vllm serve --model meta-llama/Llama-3.1-70B-Instruct -tp 4",
        "python -m vllm.entrypoints.openai.api_server --model meta-llama/Llama-3.1-70B-Instruct -tp 4",
        "venv/bin/python3 -m vllm.entrypoints.openai.api_server --model=meta-llama/Llama-3.1-70B-Instruct -tp 4",
        "vllm serve meta-llama/Llama-3.1-70B-Instruct \\\n  -tp 4",
    ],
)
def test_all_spellings_of_a_flag_and_of_the_launcher_agree(line):
    scenario = parse_serve_command(line).scenario
    assert scenario["target"]["model"] == "meta-llama/Llama-3.1-70B-Instruct"
    assert scenario["hardware"]["tensor_parallel"] == 4


def test_engine_options_land_in_the_engine_table():
    engine = parse_serve_command(
        LLAMA + " --gpu-memory-utilization 0.9 --block-size 32 --max-model-len 16k --max-num-batched-tokens 8K "
        "--max-num-seqs 256 --no-enable-chunked-prefill --enforce-eager --num-gpu-blocks-override 9000 "
        "--long-prefill-token-threshold 2048"
    ).scenario["engine"]
    assert engine == {
        "profile": "vllm",
        "gpu_memory_utilization_fraction": 0.9,
        "block_tokens": 32,
        "max_context_tokens": 16_000,
        "max_batched_tokens": 8_192,
        "max_sequences": 256,
        "chunked_prefill": False,
        "enforce_eager": True,
        "kv_blocks": 9000,
        "long_prefill_threshold_tokens": 2048,
    }


def test_every_flag_is_accounted_for_as_honoured_ignored_or_unknown():
    line = LLAMA + " --port 8000 --trust-remote-code --enable-prefix-caching --max-num-seq 9 -tp 2 --api-key secret"
    assert fate(line, "--port") == "ignored"
    assert fate(line, "--trust-remote-code") == "ignored"
    assert fate(line, "--enable-prefix-caching") == "ignored"
    assert fate(line, "--tensor-parallel-size") == "honoured"
    reports = {report.flag: report for report in parse_serve_command(line).flags}
    assert reports["--max-num-seq"].fate == "unknown"
    assert "max-num-seqs" in reports["--max-num-seq"].reason
    assert all(report.reason for report in reports.values())


def test_dotted_and_short_speculative_flags_equal_the_json_object():
    dotted = parse_serve_command(
        LLAMA + " --speculative-config.method eagle3 --speculative-config.num_speculative_tokens=3"
    ).scenario
    short = parse_serve_command(LLAMA + """ -sc '{"method": "eagle3", "num_speculative_tokens": 3}'""").scenario
    assert dotted["speculation"] == short["speculation"] == {"method": "eagle3", "draft_tokens": 3}


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("yuhuili/EAGLE-LLaMA3.1-Instruct-8B", "eagle"),
        ("yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "eagle3"),
        ("Qwen/Qwen3-0.6B", "draft_model"),
        ("ngram", "ngram"),
    ],
)
def test_the_method_is_detected_from_the_drafts_name(model, method):
    config = json.dumps({"model": model, "num_speculative_tokens": 4})
    assert parse_serve_command(f"{LLAMA} -sc '{config}'").scenario["speculation"]["method"] == method


def test_old_names_of_mtp_map_to_mtp():
    line = LLAMA + """ -sc '{"method":"deepseek_mtp","num_speculative_tokens":1}'"""
    assert parse_serve_command(line).scenario["speculation"] == {"method": "mtp", "draft_tokens": 1}


def test_a_schedule_by_batch_is_capped_by_the_largest_k():
    config = {
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 16, 2], [64, 128, 0]],
    }
    rows = parse_serve_command(f"{LLAMA} -sc '{json.dumps(config)}'").scenario["speculation"]["draft_tokens_by_batch"]
    assert rows == [[1, 4, 3], [5, 16, 2], [64, 128, 0]]


def test_synthetic_acceptance_by_length_has_the_least_variance():
    assert least_variance_shares(2.4, 3) == pytest.approx([1.0, 0.4, 0.0])
    config = {
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.4,
    }
    acceptance = parse_serve_command(f"{LLAMA} -sc '{json.dumps(config)}'").scenario["acceptance"]
    assert acceptance["synthetic"]
    assert acceptance["per_position"] == pytest.approx([1.0, 0.4, 0.0])


@given(rate=st.floats(0.0, 1.0), draft_tokens=st.integers(1, 8))
def test_the_old_synthetic_rate_is_the_mean_of_the_shares(rate, draft_tokens):
    shares = shares_of_mean_rate(rate, draft_tokens)
    assert sum(shares) / draft_tokens == pytest.approx(rate, abs=1e-9)
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert sorted(shares, reverse=True) == shares


@given(length=st.floats(1.0, 9.0))
def test_least_variance_shares_sum_to_the_length(length):
    assert 1.0 + sum(least_variance_shares(length, 8)) == pytest.approx(length)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("docker run vllm", ("docker run vllm", "vllm serve MODEL")),
        ("", ("nothing", "vllm serve MODEL")),
        ("vllm serve", ("names no model",)),
        (LLAMA + " extra words", ("extra words",)),
        (LLAMA + " 'unclosed", ("quotes",)),
        (LLAMA + " -tp", ("-tp", "needs a value")),
        (LLAMA + " -tp many", ("--tensor-parallel-size", "many")),
        (LLAMA + " -dp 4", ("--data-parallel-size", "divided by 4")),
        (LLAMA + " --dtype float32", ("float32", "16 bits")),
        (LLAMA + " --gpu-memory-utilization nan", ("nan", "finite")),
        (LLAMA + " -sc '{method: eagle3}'", ("{method: eagle3}", "JSON object")),
        (LLAMA + " -sc '[1]'", ("[1]", "JSON object")),
        (LLAMA + """ -sc '{"method":"eagle3","num_speculative_tokens":-1}'""", ("-1", "at least 1")),
        (LLAMA + """ -sc '{"method":"eagle9","num_speculative_tokens":1}'""", ("eagle9", "eagle3")),
        (LLAMA + """ -sc '{"method":"dflash","num_speculative_tokens":1}'""", ("dflash", "cannot be computed")),
        (LLAMA + """ -sc '{"method":"eagle3","tensor_parallel_size":1}'""", ("draft_tensor_parallel_size",)),
        (LLAMA + """ -sc '{"num_speculative_tokens":1}'""", ("neither method nor model",)),
    ],
)
def test_wrong_serve_lines_are_refused_in_one_sentence(line, words):
    with pytest.raises(InvalidInput) as caught:
        parse_serve_command(line)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_an_sglang_chain_counts_the_root_token_out():
    scenario = parse_serve_command(
        "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2 "
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path x --speculative-num-draft-tokens 4"
    ).scenario
    assert scenario["speculation"] == {"method": "eagle3", "draft_tokens": 3, "draft": "x"}
    assert scenario["engine"]["profile"] == "sglang"


def test_an_sglang_tree_keeps_the_nodes_beside_the_root():
    scenario = parse_serve_command(
        "python -m sglang.launch_server --model m --speculative-algorithm EAGLE3 --speculative-eagle-topk 4 "
        "--speculative-num-steps 3 --speculative-num-draft-tokens 16"
    ).scenario
    assert scenario["speculation"] == {"method": "eagle3", "tree": {"nodes": 15, "depth": 3, "beam": 4}}


def test_an_sglang_tree_without_its_size_is_refused():
    with pytest.raises(InvalidInput, match="needs --speculative-num-steps and"):
        parse_serve_command(
            "python -m sglang.launch_server --model m --speculative-algorithm EAGLE3 "
            "--speculative-eagle-topk 4 "
            "--speculative-num-steps 3"
        )
