"""Formats of weights and caches: bits with scales, what is left out, overrides, and refusals."""

import pytest

from roofline.counts import kv_bytes_per_token, weight_bytes
from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_catalogue import catalogue_folder
from roofline.hf_config import load_model, model_from_config, read_config

LLAMA = read_config(catalogue_folder() / "meta-llama--Llama-3.1-8B-Instruct.json")


def _precision(section: dict[str, object], **options: str):
    return model_from_config({**LLAMA, "quantization_config": section}, name="q", **options).precision


@pytest.mark.parametrize(
    ("section", "name", "bits", "dequantised"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", 4 + 20 / 128, True),
        ({"w_bit": 4, "q_group_size": 64, "zero_point": True}, "int4", 4 + 20 / 64, True),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": False}, "int8_weights", 8, True),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", 8 + 32 / 128**2, False),
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8", 8, False),
        ({"quant_method": "mxfp4"}, "mxfp4", 4.25, True),
        ({"quant_algo": "NVFP4", "group_size": 16}, "nvfp4", 4.5, False),
        ({"quantization": {"quant_algo": "W4A16_AWQ", "group_size": 128}}, "int4", 4.125, True),
        ({"bits": 4, "group_size": 64}, "int4", 4.5, True),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 8, False),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True},
            "int4",
            4 + 8 / 64 + 32 / (64 * 256),
            True,
        ),
        (
            {
                "quant_method": "hqq",
                "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}},
                "skip_modules": ["lm_head"],
            },
            "int4",
            4.5,
            True,
        ),
    ],
)
def test_bits_per_weight_include_scales(section, name, bits, dequantised):
    fmt = _precision(section).ffn
    assert (fmt.name, fmt.dequantised) == (name, dequantised)
    assert fmt.bits_per_weight == pytest.approx(bits)


@pytest.mark.parametrize(
    ("weights", "inputs", "name", "bits", "math"),
    [
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, {"num_bits": 8}, "fp8", 8, "fp8"),
        ({"num_bits": 8, "type": "float", "strategy": "channel"}, None, "fp8", 8, "bf16"),
        ({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8}, "int8", 8, "int8"),
        ({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}, None, "int4", 4.125, "bf16"),
        ({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": False}, None, "int4", 4.15625, "bf16"),
        ({"num_bits": 4, "type": "float", "group_size": 16}, {"num_bits": 4}, "nvfp4", 4.5, "fp4"),
    ],
)
def test_compressed_tensors_are_read_from_their_group(weights, inputs, name, bits, math):
    group = {"weights": weights, "input_activations": inputs, "targets": ["Linear"]}
    section = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}
    precision = _precision(section)
    assert (precision.ffn.name, precision.ffn.bits_per_weight, precision.ffn.math) == (name, bits, math)
    assert precision.lm_head.name == "bf16"


def test_a_4_bit_model_keeps_embedding_and_lm_head_in_16_bits():
    model = model_from_config(LLAMA, name="q", quantization="awq")
    tables = 2 * 128256 * 4096
    matrices = 32 * sum(linear.weights for linear in model.layers[0].linears)
    norms = 65 * 4096
    assert weight_bytes(model) == 2 * (tables + norms) + matrices * 4.15625 / 8


@pytest.mark.parametrize(
    ("patterns", "attention", "ffn"),
    [
        (["model.layers.*.self_attn"], "bf16", "fp8"),
        (["re:.*self_attn.*"], "bf16", "fp8"),
        (["self_attn", "lm_head"], "bf16", "fp8"),
        (["*mlp*"], "fp8", "bf16"),
        ([f"model.layers.{i}.mlp" for i in range(32)], "fp8", "bf16"),
        (["gate"], "fp8", "fp8"),
        (["model.embed_tokens", "vision_tower"], "fp8", "fp8"),
    ],
)
def test_what_a_scheme_leaves_out_stays_in_16_bits(patterns, attention, ffn):
    precision = _precision({"quant_method": "fp8", "modules_to_not_convert": patterns})
    assert (precision.attention.name, precision.ffn.name) == (attention, ffn)


@pytest.mark.parametrize("patterns", [["model.layers.0.self_attn"], ["o_proj"], ["model.layers.31.mlp.down_proj"]])
def test_a_part_left_out_in_part_is_refused(patterns):
    with pytest.raises(UnsupportedModel, match=r"some (attention|ffn) matrices and not others"):
        _precision({"quant_method": "fp8", "modules_to_not_convert": patterns})


def test_routers_stay_in_16_bits():
    model = load_model("nvidia/Qwen3-235B-A22B-NVFP4")
    router = next(linear for linear in model.layers[0].linears if linear.name == "router")
    assert not router.quantised
    plain = load_model("Qwen/Qwen3-235B-A22B")
    saved = weight_bytes(plain) - weight_bytes(model)
    matrices = sum(
        layer.count
        * (
            sum(linear.weights for linear in layer.linears if linear.quantised)
            + (layer.experts.count * layer.experts.weights_each if layer.experts else 0)
        )
        for layer in model.layers
    )
    assert saved == pytest.approx(matrices * (16 - 4.5) / 8)


def test_the_fp8_scout_keeps_its_attention_in_16_bits():
    precision = load_model("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic").precision
    assert (precision.attention.name, precision.ffn.name, precision.experts.name) == ("bf16", "fp8", "fp8")


def test_gpt_oss_quantises_its_experts_alone():
    precision = load_model("openai/gpt-oss-120b").precision
    assert (precision.attention.name, precision.experts.name, precision.lm_head.name) == ("bf16", "mxfp4", "bf16")
    assert precision.experts.dequantised


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("nvidia/Llama-3.1-70B-Instruct-FP8", 8),
        ("Qwen/Qwen3-32B-FP8-Static-PerTensor", 8),
        ("nvidia/Qwen3-235B-A22B-NVFP4", 8),
        ("Qwen/Qwen3-32B-FP8", 16),
    ],
)
def test_the_cache_follows_the_checkpoint(name, bits):
    assert load_model(name).precision.kv_bits == bits
    assert load_model(name, kv_cache_dtype="bf16").precision.kv_bits == 16


def test_the_cache_may_be_asked_for():
    for asked, share in (("fp8", 0.5), ("fp8_e5m2", 0.5), ("nvfp4", 4.5 / 16), ("auto", 1.0)):
        model = model_from_config(LLAMA, name="q", kv_cache_dtype=asked)
        assert kv_bytes_per_token(model) == 131_072 * share
    per_head = model_from_config(LLAMA, name="q", kv_cache_dtype="int8_per_token_head")
    assert kv_bytes_per_token(per_head) == 32 * 2 * 8 * (128 + 4)


def test_an_override_of_the_same_format_keeps_the_checkpoints_details():
    own = load_model("Qwen/Qwen3-32B-FP8")
    assert load_model("Qwen/Qwen3-32B-FP8", quantization="fp8").precision == own.precision
    assert load_model("Qwen/Qwen3-32B-FP8", quantization="bf16").precision == load_model("Qwen/Qwen3-32B").precision


def test_fp32_widens_everything():
    precision = model_from_config(LLAMA, name="q", quantization="fp32").precision
    assert (precision.attention.name, precision.kv_bits, precision.activation_bytes) == ("fp32", 32, 4)


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "exl2"},
        {"quant_algo": "MIXED_PRECISION"},
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*mlp.*": {}}},
        {"quant_method": "compressed-tensors", "config_groups": {}},
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["re:.*mlp.*"]}},
        },
        {
            "quant_method": "compressed-tensors",
            "config_groups": {
                "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": {"num_bits": 8}}
            },
        },
        {"quant_algo": "FP8", "kv_cache_quant_algo": "MX9"},
    ],
)
def test_formats_that_are_not_computed_are_refused(section):
    with pytest.raises(UnsupportedModel, match="q: "):
        _precision(section)


def test_partly_quantised_state_space_models_are_refused():
    config = read_config(catalogue_folder() / "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.json")
    side = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head", "backbone.layers.4.mixer"]}}
    with pytest.raises(UnsupportedModel, match="state-space"):
        model_from_config(config, name="n", quant_side_file=side)
    whole = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    assert model_from_config(config, name="n", quant_side_file=whole).precision.experts.name == "fp8"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"quantization": "int3_ext"}, "quantization must be one of .*, got 'int3_ext'"),
        ({"quantization": "modelopt"}, "needs a checkpoint"),
        ({"kv_cache_dtype": "fp6"}, "kv_cache_dtype must be one of .*, got 'fp6'"),
    ],
)
def test_unknown_formats_are_told_with_what_is_allowed(options, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        model_from_config(LLAMA, name="q", **options)


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ({"quant_method": "awq", "group_size": 128}, "`bits` is missing"),
        ({"quant_method": "hqq"}, "`nbits` is missing"),
        ({"quant_method": "fp8", "weight_block_size": [128, -1]}, "weight_block_size"),
    ],
)
def test_a_scheme_without_what_it_needs_is_told_by_field(section, field):
    with pytest.raises(InvalidInput, match=field):
        _precision(section)


@pytest.mark.parametrize(("name", "bits"), [("Q4_K_M", 4.8944), ("UD-Q4_K_XL", 4.8944), ("IQ2_XXS", 2.3824)])
def test_gguf_types_have_the_bits_of_their_files_output_matrix_included(name, bits):
    model = load_model("Qwen/Qwen3-8B", quantization=name)
    assert model.precision.ffn.bits_per_weight == model.precision.lm_head.bits_per_weight == bits
