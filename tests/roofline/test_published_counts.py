"""Totals against what the models' authors publish: the number of weights a model's page on huggingface.co shows."""

import pytest

from roofline.counts import (
    active_parameters,
    kv_bytes_for_context,
    kv_bytes_per_token,
    mtp_parameters,
    parameters,
    weight_bytes,
)
from roofline.hf_config import load_model
from roofline.units import BYTES_PER_GIB

# Number of weights on https://huggingface.co/NAME, to the last one.
PUBLISHED = {
    "01-ai/Yi-34B": 34_388_917_248,
    "LDCC/Qwen2.5-72B-Instruct-ko-AWQ": 72_706_203_648,  # of Qwen/Qwen2.5-72B-Instruct
    "Qwen/Qwen2-0.5B-Instruct": 494_032_768,
    "Qwen/Qwen2-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B-Instruct": 3_085_938_688,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480_154_875_392,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "codellama/CodeLlama-34b-Instruct-hf": 33_743_970_304,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "google/gemma-2-27b-it": 27_227_128_320,
    "google/gemma-2-2b-it": 2_614_341_888,
    "google/gemma-2-9b-it": 9_241_705_984,
    "google/gemma-3-1b-it": 999_885_952,
    "meta-llama/Llama-2-70b-chat-hf": 68_976_648_192,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-3.1-70B-Instruct": 70_553_706_496,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248,
    "meta-llama/Llama-3.2-1B-Instruct": 1_235_814_400,
    "meta-llama/Llama-3.2-3B-Instruct": 3_212_749_824,
    "meta-llama/Meta-Llama-3.1-405B": 405_853_388_800,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
}
# (billions, where it is printed). The language model alone, without MTP layers.
ROUNDED = {
    "deepseek-ai/DeepSeek-V3": (671.026, "https://arxiv.org/abs/2412.19437"),
    "deepseek-ai/DeepSeek-R1": (671.026, "https://arxiv.org/abs/2501.12948"),
    "moonshotai/Kimi-K2-Instruct": (1026.4, "https://huggingface.co/moonshotai/Kimi-K2-Instruct"),
    "openai/gpt-oss-120b": (116.829, "https://arxiv.org/abs/2508.10925"),
    "openai/gpt-oss-20b": (20.915, "https://arxiv.org/abs/2508.10925"),
    "google/gemma-3-4b-it": (3.880, "https://arxiv.org/abs/2503.19786"),
    "google/gemma-3-12b-it": (11.766, "https://arxiv.org/abs/2503.19786"),
    "google/gemma-3-27b-text": (27.009, "https://arxiv.org/abs/2503.19786"),
    "mistralai/Mixtral-8x22B-v0.1": (140.621, "https://huggingface.co/mistralai/Mixtral-8x22B-v0.1"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (
        31.58,
        "https://huggingface.co/nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    ),
    "MiniMaxAI/MiniMax-M2.5": (228.69, "https://huggingface.co/MiniMaxAI/MiniMax-M2.5"),
    "google/gemma-4-26B-A4B": (25.23, "https://huggingface.co/google/gemma-4-26B-A4B"),
}
# Input embedding counted in full, the one convention of `active_parameters`.
ACTIVE = {
    "deepseek-ai/DeepSeek-V3": 37.55,
    "Qwen/Qwen3-30B-A3B": 3.353,
    "mistralai/Mixtral-8x7B-v0.1": 12.88,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 3.58,
}
# EAGLE heads without tables of the target, in billions: table of https://github.com/SafeAILab/EAGLE, two decimals.
EAGLE_HEADS = {
    "yuhuili/EAGLE-llama2-chat-7B": 0.24,
    "yuhuili/EAGLE-llama2-chat-13B": 0.37,
    "SafeAILab/EAGLE-vicuna-13B": 0.37,
    "SafeAILab/EAGLE-llama2-chat-70B": 0.99,
    "SafeAILab/EAGLE-Mixtral-8x7B": 0.28,
}


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_dense_and_routed_models_count_to_the_last_published_weight(name, published):
    assert parameters(load_model(name)) == published


@pytest.mark.parametrize(("name", "billions"), [(name, total) for name, (total, _) in ROUNDED.items()])
def test_totals_are_within_a_thousandth_of_the_published_ones(name, billions):
    assert parameters(load_model(name)) / 1e9 == pytest.approx(billions, rel=1e-3)


@pytest.mark.parametrize(("name", "billions"), ACTIVE.items())
def test_active_parameters_count_the_input_embedding_in_full(name, billions):
    assert active_parameters(load_model(name)) / 1e9 == pytest.approx(billions, rel=1e-3)


def test_gpt_oss_publishes_its_active_parameters_without_the_embedding():
    for name, billions in (("openai/gpt-oss-120b", 5.13), ("openai/gpt-oss-20b", 3.61)):
        model = load_model(name)
        without = active_parameters(model) - model.embedding_rows * model.hidden_size
        assert without / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize(("name", "billions"), EAGLE_HEADS.items())
def test_eagle_heads_hold_what_their_authors_print(name, billions):
    head = load_model(name, role="head", method="eagle")
    assert parameters(head) / 1e9 == pytest.approx(billions, abs=0.005)


def test_the_mtp_layers_of_deepseek_v3_bring_its_checkpoint_to_685_billion():
    # The checkpoint stores embedding and LM head once more beside the MTP layer (README_WEIGHTS.md of the model).
    model = load_model("deepseek-ai/DeepSeek-V3")
    tables = 2 * model.vocab_size * model.hidden_size
    stored = parameters(model) + mtp_parameters(model) + tables
    assert stored / 1e9 == pytest.approx(685, rel=1e-3)


def test_mimo_publishes_its_total_with_the_mtp_layer():
    model = load_model("XiaomiMiMo/MiMo-7B-Base")
    assert parameters(model) + mtp_parameters(model) == 7_833_409_536


def test_qwen3_next_publishes_its_total_with_the_mtp_layer():
    model = load_model("Qwen/Qwen3-Next-80B-A3B")
    assert parameters(model) + mtp_parameters(model) == 81_324_862_720


@pytest.mark.parametrize(("name", "gibibytes"), [("openai/gpt-oss-120b", 60.8), ("openai/gpt-oss-20b", 12.8)])
def test_checkpoints_of_gpt_oss_weigh_what_their_card_says(name, gibibytes):
    # https://arxiv.org/abs/2508.10925, table 1
    assert weight_bytes(load_model(name)) / BYTES_PER_GIB == pytest.approx(gibibytes, abs=0.05)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", 131_072),
        ("meta-llama/Llama-3.1-70B-Instruct", 327_680),
        ("Qwen/Qwen3-32B", 262_144),
        ("deepseek-ai/DeepSeek-V3", 70_272),
        ("moonshotai/Kimi-K2-Instruct", 70_272),
        ("openai/gpt-oss-120b", 73_728),
        ("google/gemma-3-27b-text", 507_904),
        ("Qwen/Qwen3-Next-80B-A3B", 24_576),
    ],
)
def test_cached_bytes_per_token_are_exact(name, bytes_per_token):
    assert kv_bytes_per_token(load_model(name)) == bytes_per_token


def test_the_eagle3_head_of_llama_8b_caches_4096_bytes_per_token():
    head = load_model("SafeAILab/EAGLE3-LLaMA3.1-8B", role="head", method="eagle3")
    assert kv_bytes_per_token(head) == 4096


def test_gemma_3_27b_grows_in_ten_layers_of_62_once_windows_are_full():
    model = load_model("google/gemma-3-27b-text")
    growth = kv_bytes_for_context(model, 20_000) - kv_bytes_for_context(model, 10_000)
    assert growth == 10_000 * 507_904 * 10 / 62
    assert kv_bytes_for_context(model, 1024) == 1024 * 507_904


def test_half_the_layers_of_gpt_oss_stop_growing_at_128_tokens():
    model = load_model("openai/gpt-oss-120b")
    assert kv_bytes_for_context(model, 4096) == 73_728 / 2 * (4096 + 128)
