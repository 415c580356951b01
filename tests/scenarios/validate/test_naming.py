"""Names of published tables and what they mean in the catalogue."""

import pytest

from roofline.errors import InvalidInput
from scenarios.validate.naming import engine_of, head_of, machine_of, method_of, model_of


@pytest.mark.parametrize(
    ("text", "gpu", "count"),
    [
        ("H100", "H100-SXM", None),
        ("NVIDIA H100 80GB HBM3", "H100-SXM", None),
        ("H100 PCIe", "H100-PCIe", None),
        ("4x A100-40G", "A100-SXM-40GB", 4),
        ("8xH200", "H200-SXM", 8),
        ("RTX 3090 24GB (OC, 430 W)", "RTX-3090", None),
        ("2x RTX 5060 Ti 16GB (-sm tensor)", "RTX-5060-Ti", 2),
        ("Mac Studio M3 Ultra 96GB (Metal)", "M3-Ultra", None),
        ("Tesla V100 32GB (Volta)", "V100-SXM2-32GB", None),
        ("NVIDIA L40S", "L40S", None),
        ("MI300X", "MI300X", None),
        ("RTX PRO 6000 Blackwell Max-Q 96GB (300W)", "RTX-PRO-6000-Server", None),
    ],
)
def test_gpus_are_found_however_they_are_spelled(text, gpu, count):
    machine = machine_of(text)
    assert (machine.gpu, machine.count) == (gpu, count)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not given"),
        ("Cerebras WSE-3", "no row of the catalogue"),
        ("RTX 3060 Ti 8GB + RTX 3080 Ti 12GB", "several kinds"),
        ("RTX 5090 mobile 24GB", "not named, or not one GPU"),
    ],
)
def test_hardware_nobody_knows_is_refused_by_its_name(text, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        machine_of(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SGLang v0.4.4", "sglang-v1"),
        ("SGLang (FlashInfer, Spec-v1)", "sglang-v1"),
        ("SGLang v0.5.9", "sglang"),
        ("vLLM V0", "vllm-v0"),
        ("vLLM v0.8.4 + ArcticInference", "vllm-0.8"),
        ("vLLM main@73b8394 (EP, kv fp8)", "vllm"),
        ("TensorRT-LLM (PyTorch backend)", "trtllm"),
        ("llama.cpp fork (TurboQuant KV)", "llama.cpp"),
        ("HF (paper impl.)", "paper"),
    ],
)
def test_engines_are_told_apart_by_release(text, name):
    assert engine_of(text).name == name


def test_a_release_is_known_by_the_day_where_a_row_says_one():
    assert engine_of("vLLM V1", dated="2025-04-24").name == "vllm-0.8"
    assert engine_of("vLLM V1", dated="2025-09-14").name == "vllm"
    assert engine_of("vLLM V1").name == "vllm"
    assert engine_of("vLLM v0.10.1.1", dated="2025-04-24").name == "vllm"


@pytest.mark.parametrize(
    ("text", "name"),
    [("EAGLE-3", "eagle3"), ("eagle2", "eagle"), ("MTP", "mtp"), ("ngram (simple)", "ngram"), ("P-EAGLE", "p_eagle")],
)
def test_methods_keep_their_family(text, name):
    assert method_of(text).name == name


def test_a_method_that_may_be_either_of_two_says_so():
    assert method_of("eagle/eagle3 (not specified which)").other == "eagle"


def test_models_are_found_by_size_and_generation():
    assert model_of("Llama-3.3-70B-Instruct").name == "meta-llama/Llama-3.1-70B-Instruct"
    assert model_of("Qwen3-8B (non-thinking)").name == "Qwen/Qwen3-8B"
    assert "Qwen3.5-27B" in model_of("Qwen3.8-27B").note
    with pytest.raises(InvalidInput, match="not known to the catalogue"):
        model_of("Falcon-180B")


def test_published_heads_are_preferred_to_typical_ones():
    assert head_of("eagle3", "meta-llama/Llama-3.1-8B-Instruct") == "SafeAILab/EAGLE3-LLaMA3.1-8B"
    assert head_of("eagle3", "mistralai/Mistral-7B-Instruct-v0.3") is None
