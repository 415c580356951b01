"""Draft heads: fused inputs, reduced vocabularies, shared tables, and pairings that cannot be."""

import pytest

from roofline.counts import flops_per_token, kv_bytes_per_token, parameters, weight_bytes
from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_catalogue import catalogue_folder
from roofline.hf_config import load_model, model_from_config, mtp_head, read_config

TARGET_8B = "meta-llama/Llama-3.1-8B-Instruct"


def _config(stem: str, **changes: object):
    return {**read_config(catalogue_folder() / f"{stem}.json"), **changes}


def _head(stem: str, method: str, **changes: object):
    return model_from_config(_config(stem, **changes), name=stem, role="head", method=method)


def test_an_eagle3_head_of_llama_8b_counts_as_by_hand():
    head = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=load_model(TARGET_8B))
    h, i, kv = 4096, 14336, 1024
    fuse = 3 * h * h
    attention = 2 * h * (h + 2 * kv) + h * h
    assert parameters(head) == fuse + attention + 3 * h * i + 4 * h + h * 32000
    assert head.embedding_rows == 0
    assert head.owns_lm_head
    assert head.lm_head.outputs == 32000
    assert flops_per_token(head, 0)["inputs"] == 2 * fuse
    assert kv_bytes_per_token(head) == 4096


def test_an_eagle1_head_shares_both_tables_and_multiplies_the_lm_head():
    head = load_model("yuhuili/EAGLE-llama2-chat-7B", role="head", method="eagle")
    h, i = 4096, 11008
    assert parameters(head) == 2 * h * h + h + 4 * h * h + 3 * h * i + h
    assert not head.owns_lm_head
    assert flops_per_token(head, 0)["lm_head"] == 2 * h * 32000


def test_an_eagle3_head_without_a_reduced_vocabulary_holds_a_whole_lm_head():
    head = load_model("lightseek/EAGLE3-kimi-k25", role="head", method="eagle3")
    assert head.lm_head.outputs == 163840
    assert head.owns_lm_head


def test_eagle31_adds_a_norm_per_fused_state():
    plain = load_model("SpecForge/EAGLE3-qwen3-30B-A3B", role="head", method="eagle3")
    normed = load_model("SpecForge/EAGLE3.1-qwen3-30B-A3B", role="head", method="eagle3")
    assert parameters(normed) - parameters(plain) == 3 * 2048


def test_an_eagle3_head_may_attend_with_a_latent():
    head = load_model("lightseek/EAGLE3-MLA-kimi-k25", role="head", method="eagle3")
    assert kv_bytes_per_token(head) == (512 + 64) * 2
    first = head.layers[0].linears[0]
    assert (first.name, first.inputs) == ("qkv_a", 2 * 7168)


def test_only_the_first_layer_of_a_parallel_eagle_takes_two_inputs():
    head = load_model("SpecForge/PEAGLE-qwen3-8b", role="head", method="p_eagle")
    inputs = {layer.linears[0].inputs: layer.count for layer in head.layers}
    assert inputs == {2 * 4096: 1, 4096: 3}
    as_eagle3 = load_model("SpecForge/PEAGLE-qwen3-8b", role="head", method="eagle3")
    assert parameters(as_eagle3) == parameters(head)


def test_a_speculators_file_is_read_through_its_layer_config():
    head = load_model("RedHatAI/gemma-4-31B-it-speculator.eagle3", role="head", method="eagle3")
    assert (head.hidden_size, head.lm_head.outputs, head.inputs[0].inputs) == (5376, 32000, 3 * 5376)


def test_a_block_drafter_fuses_the_listed_layers_and_shares_both_tables():
    head = load_model("SpecForge/DFlash-qwen3-8b", role="head", method="dflash", target=load_model("Qwen/Qwen3-8B"))
    assert head.inputs[0].inputs == 5 * 4096
    assert (head.block_size, head.embedding_rows, head.owns_lm_head) == (16, 0, False)
    h, i = 4096, 12288
    layer = h * (4096 + 2048) + 4096 * h + 3 * h * i + 2 * h + 2 * 128
    assert parameters(head) == 5 * h * h + 5 * layer + 2 * h


def test_dspark_adds_a_bigram_bias_and_a_confidence_head():
    plain = load_model("SpecForge/DFlash-qwen3-8b", role="head", method="dflash")
    dspark = load_model("SpecForge/DSpark-qwen3-8b", role="head", method="dspark")
    assert parameters(dspark) - parameters(plain) == 2 * 256 * 151936 + (4096 + 256 + 1)
    assert dspark.block_size == 7


def test_domino_adds_a_gru_and_a_low_rank_correction():
    plain = load_model("SpecForge/DFlash-qwen3-8b", role="head", method="dflash")
    domino = load_model("SpecForge/Domino-qwen3-8b", role="head", method="domino")
    gru = 3 * 1024 * (4096 + 1024)
    assert parameters(domino) - parameters(plain) == gru + (4096 + 1024) * 256 + 256 * 151936


def test_an_mtp_head_is_the_targets_own_layer():
    target = load_model("deepseek-ai/DeepSeek-V3")
    head = mtp_head(target)
    assert (head.role, head.embedding_rows, head.owns_lm_head) == ("head", 0, False)
    assert parameters(head) / 1e9 == pytest.approx(11.61, rel=1e-3)
    assert head.inputs[0].inputs == 2 * 7168
    assert weight_bytes(head) > parameters(head)
    assert load_model("deepseek-ai/DeepSeek-V3", role="head", method="mtp") == head.model_copy(
        update={"source": target.source}
    )
    assert load_model("deepseek-ai/DeepSeek-V3", role="head", method="deepseek_mtp", target=target) == head


def test_a_model_without_mtp_layers_has_no_mtp_head():
    with pytest.raises(InvalidInput, match="shipped with MTP layers"):
        mtp_head(load_model(TARGET_8B))


def test_a_head_follows_the_cache_of_its_target():
    target = load_model(TARGET_8B, kv_cache_dtype="fp8")
    head = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=target)
    assert kv_bytes_per_token(head) == 2048
    own = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=target, kv_cache_dtype="bf16")
    assert kv_bytes_per_token(own) == 4096


def test_a_head_of_a_32_bit_target_is_32_bit():
    target = load_model(TARGET_8B, quantization="fp32")
    head = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=target)
    assert weight_bytes(head) == 4 * parameters(head)


def test_a_quantised_head_keeps_its_fusing_matrix_in_16_bits():
    head = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3")
    small = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", quantization="fp8")
    layers = sum(linear.weights for layer in head.layers for linear in layer.linears)
    assert weight_bytes(head) - weight_bytes(small) == layers


def test_a_separate_draft_model_holds_everything_itself():
    draft = load_model("meta-llama/Llama-3.2-1B-Instruct", role="draft_model")
    assert draft.role == "draft_model"
    assert draft.embedding_rows == draft.vocab_size


@pytest.mark.parametrize(
    ("stem", "method", "complaint"),
    [
        ("SpecForge--EAGLE3-llama3-8B", None, "`method` must be given"),
        ("SpecForge--EAGLE3-llama3-8B", "telepathy", "'telepathy'"),
        ("SpecForge--EAGLE3-llama3-8B", "eagle", "must be 'eagle3'"),
        ("SpecForge--DFlash-qwen3-8b", "eagle3", "must be 'dflash'"),
        ("yuhuili--EAGLE-llama2-chat-7B", "dflash", "target_layer_ids"),
    ],
)
def test_a_method_that_cannot_be_is_refused(stem, method, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        load_model(stem, role="head", method=method)


@pytest.mark.parametrize(
    ("stem", "method"),
    [
        ("SpecForge--EAGLE3-llama3-70B", "eagle3"),
        ("yuhuili--EAGLE-llama2-chat-13B", "eagle"),
        ("SpecForge--DFlash-qwen3-4b", "dflash"),
    ],
)
def test_a_head_of_another_width_is_refused(stem, method):
    with pytest.raises(InvalidInput, match=r"4096 \(meta-llama/Llama-3.1-8B-Instruct\)"):
        load_model(stem, role="head", method=method, target=load_model(TARGET_8B))


@pytest.mark.parametrize("stem", ["SpecForge--EAGLE3-llama3-8B", "SpecForge--DFlash-qwen3-8b"])
def test_a_head_cannot_be_loaded_as_a_target(stem):
    with pytest.raises(InvalidInput, match="draft head cannot be loaded as 'target'"):
        load_model(stem)


def test_a_speculators_head_cannot_be_loaded_as_a_target():
    with pytest.raises(InvalidInput, match="draft head"):
        load_model("RedHatAI/gemma-4-31B-it-speculator.eagle3")


@pytest.mark.parametrize(
    ("stem", "method", "changes", "feature"),
    [
        (
            "SpecForge--DSpark-qwen3-8b",
            "dspark",
            {"dflash_config": {"target_layer_ids": [1], "markov_rank": 8, "markov_head_type": "rnn"}},
            "'rnn'",
        ),
        (
            "SpecForge--DFlash-qwen3-8b",
            "dflash",
            {"dflash_config": {"target_layer_ids": [1], "attention_mode": "mla"}},
            "'mla'",
        ),
        (
            "SpecForge--DFlash-qwen3-8b",
            "dflash",
            {"dflash_config": {"target_layer_ids": [1], "attention_modes": ["kda"] * 5}},
            "attention_mode",
        ),
    ],
)
def test_variants_of_heads_that_are_not_computed_are_refused(stem, method, changes, feature):
    with pytest.raises(UnsupportedModel, match=feature):
        _head(stem, method, **changes)


def test_two_eagle3_layers_see_the_windows_their_file_names():
    types = ["sliding_attention", "full_attention"]
    head = _head("SpecForge--EAGLE3-llama3-8B", "eagle3", num_hidden_layers=2, layer_types=types, sliding_window=512)
    assert {layer.attention.window_tokens for layer in head.layers if layer.attention} == {512, None}
