"""Every shipped config is computed or refused for a stated reason, and none loads without a source."""

import tomllib

import pytest

from roofline.counts import active_parameters, flops_per_token, parameters, weight_bytes
from roofline.errors import InvalidInput, UnknownName, UnsupportedModel
from roofline.hf_catalogue import SIDE_SUFFIXES, catalogue_folder, catalogue_names, catalogue_source, source_row
from roofline.hf_config import load_model, model_from_config, mtp_head, read_config

DSA = "sparse attention with an indexer"
REFUSED = {
    "deepseek-ai--DeepSeek-V3.2": DSA,
    "deepseek-ai--DeepSeek-V4-Flash": "compressed key-value cache",
    "zai-org--GLM-5": DSA,
    "zai-org--GLM-5.1": DSA,
    "zai-org--GLM-5.2-FP8": DSA,
}
HEADS = {
    "RedHatAI--gemma-4-31B-it-speculator.eagle3": "eagle3",
    "SafeAILab--EAGLE-Mixtral-8x7B": "eagle",
    "SafeAILab--EAGLE-llama2-chat-70B": "eagle",
    "SafeAILab--EAGLE-vicuna-13B": "eagle",
    "SafeAILab--EAGLE3-LLaMA3.1-8B": "eagle3",
    "SpecForge--DFlash-qwen3-4b": "dflash",
    "SpecForge--DFlash-qwen3-8b": "dflash",
    "SpecForge--DFlash-qwen3.5-35b-a3b": "dflash",
    "SpecForge--DSpark-qwen3-8b": "dspark",
    "SpecForge--Domino-qwen3-8b": "domino",
    "SpecForge--EAGLE3-deepseek-v3-671b": "eagle3",
    "SpecForge--EAGLE3-gemma3-1b": "eagle3",
    "SpecForge--EAGLE3-gpt-oss-120B": "eagle3",
    "SpecForge--EAGLE3-gpt-oss-20B": "eagle3",
    "SpecForge--EAGLE3-llama3-70B": "eagle3",
    "SpecForge--EAGLE3-llama3-8B": "eagle3",
    "SpecForge--EAGLE3-llama4-scout-17B-16E": "eagle3",
    "SpecForge--EAGLE3-qwen2.5-7b": "eagle3",
    "SpecForge--EAGLE3-qwen3-235B-A22B": "eagle3",
    "SpecForge--EAGLE3-qwen3-30B-A3B": "eagle3",
    "SpecForge--EAGLE3-qwen3-32b": "eagle3",
    "SpecForge--EAGLE3-qwen3-8b": "eagle3",
    "SpecForge--EAGLE3.1-qwen3-30B-A3B": "eagle3",
    "SpecForge--PEAGLE-qwen3-8b": "p_eagle",
    "amazon--gpt-oss-120b-p-eagle": "p_eagle",
    "lightseek--EAGLE3-MLA-kimi-k25": "eagle3",
    "lightseek--EAGLE3-kimi-k25": "eagle3",
    "yuhuili--EAGLE-LLaMA3.1-Instruct-8B": "eagle",
    "yuhuili--EAGLE-llama2-chat-13B": "eagle",
    "yuhuili--EAGLE-llama2-chat-7B": "eagle",
}
TARGETS = {
    "01-ai--Yi-34B",
    "DeepSeek-R1-Distill-Qwen-7B-AWQ",
    "HuggingFaceTB--SmolLM2-1.7B-Instruct",
    "HuggingFaceTB--SmolLM2-135M-Instruct",
    "LDCC--Qwen2.5-72B-Instruct-ko-AWQ",
    "MiniMaxAI--MiniMax-M2.5",
    "Qwen--Qwen1.5-1.8B",
    "Qwen--Qwen2-0.5B-Instruct",
    "Qwen--Qwen2-1.5B-Instruct",
    "Qwen--Qwen2.5-3B-Instruct",
    "Qwen--Qwen2.5-7B-Instruct",
    "Qwen--Qwen3-0.6B",
    "Qwen--Qwen3-1.7B",
    "Qwen--Qwen3-14B",
    "Qwen--Qwen3-235B-A22B",
    "Qwen--Qwen3-30B-A3B",
    "Qwen--Qwen3-32B",
    "Qwen--Qwen3-32B-FP8",
    "Qwen--Qwen3-32B-FP8-Static-PerTensor",
    "Qwen--Qwen3-4B",
    "Qwen--Qwen3-8B",
    "Qwen--Qwen3-Coder-480B-A35B-Instruct",
    "Qwen--Qwen3-Next-80B-A3B",
    "Qwen--Qwen3.5-27B",
    "Qwen--Qwen3.5-35B-A3B",
    "Qwen--Qwen3.5-397B-A17B",
    "RedHatAI--Llama-4-Scout-17B-16E-Instruct-FP8-dynamic",
    "TinyLlama--TinyLlama-1.1B-Chat-v1.0",
    "XiaomiMiMo--MiMo-7B-Base",
    "bigcode--starcoder2-3b",
    "codellama--CodeLlama-34b-Instruct-hf",
    "deepseek-ai--DeepSeek-R1",
    "deepseek-ai--DeepSeek-V2-Lite",
    "deepseek-ai--DeepSeek-V3",
    "double7--vicuna-68m",
    "facebook--opt-125m",
    "facebook--opt-30b",
    "google--gemma-2-27b-it",
    "google--gemma-2-2b-it",
    "google--gemma-2-9b-it",
    "google--gemma-3-12b-it",
    "google--gemma-3-1b-it",
    "google--gemma-3-27b-text",
    "google--gemma-3-4b-it",
    "google--gemma-4-26B-A4B",
    "lmsys--vicuna-13b-v1.3",
    "lmsys--vicuna-33b-v1.3",
    "meta-llama--Llama-2-70b-chat-hf",
    "meta-llama--Llama-2-7b-hf",
    "meta-llama--Llama-3.1-70B-Instruct",
    "meta-llama--Llama-3.1-8B-Instruct",
    "meta-llama--Llama-3.2-1B-Instruct",
    "meta-llama--Llama-3.2-3B-Instruct",
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
    "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "meta-llama--Meta-Llama-3.1-405B",
    "meta-llama--Meta-Llama-3.1-70B",
    "meta-llama--Meta-Llama-3.1-8B",
    "microsoft--Phi-4-mini-instruct",
    "mistralai--Mistral-7B-Instruct-v0.3",
    "mistralai--Mistral-Nemo-Instruct-2407",
    "mistralai--Mixtral-8x22B-v0.1",
    "mistralai--Mixtral-8x7B-v0.1",
    "mobiuslabsgmbh--Qwen2.5-7B-Instruct_4bitgs64_hqq_hf",
    "moonshotai--Kimi-K2-Instruct",
    "nvidia--Llama-3.1-70B-Instruct-FP8",
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nvidia--Qwen3-235B-A22B-NVFP4",
    "openai--gpt-oss-120b",
    "openai--gpt-oss-20b",
    "thinkingmachines--Inkling-NVFP4",
    "zai-org--GLM-4.7",
}
# Models whose config.json names layers for multi-token prediction.
WITH_MTP = {
    "Qwen--Qwen3-Next-80B-A3B",
    "Qwen--Qwen3.5-27B",
    "Qwen--Qwen3.5-35B-A3B",
    "Qwen--Qwen3.5-397B-A17B",
    "XiaomiMiMo--MiMo-7B-Base",
    "deepseek-ai--DeepSeek-R1",
    "deepseek-ai--DeepSeek-V3",
    "thinkingmachines--Inkling-NVFP4",
    "zai-org--GLM-4.7",
}


def _counts_are_sane(model):
    assert 0 < active_parameters(model) <= parameters(model)
    assert weight_bytes(model) > 0
    assert all(value >= 0 for value in flops_per_token(model, 1000).values())
    assert all(layer.elementwise_elements > 0 for layer in model.layers)


def test_every_shipped_config_is_listed_here():
    assert set(catalogue_names()) == TARGETS | set(HEADS) | set(REFUSED)
    shipped = [path.stem for path in catalogue_folder().glob("*.json")]
    assert sum(stem.endswith(SIDE_SUFFIXES) for stem in shipped) == len(shipped) - len(catalogue_names()) == 4


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_targets_are_computed(name):
    model = load_model(name)
    assert model.role == "target"
    assert model.source is not None
    _counts_are_sane(model)


@pytest.mark.parametrize(("name", "method"), HEADS.items())
def test_heads_are_computed_as_what_they_are(name, method):
    head = load_model(name, role="head", method=method)
    assert head.role == "head"
    assert not head.mtp_layers
    _counts_are_sane(head)


@pytest.mark.parametrize(("name", "feature"), REFUSED.items())
def test_what_is_not_computed_is_refused_by_its_feature(name, feature):
    with pytest.raises(UnsupportedModel, match=feature):
        load_model(name)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_exactly_the_models_that_name_mtp_layers_have_them(name):
    model = load_model(name)
    assert bool(model.mtp_layers) == (name in WITH_MTP)
    if sum(layer.count for layer in model.mtp_layers) == 1:
        _counts_are_sane(mtp_head(model))


def test_every_config_has_a_source_row_with_a_licence_and_every_row_a_config():
    rows = tomllib.loads((catalogue_folder() / "SOURCES.toml").read_text(encoding="utf-8"))
    assert set(rows) == {path.stem for path in catalogue_folder().glob("*.json")}
    for stem, row in rows.items():
        assert source_row(rows, stem).url.startswith("https://")
        assert row["licence"]


def test_a_model_without_a_source_row_does_not_load():
    with pytest.raises(InvalidInput, match=r"no row in SOURCES\.toml"):
        source_row({}, "someone--model")
    with pytest.raises(InvalidInput, match=r"no row in SOURCES\.toml"):
        catalogue_source("someone--model")


def test_a_source_row_without_a_url_does_not_load():
    with pytest.raises(InvalidInput, match="`url`"):
        source_row({"m": {"title": "some page", "retrieved": "2026-11-29"}}, "m")


@pytest.mark.parametrize(
    "spelling",
    [
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama--Llama-3.1-70B-Instruct",
        "meta-llama--Llama-3.1-70B-Instruct.json",
        "META-LLAMA/llama-3.1-70b-instruct",
    ],
)
def test_a_name_may_be_spelt_as_on_the_hub_or_as_a_file(spelling):
    assert load_model(spelling).name == "meta-llama/Llama-3.1-70B-Instruct"


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(UnknownName, match=r"meta-llama/Llama-3\.1-70B-Instruct"):
        load_model("meta-llama/Llama-3.1-70B-Instrct")
    with pytest.raises(UnknownName, match="no name is near"):
        load_model("zzzzzzzz")


def test_a_side_file_next_to_the_config_is_read(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    config = (catalogue_folder() / "nvidia--Llama-3.1-70B-Instruct-FP8.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(config, encoding="utf-8")
    assert load_model(str(folder)).precision.ffn.name == "bf16"
    side = (catalogue_folder() / "nvidia--Llama-3.1-70B-Instruct-FP8.hf_quant_config.json").read_text(encoding="utf-8")
    (folder / "hf_quant_config.json").write_text(side, encoding="utf-8")
    model = load_model(str(folder / "config.json"))
    assert (model.name, model.precision.ffn.name, model.precision.kv_bits) == ("my-model", "fp8", 8)


def test_the_gptq_side_file_makes_a_4_bit_model_of_its_base():
    base = catalogue_folder() / "meta-llama--Llama-3.1-8B-Instruct.json"
    side = catalogue_folder() / "ModelCloud--Meta-Llama-3.1-8B-Instruct-gptq-4bit.quantize_config.json"
    model = model_from_config(read_config(base), name="gptq", quant_side_file=read_config(side))
    assert model.precision.ffn.bits_per_weight == 4 + (16 + 4) / 128
    assert model.precision.lm_head.name == "bf16"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"model_type": "llama", "hidden_size": 40', "not valid JSON at line 1"),
        ("[1, 2]", "must be a JSON object"),
        ("", "not valid JSON"),
    ],
)
def test_a_broken_file_is_told_in_one_sentence(tmp_path, content, complaint):
    path = tmp_path / "broken.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match=complaint) as caught:
        load_model(str(path))
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_config_says_so(tmp_path):
    with pytest.raises(InvalidInput, match=r"config\.json"):
        load_model(str(tmp_path))
