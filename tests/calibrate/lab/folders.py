"""Small real checkpoints as Hugging Face folders, random weights and a byte tokenizer."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

LLAMA = {
    "model_type": "llama",
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 64,
    "vocab_size": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
}
GEMMA = LLAMA | {
    "model_type": "gemma3_text",
    "sliding_window": 6,
    "sliding_window_pattern": 3,
    "tie_word_embeddings": True,
}
QWEN2 = LLAMA | {"model_type": "qwen2"}
QWEN3 = LLAMA | {"model_type": "qwen3"}


def tensors_of(config: dict, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors by Hugging Face's names; matrices large enough to make the laws sharp."""
    draw = torch.Generator().manual_seed(seed)
    hidden, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    gemma = config["model_type"] == "gemma3_text"

    def matrix(outputs: int, inputs: int) -> torch.Tensor:
        return torch.randn(outputs, inputs, generator=draw) * 2.0 * inputs**-0.5

    def norm(width: int) -> torch.Tensor:
        return torch.randn(width, generator=draw) * 0.1 + (0.0 if gemma else 1.0)

    tensors = {"model.embed_tokens.weight": matrix(vocab, hidden), "model.norm.weight": norm(hidden)}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = matrix(vocab, hidden)
    for index in range(config["num_hidden_layers"]):
        at = f"model.layers.{index}."
        tensors |= {
            f"{at}input_layernorm.weight": norm(hidden),
            f"{at}post_attention_layernorm.weight": norm(hidden),
            f"{at}self_attn.q_proj.weight": matrix(queries, hidden),
            f"{at}self_attn.k_proj.weight": matrix(keys, hidden),
            f"{at}self_attn.v_proj.weight": matrix(keys, hidden),
            f"{at}self_attn.o_proj.weight": matrix(hidden, queries),
            f"{at}mlp.gate_proj.weight": matrix(ffn, hidden),
            f"{at}mlp.up_proj.weight": matrix(ffn, hidden),
            f"{at}mlp.down_proj.weight": matrix(hidden, ffn),
        }
        if config["model_type"] == "qwen2":
            for name, width in (("q", queries), ("k", keys), ("v", keys)):
                tensors[f"{at}self_attn.{name}_proj.bias"] = torch.randn(width, generator=draw) * 0.1
        if gemma or config["model_type"] == "qwen3":
            tensors[f"{at}self_attn.q_norm.weight"] = norm(config["head_dim"])
            tensors[f"{at}self_attn.k_norm.weight"] = norm(config["head_dim"])
        if gemma:
            tensors[f"{at}pre_feedforward_layernorm.weight"] = norm(hidden)
            tensors[f"{at}post_feedforward_layernorm.weight"] = norm(hidden)
    return tensors


def write_folder(folder: Path, config: dict, *, seed: int = 0) -> Path:
    """The folder of a model whose tokens are bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors_of(config, seed), folder / "model.safetensors")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={sign: index for index, sign in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
