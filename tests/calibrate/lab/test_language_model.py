"""The lab's forward pass against a slow one written from the definitions, and checkpoints that are refused."""

import json
import math
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from safetensors.torch import load_file, save_file  # noqa: E402 # needs torch

from calibrate.lab.language_model import LanguageModel  # noqa: E402
from calibrate.lab.loading import load_folder  # noqa: E402
from roofline.errors import InvalidInput  # noqa: E402
from tests.calibrate.lab.folders import GEMMA, LLAMA, QWEN2, QWEN3, tensors_of, write_folder  # noqa: E402

TOKENS = [7, 3, 200, 31, 5, 90, 14, 255, 0, 12, 66]


def slow_logits(config: dict, weights: dict[str, "torch.Tensor"], tokens: list[int]) -> "torch.Tensor":
    """Logits `(tokens, vocab)` in fp64, one position and one head at a time, no cache."""
    gemma = config["model_type"] == "gemma3_text"
    w = {name.removeprefix("model."): tensor.double() for name, tensor in weights.items()}
    width, heads, kv_heads = config["head_dim"], config["num_attention_heads"], config["num_key_value_heads"]

    def norm(x, name):
        scale = w[name] + 1.0 if gemma else w[name]
        return x / torch.sqrt((x * x).mean() + config["rms_norm_eps"]) * scale

    def turned(x, place, base):
        out = x.clone()
        for index in range(width // 2):
            angle = place * base ** (-2.0 * index / width)
            first, second = float(x[index]), float(x[index + width // 2])
            out[index] = first * math.cos(angle) - second * math.sin(angle)
            out[index + width // 2] = second * math.cos(angle) + first * math.sin(angle)
        return out

    def projected(x, name, place, base, layer):
        y = w[f"{layer}self_attn.{name}_proj.weight"] @ x
        if config["model_type"] == "qwen2":
            y = y + w[f"{layer}self_attn.{name}_proj.bias"]
        parts = list(y.split(width))
        if name == "v":
            return parts
        if gemma or config["model_type"] == "qwen3":
            parts = [norm(part, f"{layer}self_attn.{name}_norm.weight") for part in parts]
        return [turned(part, place, base) for part in parts]

    def gate(x):
        if gemma:
            return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
        return x / (1.0 + torch.exp(-x))

    scale = math.sqrt(config["hidden_size"]) if gemma else 1.0
    states = [w["embed_tokens.weight"][token] * scale for token in tokens]
    for index in range(config["num_hidden_layers"]):
        layer = f"layers.{index}."
        local = gemma and (index + 1) % config["sliding_window_pattern"] != 0
        base = 10_000.0 if local or not gemma else config["rope_theta"]
        normed = [norm(x, f"{layer}input_layernorm.weight") for x in states]
        q, k, v = ([projected(x, name, at, base, layer) for at, x in enumerate(normed)] for name in "qkv")
        for at in range(len(tokens)):
            first = max(0, at - config["sliding_window"] + 1) if local else 0
            out = []
            for head in range(heads):
                group = head * kv_heads // heads
                scores = torch.stack([q[at][head] @ k[j][group] / math.sqrt(width) for j in range(first, at + 1)])
                law = torch.softmax(scores, dim=0)
                out.append(sum(law[j - first] * v[j][group] for j in range(first, at + 1)))
            attended = w[f"{layer}self_attn.o_proj.weight"] @ torch.cat(out)
            if gemma:
                attended = norm(attended, f"{layer}post_attention_layernorm.weight")
            states[at] = states[at] + attended
            before = "pre_feedforward" if gemma else "post_attention"
            x = norm(states[at], f"{layer}{before}_layernorm.weight")
            x = gate(w[f"{layer}mlp.gate_proj.weight"] @ x) * (w[f"{layer}mlp.up_proj.weight"] @ x)
            x = w[f"{layer}mlp.down_proj.weight"] @ x
            states[at] = states[at] + (norm(x, f"{layer}post_feedforward_layernorm.weight") if gemma else x)
    head = w["embed_tokens.weight"] if config["tie_word_embeddings"] else w["lm_head.weight"]
    return torch.stack([head @ norm(x, "norm.weight") for x in states])


def logits_in_two_passes(model: LanguageModel, tokens: list[int]) -> "torch.Tensor":
    ids, places = torch.tensor([tokens]), torch.arange(len(tokens))[None]
    cache = model.empty_cache(batch=1, capacity_tokens=len(tokens))
    cut = len(tokens) // 2
    with torch.inference_mode():
        first = model.forward(ids[:, :cut], places[:, :cut], cache=cache, span=cut)
        second = model.forward(ids[:, cut:], places[:, cut:], cache=cache, span=len(tokens))
        return model.logits(torch.cat((first, second), dim=1))[0]


@pytest.mark.parametrize("config", [LLAMA, GEMMA, QWEN2, QWEN3], ids=lambda config: config["model_type"])
def test_logits_agree_with_the_definitions_on_the_same_weights(tmp_path: Path, config: dict):
    loaded = load_folder(write_folder(tmp_path, config), dtype="fp32")
    wanted = slow_logits(config, tensors_of(config), TOKENS)
    found = logits_in_two_passes(loaded.model, TOKENS)
    assert float((found - wanted).abs().max() / wanted.abs().max()) < 1e-4


def test_a_draft_that_skips_layers_runs_the_others_alone(tmp_path: Path):
    model = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32").model
    config = LLAMA | {"num_hidden_layers": 2}
    kept = {
        name.replace("layers.2.", "layers.1."): t for name, t in tensors_of(LLAMA).items() if "layers.1." not in name
    }
    found = logits_in_two_passes(model.with_layers([0, 2]), TOKENS)
    wanted = slow_logits(config, kept, TOKENS)
    assert float((found - wanted).abs().max() / wanted.abs().max()) < 1e-4


def test_text_survives_the_tokenizer(tmp_path: Path):
    loaded = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32")
    assert loaded.tokenizer.decode(loaded.encode("naïve = [1, 2]\n")) == "naïve = [1, 2]\n"


def spoilt(folder: Path, change) -> Path:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.pop("model.layers.1.mlp.up_proj.weight"), "tensor layers.1.up is missing"),
        (
            lambda t: t.update({"model.norm.weight": torch.ones(47)}),
            r"tensor final_norm has shape \(47,\) where the config asks for \(48,\)",
        ),
    ],
)
def test_checkpoints_that_are_not_whole_are_refused(tmp_path: Path, change, sentence: str):
    folder = spoilt(write_folder(tmp_path, LLAMA), change)
    with pytest.raises(InvalidInput, match=sentence):
        load_folder(folder, dtype="fp32")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": "mamba"}, "model_type 'mamba' cannot be run"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "stretched rotary embedding"),
        ({"hidden_size": "48"}, "hidden_size is '48'"),
    ],
)
def test_configs_that_cannot_be_run_are_refused(tmp_path: Path, change: dict, sentence: str):
    folder = write_folder(tmp_path, LLAMA)
    (folder / "config.json").write_text(json.dumps(LLAMA | change))
    with pytest.raises(InvalidInput, match=sentence):
        load_folder(folder, dtype="fp32")


def test_cut_weights_and_tokenizers_are_refused(tmp_path: Path):
    folder = write_folder(tmp_path / "weights", LLAMA)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInput, match=r"model\.safetensors cannot be read"):
        load_folder(folder, dtype="fp32")
    folder = write_folder(tmp_path / "tokenizer", LLAMA)
    (folder / "tokenizer.json").write_text('{"model": ')
    with pytest.raises(InvalidInput, match="cannot be read as a tokenizer"):
        load_folder(folder, dtype="fp32")
