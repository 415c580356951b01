"""What transformers assumes per `model_type` where a config.json is silent, and which shape each type has.
The one place.

Facts were read from the configuration and modelling files of huggingface/transformers and vllm-project/vllm.
A `model_type` that is not here is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """Shape of one `model_type`.

    `blocks`: who builds its layers (`roofline.hf_families`, `roofline.hf_hybrid`, `roofline.hf_inkling`). `tied`:
    `tie_word_embeddings` where the file is silent. `qkv_bias`, `o_bias`: a bias always, never, or as
    `attention_bias` says. `qk_norm`: RMSNorm on query and key, one head wide ("head") or all heads wide
    ("all", "head_if_asked"; `use_qk_norm` can switch both off). `gated`: two matrices up and one down, or one up and
    one down. `mlp_bias`: as `qkv_bias`. `norms`: RMSNorms of a layer that are as wide as the hidden
    state. `windows`: which layers see a sliding window where the file has no `layer_types`. `handles`: keys
    of `GUARDED` whose meaning this family's builder knows.
    """

    blocks: Literal["decoder", "mla", "llama4", "gemma4", "delta", "nemotron", "inkling"] = "decoder"
    tied: bool = False
    qkv_bias: Literal["always", "never", "config"] = "never"
    o_bias: Literal["always", "never", "config"] = "never"
    qk_norm: Literal["none", "head", "all", "head_if_asked"] = "none"
    gated: bool = True
    mlp_bias: Literal["always", "config"] = "config"
    norms: int = 2
    windows: Literal["none", "all", "switched", "switched_all", "even", "pattern", "chunks"] = "none"
    handles: frozenset[str] = frozenset()
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])


GUARDED: Mapping[str, str] = MappingProxyType(
    {
        "index_topk": "sparse attention with an indexer (DSA)",
        "index_n_heads": "sparse attention with an indexer (DSA)",
        "compress_ratios": "compressed key-value cache",
        "hc_mult": "hyper-connections",
        "num_kv_shared_layers": "key-value cache shared between layers",
        "hidden_size_per_layer_input": "per-layer embeddings",
        "use_double_wide_mlp": "double-wide feed-forward layers",
        "attention_chunk_size": "chunked attention",
        "linear_num_value_heads": "linear attention",
        "hybrid_override_pattern": "hybrid state-space layers",
        "ssm_state_size": "state-space layers",
        "attn_type_list": "lightning attention",
        "kv_lora_rank": "latent attention (MLA)",
        "num_experts": "routed experts",
        "num_local_experts": "routed experts",
        "n_routed_experts": "routed experts",
        "enable_moe_block": "routed experts",
        "n_shared_experts": "shared experts",
        "shared_expert_intermediate_size": "shared experts",
        "shared_intermediate_size": "shared experts",
        "attn_output_gate": "gated attention",
        "attention_k_eq_v": "keys reused as values",
        "global_head_dim": "another head size in global layers",
    }
)
"""Keys that change what is counted. A family that does not handle one refuses a config in which it is set."""

_EXPERTS = frozenset({"num_experts", "num_local_experts", "n_routed_experts"})
_SHARED = frozenset({"n_shared_experts", "shared_expert_intermediate_size", "shared_intermediate_size"})
_MLA = Family(blocks="mla", handles=_EXPERTS | _SHARED | {"kv_lora_rank"}, qkv_bias="config", o_bias="config")
_DELTA = Family(
    blocks="delta",
    qkv_bias="config",
    o_bias="config",
    qk_norm="head",
    handles=_EXPERTS | _SHARED | {"linear_num_value_heads", "attn_output_gate"},
    defaults={"full_attention_interval": 4},
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "llama": Family(qkv_bias="config", o_bias="config"),
        "mistral": Family(windows="all", defaults={"sliding_window": 4096}),
        "mixtral": Family(windows="all", handles=_EXPERTS),
        "qwen2": Family(
            qkv_bias="always",
            windows="switched",
            defaults={"sliding_window": 4096, "max_window_layers": 28},
        ),
        "qwen3": Family(
            qkv_bias="config",
            o_bias="config",
            qk_norm="head",
            windows="switched",
            defaults={"sliding_window": 4096, "max_window_layers": 28, "head_dim": 128},
        ),
        "qwen3_moe": Family(
            qkv_bias="config",
            o_bias="config",
            qk_norm="head",
            windows="switched_all",
            handles=_EXPERTS | {"shared_expert_intermediate_size"},
            defaults={"sliding_window": 4096, "decoder_sparse_step": 1},
        ),
        "mimo": Family(qkv_bias="always", windows="switched", defaults={"max_window_layers": 28}),
        "glm4_moe": Family(qkv_bias="config", qk_norm="head_if_asked", handles=_EXPERTS | _SHARED),
        "opt": Family(tied=True, qkv_bias="always", o_bias="always", gated=False, mlp_bias="always"),
        "starcoder2": Family(
            tied=True, qkv_bias="always", o_bias="always", gated=False, mlp_bias="always", windows="all"
        ),
        "minimax_m2": Family(qk_norm="all", handles=_EXPERTS | _SHARED),
        "phi3": Family(windows="all"),
        "gemma2": Family(
            tied=True,
            qkv_bias="config",
            o_bias="config",
            norms=4,
            windows="even",
            defaults={"head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 8192},
        ),
        "gemma3_text": Family(
            tied=True,
            qkv_bias="config",
            o_bias="config",
            qk_norm="head",
            norms=4,
            windows="pattern",
            defaults={
                "num_attention_heads": 8,
                "num_key_value_heads": 4,
                "head_dim": 256,
                "vocab_size": 262208,
                "sliding_window": 4096,
                "sliding_window_pattern": 6,
                "max_position_embeddings": 131072,
            },
        ),
        "gemma4_text": Family(
            blocks="gemma4",
            tied=True,
            qkv_bias="config",
            o_bias="config",
            qk_norm="head",
            norms=4,
            handles=_EXPERTS | {"enable_moe_block", "attention_k_eq_v", "global_head_dim"},
        ),
        "gpt_oss": Family(qkv_bias="always", o_bias="always", windows="even", handles=_EXPERTS),
        "llama4_text": Family(
            blocks="llama4",
            qkv_bias="config",
            o_bias="config",
            windows="chunks",
            handles=_EXPERTS | {"attention_chunk_size"},
            defaults={"attention_chunk_size": 8192, "interleave_moe_layer_step": 1},
        ),
        "deepseek_v2": _MLA,
        "deepseek_v3": _MLA,
        "kimi_k2": _MLA,
        "qwen3_next": Family(
            blocks="delta",
            qk_norm="head",
            handles=_DELTA.handles,
            qkv_bias="config",
            o_bias="config",
            defaults={"full_attention_interval": 4, "num_nextn_predict_layers": 1},
        ),
        "qwen3_5_text": _DELTA,
        "qwen3_5_moe_text": _DELTA,
        "inkling_text": Family(blocks="inkling", handles=_EXPERTS | _SHARED),
        "nemotron_h": Family(
            blocks="nemotron",
            qkv_bias="config",
            o_bias="config",
            handles=_EXPERTS | _SHARED | {"hybrid_override_pattern", "ssm_state_size"},
        ),
    }
)

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "deepseek_v32": "sparse attention with an indexer (DSA): each row reads at most `index_topk` "
        "tokens of a cache kept whole",
        "glm_moe_dsa": "sparse attention with an indexer (DSA): each row reads at most `index_topk` tokens "
        "of a cache kept whole",
        "deepseek_v4": "compressed key-value cache and hyper-connections",
    }
)
"""Types known and not computed, with the feature that is in the way."""

WRAPPERS: frozenset[str] = frozenset({"gemma3", "gemma4", "llama4", "qwen3_5", "qwen3_5_moe", "kimi_k25", "mistral3"})
"""Multimodal types: their language model is `text_config`."""

TEXT_TYPES: Mapping[str, str] = MappingProxyType(
    {"gemma3": "gemma3_text", "gemma4": "gemma4_text", "llama4": "llama4_text"}
)
"""`model_type` of a `text_config` that does not name its own."""

HEAD_ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {
        "LlamaForCausalLMEagle3": "eagle3",
        "Eagle3DraftModel": "eagle3",
        "Eagle3DeepseekV2ForCausalLM": "eagle3",
        "Eagle3DeepseekV3ForCausalLM": "eagle3",
        "PEagleDraftModel": "p_eagle",
        "DFlashDraftModel": "dflash",
        "DSparkDraftModel": "dspark",
        "DominoDraftModel": "domino",
    }
)
"""Architectures that only a draft head has, with the method that serves them."""
