"""Rules at their edges: what they report just beyond a limit, and not just before it."""

import json

import pytest

from tests.scenarios.check.checks import EAGLE, HEAD, LLAMA, SGLANG, ask, eagle, levels, sglang, vllm, written_to


@pytest.mark.parametrize(("budget", "level"), [(256, "pass"), (239, "warn"), (3, "stop")])
def test_a_step_must_hold_the_batch_with_its_drafts(budget, level):
    line = eagle(f"--max-num-seqs 60 --max-num-batched-tokens {budget}")
    assert levels(ask(line), "token budget") == [level]


def test_a_draft_model_needs_one_more_row_a_sequence():
    line = vllm(LLAMA, "--max-num-seqs 64 --max-num-batched-tokens 300", method="draft_model", model="d",
                num_speculative_tokens=3)  # fmt: skip
    [finding] = [one for one in ask(line).findings if one.rule == "token budget"]
    assert finding.level == "warn"
    assert "64 sequences x 5 = 320 tokens of 300" in finding.number


def test_a_budget_below_the_number_of_sequences_is_refused_by_the_engine():
    assert levels(ask(eagle("--max-num-seqs 128 --max-num-batched-tokens 64")), "budget and sequences") == ["stop"]


def test_a_load_above_the_cap_queues():
    assert levels(ask(eagle("--max-num-seqs 32"), kind="closed", concurrency=33), "running requests") == ["warn"]
    assert levels(ask(eagle("--max-num-seqs 32"), kind="closed", concurrency=32), "running requests") == ["pass"]


def test_old_releases_end_their_list_of_graphs_at_twice_the_sequences():
    assert levels(ask(eagle("--max-num-seqs 64"), engine_version="0.11"), "captured graphs") == ["warn"]
    assert levels(ask(eagle("--max-num-seqs 64"), engine_version="0.33"), "captured graphs") == []


def test_sglangs_graphs_count_sequences():
    assert levels(ask(sglang(more="--cuda-graph-max-bs 8 --max-running-requests 16")), "captured graphs") == ["warn"]
    assert levels(ask(sglang(more="--cuda-graph-max-bs 16 --max-running-requests 16")), "captured graphs") == ["pass"]


def test_eager_passes_are_warned_of():
    assert levels(ask(eagle("--enforce-eager")), "eager drafting") == ["warn"]
    assert levels(ask(eagle(enforce_eager=True)), "eager drafting") == ["warn"]
    assert levels(ask(eagle()), "eager drafting") == []


@pytest.mark.parametrize(("size", "level"), [(1, "pass"), (4, "pass"), (2, "stop")])
def test_the_draft_runs_on_one_gpu_or_on_all(size, level):
    assert levels(ask(eagle("-tp 4", draft_tensor_parallel_size=size)), "draft tensor parallelism") == [level]


@pytest.mark.parametrize(("size", "levels_"), [(1, []), (2, ["stop"])])
def test_the_drafts_heads_must_divide_over_its_gpus(size, levels_, tmp_path):
    draft = written_to(tmp_path, json.dumps({"model_type": "qwen2", "num_attention_heads": 7}), "draft.json")
    line = vllm(
        "m", "-tp 2", method="draft_model", model="d", num_speculative_tokens=3, draft_tensor_parallel_size=size
    )
    assert levels(ask(line, draft=str(draft)), "attention heads") == levels_


@pytest.mark.parametrize(("family", "level"), [("mixtral", "pass"), ("llama", "warn")])
def test_equal_sizes_of_different_families_are_doubted(family, level, tmp_path):
    draft = written_to(tmp_path, json.dumps({"model_type": family, "vocab_size": 32000}), "draft.json")
    model = written_to(tmp_path, json.dumps({"model_type": "mistral", "vocab_size": 32000}), "model.json")
    line = vllm("m", method="draft_model", model="d", num_speculative_tokens=3)
    assert levels(ask(line, model=str(model), draft=str(draft)), "vocabulary") == [level]


def test_k_is_missing_only_where_no_config_names_it():
    line = vllm(LLAMA, method="eagle3", model="head")
    assert levels(ask(line), "number of drafts") == ["stop"]
    assert levels(ask(vllm(LLAMA, method="suffix")), "number of drafts") == []
    assert levels(ask(vllm(LLAMA, method="mtp")), "number of drafts") == []


@pytest.mark.parametrize(("k", "level"), [(1, "pass"), (2, "pass"), (3, "stop"), (4, "pass")])
def test_k_is_a_multiple_of_the_mtp_layers(k, level, tmp_path):
    config = {"model_type": "deepseek_v3", "num_nextn_predict_layers": 2, "vocab_size": 100}
    model = written_to(tmp_path, json.dumps(config), "model.json")
    line = vllm("any/model", method="mtp", num_speculative_tokens=k)
    assert levels(ask(line, model=str(model)), "MTP layers") == [level]


def test_a_model_without_mtp_layers_cannot_draft_with_them():
    assert levels(ask(vllm(LLAMA, method="mtp", num_speculative_tokens=1)), "MTP layers") == ["stop"]


def test_num_draft_tokens_counts_the_root():
    assert levels(ask(sglang(3, 1, 4)), "num-draft-tokens") == []
    assert levels(ask(sglang(4, 1, 4)), "num-draft-tokens") == ["warn"]
    assert levels(ask(sglang(2, 2, 8)), "num-draft-tokens") == ["stop"]
    assert levels(ask(sglang(2, 2, 7)), "num-draft-tokens") == ["pass"]
    line = SGLANG + "--speculative-algorithm EAGLE3 --speculative-draft-model-path h --speculative-num-draft-tokens 4"
    assert levels(ask(line), "num-draft-tokens") == ["stop"]


def test_engines_that_count_differently_are_set_side_by_side():
    vllm_4 = eagle(num_speculative_tokens=4)
    [finding] = [one for one in ask(vllm_4, against=sglang(3, 1, 4)).findings if "two config" in one.rule]
    assert finding.level == "warn"
    assert "counts the root" in finding.text
    assert levels(ask(vllm_4, against=sglang(4, 1, 5)), "K of the two configurations") == ["pass"]


@pytest.mark.parametrize(
    ("rows", "level"),
    [
        ([[1, 8, 3], [9, 64, 1]], "pass"),
        ([[1, 8, 3], [9, 64, 0]], "pass"),
        ([[2, 8, 3]], "stop"),
        ([[1, 8, 3], [8, 64, 1]], "stop"),
        ([[1, 8, 3], [12, 10, 1]], "stop"),
        ([[1, 8, 5]], "warn"),
    ],
)
def test_ranges_start_at_one_and_do_not_overlap(rows, level):
    found = levels(ask(eagle(num_speculative_tokens_per_batch_size=rows)), "K by batch size")
    assert found[0] == level


def test_a_load_at_which_k_is_zero_pays_for_nothing():
    line = eagle(num_speculative_tokens_per_batch_size=[[1, 8, 3], [9, 64, 0]])
    assert levels(ask(line, kind="closed", concurrency=8), "K by batch size") == ["pass"]
    assert levels(ask(line, kind="closed", concurrency=9), "K by batch size") == ["warn"]
    [finding] = [one for one in ask(line, gpu="H100-SXM", kind="closed", concurrency=9).findings
                 if one.rule == "K by batch size"]  # fmt: skip
    assert "0.3 ms" in finding.text


def test_adaptive_drafting_needs_a_chain():
    assert levels(ask(sglang(more="--speculative-adaptive")), "adaptive drafting") == ["pass"]
    assert levels(ask(sglang(3, 4, 16, "--speculative-adaptive")), "adaptive drafting") == ["stop"]


@pytest.mark.parametrize(
    ("keys", "rule", "level"),
    [
        ({"tensor_parallel_size": 2}, "keys of the speculative config", "stop"),
        ({"speculative_token_tree": "[(0,)]"}, "keys of the speculative config", "stop"),
        ({"disable_by_batch_size": 32}, "keys of the speculative config", "stop"),
        ({"num_speculative_token": 3}, "keys of the speculative config", "stop"),
        ({"method": "medusa"}, "method", "stop"),
        ({"method": "egale3"}, "method", "stop"),
        ({"rejection_sample_method": "strict"}, "rejection method", "stop"),
        ({"rejection_sample_method": "fly"}, "rejection method", "warn"),
        ({"rejection_sample_method": "synthetic"}, "synthetic acceptance", "stop"),
        ({"synthetic_acceptance_length": 2.0}, "synthetic acceptance", "stop"),
        ({"disable_padded_drafter_batch": True}, "asynchronous scheduling", "warn"),
    ],
)
def test_keys_the_engine_refuses_or_that_cost_something(keys, rule, level):
    assert levels(ask(eagle(**keys)), rule) == [level]


@pytest.mark.parametrize(
    ("knobs", "level"),
    [
        ({"synthetic_acceptance_length": 2.4}, "warn"),
        ({"synthetic_acceptance_length": 4.5}, "stop"),
        ({"synthetic_acceptance_rates": [0.8, 0.6, 0.4]}, "warn"),
        ({"synthetic_acceptance_rates": [0.8, 0.9, 0.4]}, "stop"),
        ({"synthetic_acceptance_rates": [0.8, 0.6]}, "stop"),
        ({"synthetic_acceptance_rate": 0.6}, "stop"),
        ({"synthetic_acceptance_length": 2.4, "synthetic_acceptance_rates": [0.8, 0.6, 0.4]}, "stop"),
    ],
)
def test_synthetic_knobs(knobs, level):
    line = eagle(rejection_sample_method="synthetic", **knobs)
    assert levels(ask(line), "synthetic acceptance") == [level]


def test_older_releases_keep_their_names():
    line = eagle(rejection_sample_method="synthetic", synthetic_acceptance_rate=0.6)
    assert levels(ask(line, engine_version="0.20"), "synthetic acceptance") == ["warn"]
    line = eagle(rejection_sample_method="strict")
    assert levels(ask(line, engine_version="0.20"), "rejection method") == []
    draft = vllm(LLAMA, method="draft_model", model="d", num_speculative_tokens=3)
    assert levels(ask(draft, engine_version="0.10.0"), "method") == ["stop"]
    assert levels(ask(draft, engine_version="0.16"), "method") == []


def test_asynchronous_scheduling_excludes_host_drafts_and_unpadded_batches():
    ngram = vllm(LLAMA, "--async-scheduling", method="ngram", num_speculative_tokens=3)
    assert levels(ask(ngram), "asynchronous scheduling") == ["stop"]
    on_gpu = vllm(LLAMA, "--async-scheduling", method="ngram_gpu", num_speculative_tokens=3)
    assert levels(ask(on_gpu), "asynchronous scheduling") == []
    assert levels(ask(eagle("--async-scheduling", disable_padded_drafter_batch=True)), "asynchronous scheduling") == [
        "stop"
    ]


def test_the_second_model_runner_lacks_methods():
    suffix = vllm(LLAMA, method="suffix", num_speculative_tokens=8)
    assert levels(ask("VLLM_USE_V2_MODEL_RUNNER=1 " + suffix), "model runner") == ["stop"]
    assert levels(ask(suffix), "model runner") == ["pass"]


def test_heads_of_another_target_are_stopped():
    line = vllm("meta-llama/Llama-3.1-70B-Instruct", **EAGLE)
    report = ask(line, draft=HEAD)
    assert levels(report, "width of the head") == ["stop"]
    report = ask(vllm("Qwen/Qwen3-8B", **EAGLE), draft=HEAD)
    assert levels(report, "vocabulary") == ["stop"]


@pytest.mark.parametrize(("longest", "level"), [(2048, "pass"), (2049, "warn")])
def test_the_draft_must_see_whole_requests(longest, level):
    line = eagle(f"--max-model-len {longest}")
    assert levels(ask(line, draft="SafeAILab/EAGLE3-LLaMA3.1-8B.json"), "draft window") == [level]


def test_the_cache_must_hold_the_load_beside_the_draft():
    small = {"gpu": "L4", "draft": HEAD, "kind": "closed", "output_tokens": 100}
    assert levels(ask(eagle(), concurrency=2, input_tokens=20000, **small), "memory") == ["pass"]
    assert levels(ask(eagle(), concurrency=2, input_tokens=23000, **small), "memory") == ["warn"]
    assert levels(ask(vllm("meta-llama/Llama-3.1-70B-Instruct", **EAGLE), gpu="H100-SXM"), "memory") == ["stop"]


def test_sglang_refuses_stages_and_attention_workers_with_some_methods():
    assert levels(ask(sglang(more="--pp-size 2")), "pipeline parallelism") == ["stop"]
    ngram = (
        SGLANG + "--tp 8 --dp 8 --enable-dp-attention --speculative-algorithm NGRAM --speculative-num-draft-tokens 8"
    )
    assert levels(ask(ngram), "attention data parallelism") == ["stop"]
    assert levels(ask("SGLANG_ENABLE_SPEC_V2=1 " + sglang(3, 4, 16)), "overlap and mixed chunks") == ["stop"]


@pytest.mark.parametrize(
    ("extra", "rule", "level"),
    [
        ("max_total_draft_tokens: 31\n  use_dynamic_tree: true\n  dynamic_tree_max_topK: 10", "dynamic tree", "stop"),
        ("max_total_draft_tokens: 30\n  use_dynamic_tree: true\n  dynamic_tree_max_topK: 10", "dynamic tree", "pass"),
        ("max_concurrency: 4", "speculation off above a load", "warn"),
        ("max_concurrency: 8", "speculation off above a load", "pass"),
    ],
)
def test_tensorrt_llm_sections(extra, rule, level, tmp_path):
    text = f"speculative_config:\n  decoding_type: Eagle3\n  max_draft_len: 3\n  speculative_model: h\n  {extra}\n"
    report = ask(file=written_to(tmp_path, text), kind="closed", concurrency=8)
    assert levels(report, rule) == [level]


def test_only_eagle3_drafts_trees(tmp_path):
    text = "speculative_config:\n  decoding_type: NGram\n  max_draft_len: 3\n  use_dynamic_tree: true\n"
    assert levels(ask(file=written_to(tmp_path, text)), "dynamic tree") == ["stop"]


def test_tensorrt_llm_reads_the_yaml_its_command_names(tmp_path):
    written_to(
        tmp_path, "speculative_config:\n  decoding_type: MTP\n  max_draft_len: 3\n  num_nextn_predict_layers: 1\n"
    )
    line = f"trtllm-serve deepseek-ai/DeepSeek-R1 --max_batch_size 8 --tp_size 8 --config {tmp_path}/config.yaml"
    report = ask(line)
    assert levels(report, "MTP layers")[0] == "stop"
    lookahead = "speculative_config:\n  decoding_type: Lookahead\n  max_window_size: 4\n"
    assert levels(ask(file=written_to(tmp_path, lookahead)), "method") == ["stop"]


def test_llama_cpp_ranges_and_placement():
    line = "llama-server -m t.gguf -md d.gguf -ngl 99 --draft-max 8 --draft-min "
    assert levels(ask(line + "8"), "draft range") == ["pass"]
    assert levels(ask(line + "9"), "draft range") == ["stop"]
    assert levels(ask(line + "1", engine_version="b9000"), "removed flags") == ["stop"]
    assert levels(ask(line + "1 -ngld 0"), "draft placement") == ["warn"]
    report = ask(line + "1 -c 32768 -cd 4096")
    assert levels(report, "draft window") == ["warn"]


def test_attention_workers_run_their_share_of_the_batch():
    line = sglang(more="--tp 8 --dp 8 --enable-dp-attention --cuda-graph-max-bs 8 --max-running-requests ")
    assert levels(ask(line + "64"), "captured graphs") == ["pass"]
    assert levels(ask(line + "65"), "captured graphs") == ["warn"]


def test_a_head_made_for_the_rotated_target_passes():
    line = vllm("Qwen3-235B-A22B-w8a8-rot", "--quantization ascend", method="eagle3", model="EAGLE3-rotated",
                num_speculative_tokens=3)  # fmt: skip
    assert levels(ask(line), "basis of the hidden states") == ["pass"]


@pytest.mark.parametrize(("sequences", "found"), [(512, []), (513, ["warn"])])
def test_a_block_drafters_lookahead_caps_the_active_sequences(sequences, found):
    line = vllm(LLAMA, f"--max-num-seqs {sequences} --max-num-batched-tokens 8192", method="dflash", model="d",
                num_speculative_tokens=15)  # fmt: skip
    assert levels(ask(line), "active sequences") == found


@pytest.mark.parametrize(("k", "level"), [(16, "pass"), (17, "warn")])
def test_a_block_drafter_drafts_at_most_its_block(k, level, tmp_path):
    draft = written_to(tmp_path, json.dumps({"model_type": "qwen3", "block_size": 16}), "draft.json")
    line = vllm(LLAMA, method="dflash", model="d", num_speculative_tokens=k)
    assert levels(ask(line, draft=str(draft)), "block size") == [level]


@pytest.mark.parametrize(("output_tokens", "level"), [(4, "warn"), (5, "pass")])
def test_outputs_of_one_round_are_not_worth_drafting(output_tokens, level):
    report = ask(eagle(), kind="closed", concurrency=4, input_tokens=100, output_tokens=output_tokens)
    assert levels(report, "short outputs") == [level]


@pytest.mark.parametrize(
    ("line", "below", "since"),
    [
        (sglang(more="--prefill-attention-backend flashinfer --decode-attention-backend fa3"), "0.5.1", "0.5.2"),
        (sglang(3, 2, 8, "--attention-backend fa3"), "0.4.5", "0.4.6"),
    ],
)
def test_features_open_with_their_release(line, below, since):
    assert levels(ask(line, engine_version=below), "features by release") == ["stop"]
    assert levels(ask(line, engine_version=since), "features by release") == []
    assert levels(ask(line), "features by release") == []


def test_two_cache_managers_claimed_the_whole_budget(tmp_path):
    text = "speculative_config:\n  decoding_type: MTP\n  max_draft_len: 1\n"
    text += "kv_cache_config:\n  use_kv_cache_manager_v2: true\n"
    file = written_to(tmp_path, text)
    assert levels(ask(file=file, engine_version="1.2.0"), "features by release") == ["stop"]
    assert levels(ask(file=file, engine_version="1.3.0"), "features by release") == []


def test_flags_of_another_engine_are_named():
    line = SGLANG + "--speculative-model [ngram] --num-speculative-tokens 3"
    assert levels(ask(line), "flags of another engine") == ["stop"]
    assert levels(ask(f"vllm serve {LLAMA} --speculative-num-steps 3"), "flags of another engine") == ["stop"]
    assert levels(ask(sglang()), "flags of another engine") == levels(ask(eagle()), "flags of another engine") == []


def test_a_trio_without_its_branching_fails():
    line = SGLANG + "--speculative-algorithm EAGLE3 --speculative-draft-model-path h --speculative-num-steps 3"
    assert levels(ask(line), "num-draft-tokens") == ["stop"]


def test_v0_chunks_long_contexts_by_itself():
    line = "vllm serve m -tp 4 --speculative-model d --num-speculative-tokens 3 --max-model-len "
    assert levels(ask(line + "32768"), "draft tensor parallelism") == ["pass"]
    assert levels(ask(line + "32769"), "draft tensor parallelism") == ["stop"]


def test_notes_on_what_only_a_run_shows(tmp_path):
    many = vllm("deepseek-ai/DeepSeek-V3", method="mtp", num_speculative_tokens=8)
    assert levels(ask(many), "prefix caching and MTP") == ["pass"]
    matching = "speculative_config:\n  decoding_type: NGram\n  max_draft_len: 3\n"
    assert levels(ask(file=written_to(tmp_path, matching)), "overlap scheduler") == ["pass"]
    beams = written_to(tmp_path, matching + "max_beam_width: 4\n")
    assert levels(ask(file=beams), "overlap scheduler") == ["stop", "pass"]
