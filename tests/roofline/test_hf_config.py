"""Reading of config.json: shapes by hand, class defaults, refusals, and complaints about bad input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.counts import (
    active_parameters,
    flops_per_token,
    kv_bytes_for_context,
    kv_bytes_per_token,
    mtp_parameters,
    parameters,
    state_bytes,
    weight_bytes,
)
from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_catalogue import catalogue_folder
from roofline.hf_config import load_model, model_from_config, mtp_head, read_config

SMALL = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "vocab_size": 500,
    "max_position_embeddings": 1024,
}


def _model(**changes: object):
    return model_from_config({**SMALL, **changes}, name="small")


def _shipped(stem: str, **changes: object):
    config = {**read_config(catalogue_folder() / f"{stem}.json"), **changes}
    return model_from_config(config, name=stem)


def test_a_small_llama_counts_as_by_hand():
    model = _model()
    attention = 64 * (64 + 2 * 32) + 64 * 64
    layer = attention + 3 * 64 * 160 + 2 * 64
    assert parameters(model) == 2 * 500 * 64 + 3 * layer + 64
    assert weight_bytes(model) == 2 * parameters(model)
    assert kv_bytes_per_token(model) == 3 * 2 * 2 * 16 * 2
    flops = flops_per_token(model, 100)
    assert flops["attention"] == 3 * 4 * 4 * 16 * 100
    assert flops["attention_gemm"] == 2 * 3 * attention
    assert flops["lm_head"] == 2 * 500 * 64


def test_elementwise_traffic_of_llama_8b_is_as_documented():
    (layer,) = load_model("meta-llama/Llama-3.1-8B-Instruct").layers
    norms_and_residuals = 8 * 4096
    rotary = 2 * (4096 + 1024)
    cache_write = 2 * 2048
    activation = 3 * 14336
    assert layer.elementwise_elements == norms_and_residuals + rotary + cache_write + activation


def test_head_dim_is_explicit_before_it_is_a_quotient():
    assert kv_bytes_per_token(_model(head_dim=32)) == 2 * kv_bytes_per_token(_model())


def test_missing_kv_heads_are_as_many_as_heads():
    config = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    assert kv_bytes_per_token(model_from_config(config, name="m")) == 3 * 2 * 4 * 16 * 2


@pytest.mark.parametrize(
    ("model_type", "tied"),
    [("llama", False), ("mistral", False), ("qwen2", False), ("qwen3", False), ("gemma2", True), ("gemma3_text", True)],
)
def test_tying_where_the_file_is_silent_is_that_of_the_class(model_type, tied):
    model = _model(model_type=model_type)
    assert model.owns_lm_head is not tied
    assert model.lm_head.weights == 500 * 64


def test_tied_models_hold_one_table_and_multiply_it():
    tied, apart = _model(tie_word_embeddings=True), _model(tie_word_embeddings=False)
    assert parameters(apart) - parameters(tied) == 500 * 64
    assert flops_per_token(apart, 10) == flops_per_token(tied, 10)


def test_biases_stand_where_each_family_has_them():
    plain = parameters(_model())
    assert parameters(_model(model_type="qwen2")) - plain == 3 * (64 + 2 * 32)
    assert parameters(_model(attention_bias=True)) - plain == 3 * (64 + 2 * 32 + 64)
    assert parameters(_model(mlp_bias=True)) - plain == 3 * (2 * 160 + 64)
    assert parameters(_model(model_type="qwen3", head_dim=16)) - plain == 3 * 2 * 16


def test_a_window_counts_only_where_it_is_switched_on():
    silent = _model(model_type="qwen2", sliding_window=128, use_sliding_window=False, max_window_layers=1)
    windowed = _model(model_type="qwen2", sliding_window=128, use_sliding_window=True, max_window_layers=1)
    per_layer = kv_bytes_per_token(silent) / 3
    assert kv_bytes_for_context(silent, 1000) == 3 * per_layer * 1000
    assert kv_bytes_for_context(windowed, 1000) == per_layer * (1000 + 2 * 128)


def test_mistral_without_a_window_key_has_the_one_of_its_class():
    assert kv_bytes_for_context(_model(model_type="mistral", max_position_embeddings=32768), 10_000) == (
        kv_bytes_per_token(_model()) * 4096
    )
    assert kv_bytes_for_context(_model(model_type="mistral", sliding_window=None), 1000) == (
        kv_bytes_per_token(_model()) * 1000
    )


def test_a_window_no_shorter_than_the_longest_context_is_none():
    model = load_model("microsoft/Phi-4-mini-instruct")
    assert all(layer.attention and layer.attention.window_tokens is None for layer in model.layers)


def test_layer_types_come_before_the_rule_of_the_class():
    types = ["full_attention", "sliding_attention", "full_attention"]
    model = _model(model_type="gemma2", layer_types=types, sliding_window=100, head_dim=16)
    assert sorted((layer.count, layer.attention.window_tokens) for layer in model.layers if layer.attention) == [
        (1, 100),
        (2, None),
    ]


def test_llama_4_counts_chunks_as_windows_and_says_so():
    model = load_model("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
    windows = {layer.attention.window_tokens for layer in model.layers if layer.attention}
    assert windows == {None, 8192}
    assert sum(layer.count for layer in model.layers if layer.experts) == 24
    assert any("chunk" in note for note in model.notes)
    assert active_parameters(model) / 1e9 == pytest.approx(17.2, abs=0.1)


def test_latent_attention_caches_the_latent_once_for_all_heads():
    model = load_model("deepseek-ai/DeepSeek-V3")
    attention = model.layers[0].attention
    assert attention is not None
    assert (attention.kv_elements_per_token, attention.kv_shards) == (512 + 64, 1)
    assert attention.flops_per_pair == 2 * 128 * (512 + 64 + 512)
    assert attention.prefill_flops_per_pair == 2 * 128 * (128 + 64 + 128)


def test_gated_delta_layers_keep_a_fixed_state():
    model = load_model("Qwen/Qwen3.5-27B")
    channels = 2 * 16 * 128 + 48 * 128
    recurrent_bytes = 48 * 128 * 128 * 4
    assert state_bytes(model) == pytest.approx(48 * (recurrent_bytes + channels * 3 * 2))
    assert kv_bytes_for_context(model, 0) == pytest.approx(state_bytes(model))
    assert sum(layer.count for layer in model.layers if layer.attention) == 16


def test_nemotron_spells_its_layers():
    model = load_model("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    counts = [
        sum(layer.count for layer in model.layers if part(layer))
        for part in (lambda layer: layer.recurrence, lambda layer: layer.attention, lambda layer: layer.experts)
    ]
    assert counts == [23, 6, 23]
    recurrent_bytes = 64 * 64 * 128 * 4
    assert state_bytes(model) == pytest.approx(23 * (recurrent_bytes + (4096 + 2 * 8 * 128) * 3 * 2))


def test_gemma_4_stores_reused_keys_once_and_caches_them_twice():
    model = load_model("google/gemma-4-26B-A4B")
    whole = next(layer for layer in model.layers if layer.attention and layer.attention.window_tokens is None)
    assert whole.count == 5
    assert whole.attention is not None
    assert whole.attention.kv_elements_per_token == 2 * 2 * 512
    assert next(linear for linear in whole.linears if linear.name == "qkv").outputs == 16 * 512 + 2 * 512


def test_a_multimodal_config_is_counted_as_its_language_model():
    model = load_model("google/gemma-3-4b-it")
    assert (model.model_type, model.vocab_size) == ("gemma3_text", 262208)
    assert any("vision" in note for note in model.notes)


@pytest.mark.parametrize(
    ("stem", "changes", "feature"),
    [
        ("meta-llama--Llama-3.1-8B-Instruct", {"model_type": "rwkv7"}, "'rwkv7' is not computed"),
        ("meta-llama--Llama-3.1-8B-Instruct", {"num_local_experts": 8}, "routed experts"),
        ("deepseek-ai--DeepSeek-V3", {"index_topk": 2048}, "indexer"),
        ("google--gemma-2-9b-it", {"num_kv_shared_layers": 4}, "shared between layers"),
        ("google--gemma-2-9b-it", {"hidden_size_per_layer_input": 256}, "per-layer embeddings"),
        ("Qwen--Qwen3-8B", {"layer_types": ["linear_attention"] * 36}, "'linear_attention'"),
        ("Qwen--Qwen3-8B", {"linear_num_value_heads": 32}, "linear attention"),
        ("Qwen--Qwen3-30B-A3B", {"shared_expert_intermediate_size": 512}, "shared experts"),
        ("Qwen--Qwen3-Next-80B-A3B", {"mlp_only_layers": [0]}, "dense layers between expert layers"),
        ("nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", {"moe_latent_size": 1024}, "latent space"),
        ("google--gemma-3-4b-it", {"model_type": "llava"}, "multimodal"),
    ],
)
def test_a_feature_that_changes_the_count_is_refused_by_name(stem, changes, feature):
    with pytest.raises(UnsupportedModel, match=feature):
        _shipped(stem, **changes)


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"hidden_size": None}, "hidden_size", "missing"),
        ({"vocab_size": 0}, "vocab_size", "0"),
        ({"num_hidden_layers": -2}, "num_hidden_layers", "-2"),
        ({"intermediate_size": "160"}, "intermediate_size", "'160'"),
        ({"hidden_size": 64.0}, "hidden_size", "64.0"),
        ({"hidden_size": True}, "hidden_size", "True"),
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, "num_attention_heads", "5"),
        ({"num_key_value_heads": 3}, "num_key_value_heads", "3"),
        ({"attention_bias": "yes"}, "attention_bias", "'yes'"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings", "1"),
        ({"model_type": None}, "model_type", "missing"),
        ({"layer_types": ["full_attention"]}, "layer_types", "1"),
        ({"layer_types": "full"}, "layer_types", "'full'"),
        ({"model_type": "mixtral", "num_local_experts": 2, "num_experts_per_tok": 3}, "num_experts_per_tok", "3"),
        ({"model_type": "mixtral", "num_local_experts": 2}, "num_experts_per_tok", "missing"),
        ({"model_type": "deepseek_v3", "kv_lora_rank": 8}, "qk_nope_head_dim", "missing"),
        ({"draft_vocab_size": 100}, "draft head", "target"),
    ],
)
def test_bad_input_is_one_sentence_with_field_and_value(changes, field, value):
    with pytest.raises(InvalidInput) as caught:
        _model(**changes)
    message = str(caught.value)
    assert field in message
    assert value in message
    assert message.startswith("small: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    "key", ["hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size"]
)
def test_every_needed_key_is_missed_by_name(key):
    config = {name: value for name, value in SMALL.items() if name != key}
    with pytest.raises(InvalidInput, match=f"`{key}` is missing"):
        model_from_config(config, name="small")


def test_a_mixtral_without_experts_is_not_taken_for_a_dense_model():
    with pytest.raises(InvalidInput, match="num_local_experts"):
        _shipped("SafeAILab--EAGLE-Mixtral-8x7B")


sizes = st.fixed_dictionaries(
    {
        "layers": st.integers(1, 6),
        "kv_heads": st.integers(1, 4),
        "group": st.integers(1, 4),
        "head_dim": st.sampled_from([8, 16, 32]),
        "intermediate": st.integers(8, 300),
        "vocab": st.integers(10, 2000),
        "experts": st.integers(0, 8),
    }
)


def _sized(size: dict[str, int], **quantised: str):
    config: dict[str, object] = {
        "model_type": "qwen3_moe" if size["experts"] else "qwen3",
        "hidden_size": 64,
        "num_attention_heads": size["kv_heads"] * size["group"],
        "num_key_value_heads": size["kv_heads"],
        "head_dim": size["head_dim"],
        "intermediate_size": size["intermediate"],
        "num_hidden_layers": size["layers"],
        "vocab_size": size["vocab"],
    }
    if size["experts"]:
        config |= {
            "num_experts": size["experts"],
            "num_experts_per_tok": 1,
            "moe_intermediate_size": size["intermediate"],
        }
    return model_from_config(config, name="drawn", **quantised)


def _measures(model):
    flops = flops_per_token(model, 50)
    return [
        parameters(model),
        active_parameters(model),
        weight_bytes(model),
        kv_bytes_per_token(model),
        kv_bytes_for_context(model, 50.0),
        sum(flops.values()),
    ]


@given(sizes, st.sampled_from(["layers", "kv_heads", "group", "intermediate", "vocab", "experts"]))
def test_counts_never_fall_when_a_size_grows(size, grown):
    if grown == "experts" and size["experts"] == 0:
        return
    small, large = _measures(_sized(size)), _measures(_sized({**size, grown: size[grown] + 1}))
    assert all(after >= before for before, after in zip(small, large, strict=True))


@given(sizes)
def test_counts_are_linear_in_layers(size):
    one, two, three = (_measures(_sized({**size, "layers": layers})) for layers in (1, 2, 3))
    assert all(2 * b == pytest.approx(a + c) for a, b, c in zip(one, two, three, strict=True))


@given(sizes)
def test_matrix_flops_are_twice_the_active_matrix_entries(size):
    model = _sized(size)
    flops = flops_per_token(model, 0)
    small = sum(layer.count * layer.other_parameters for layer in model.layers) + model.other_parameters
    embedding = model.embedding_rows * model.hidden_size
    assert sum(flops.values()) == 2 * (active_parameters(model) - embedding - small)


@given(sizes, st.sampled_from(["fp8", "int4", "int8", "nvfp4"]))
def test_quantising_shrinks_bytes_and_leaves_counts(size, quantization):
    plain, small = _sized(size), _sized(size, quantization=quantization)
    assert parameters(plain) == parameters(small)
    assert weight_bytes(small) < weight_bytes(plain)
    assert kv_bytes_per_token(plain) == kv_bytes_per_token(small)


def test_an_ungated_feed_forward_part_has_two_matrices():
    assert parameters(_model(model_type="opt", intermediate_size=96)) - parameters(
        _model(model_type="opt", intermediate_size=95)
    ) == (3 * (2 * 64 + 1))


def test_projected_embeddings_are_refused():
    with pytest.raises(UnsupportedModel, match="word_embed_proj_dim"):
        _model(model_type="opt", word_embed_proj_dim=32)


def test_the_mtp_layer_of_a_model_with_dense_layers_first_has_experts():
    assert mtp_head(load_model("zai-org/GLM-4.7")).layers[0].experts is not None


def test_inkling_has_the_published_size_and_routed_experts_alone_in_4_bits():
    model = load_model("thinkingmachines/Inkling-NVFP4")
    assert (parameters(model) + mtp_parameters(model)) / 1e9 == pytest.approx(952, abs=1)
    assert (model.precision.experts.name, model.precision.ffn.name, model.precision.attention.name) == (
        "nvfp4",
        "bf16",
        "bf16",
    )


def test_inkling_sees_a_window_in_five_layers_of_six_and_chains_dense_mtp_layers():
    model = load_model("thinkingmachines/Inkling-NVFP4")
    assert sum(layer.count for layer in model.layers if layer.attention.window_tokens == 512) == 55
    assert sum(layer.count for layer in model.mtp_layers) == 8
    assert all(layer.experts is None for layer in model.mtp_layers)
    with pytest.raises(UnsupportedModel, match="8 different MTP layers"):
        mtp_head(model)
