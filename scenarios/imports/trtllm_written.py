"""TensorRT-LLM: the YAML of `--config` / `--extra_llm_api_options`, with the flags of `trtllm-serve` over it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios.imports.command_words import sort_words
from scenarios.imports.written import Written, share, sizes_of, whole

METHODS = {
    "mtp": "mtp",
    "eagle3": "eagle3",
    "eagle": "eagle3",
    "ngram": "ngram",
    "drafttarget": "draft_model",
    "pard": "pard",
    "dflash": "dflash",
    "sa": "suffix",
    "userprovided": "custom",
    "user_provided": "custom",
    "auto": "ngram",
    "medusa": "medusa",
    "lookahead": "ngram",
}
_ALIASES = {
    "extra-llm-api-options": "config",
    "tp-size": "tensor-parallel-size",
    "pp-size": "pipeline-parallel-size",
    "kv-cache-free-gpu-memory-fraction": "free-gpu-memory-fraction",
    "free-gpu-memory-fraction": "free-gpu-memory-fraction",
}
_SWITCHES = frozenset({"trust-remote-code", "enable-chunked-prefill", "fail-fast-on-attention-window-too-large"})


def read_trtllm(
    words: list[str], environment: Mapping[str, str], *, content: Mapping[str, Any] | None = None
) -> Written:
    """`trtllm-serve MODEL …` and the YAML it names; the command line wins, as in the engine."""
    sorted_words = sort_words(words, aliases=_ALIASES, switches=_SWITCHES)
    flags, yaml = sorted_words.flags, dict(content or {})
    config = _section(yaml, "speculative_config")
    graphs, cache = _section(yaml, "cuda_graph_config"), _section(yaml, "kv_cache_config")
    kind = config.get("decoding_type") or config.get("type")
    method = METHODS.get(str(kind).lower(), "unknown") if config else None
    k, rows = _lengths(config, method)
    positional = (word for word in sorted_words.positional if word != "serve")
    return Written(
        engine="trtllm",
        flags={**{str(key).replace("_", "-"): _text(value) for key, value in yaml.items()}, **flags},
        speculative=config,
        sections={key: value for key, value in yaml.items() if isinstance(value, dict)},
        environment=environment,
        target=flags.get("model") or next(positional, None) or yaml.get("model"),
        kv_cache_dtype=cache.get("dtype"),
        draft=config.get("speculative_model") or config.get("speculative_model_dir"),
        method=method,
        method_text=None if kind is None else str(kind),
        draft_tokens=k,
        verify_rows=rows,
        top_k=whole(config.get("dynamic_tree_max_topK"), name="dynamic_tree_max_topK") or 1,
        tensor=_either(flags, yaml, "tensor-parallel-size") or 1,
        pipeline=_either(flags, yaml, "pipeline-parallel-size") or 1,
        max_sequences=_either(flags, yaml, "max-batch-size"),
        max_batched_tokens=_either(flags, yaml, "max-num-tokens"),
        max_context_tokens=_either(flags, yaml, "max-seq-len"),
        memory_fraction=share(
            flags.get("free-gpu-memory-fraction") or cache.get("free_gpu_memory_fraction"),
            name="kv_cache_config.free_gpu_memory_fraction",
        ),
        graph_sizes=sizes_of(graphs.get("batch_sizes"), name="cuda_graph_config.batch_sizes"),
        graph_limit=whole(graphs.get("max_batch_size"), name="cuda_graph_config.max_batch_size"),
        chunked_prefill=_flag(yaml, "enable_chunked_prefill"),
        eager="cuda_graph_config" in yaml and yaml["cuda_graph_config"] is None,
    )


def read_yaml(text: str, *, name: str) -> dict[str, Any]:
    """A YAML mapping; PyYAML is imported here alone."""
    import yaml

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = str(error).replace("\n", " ")
        raise InvalidInput(f"{name} is not YAML ({where}); correct that line") from error
    if not isinstance(content, dict):
        raise InvalidInput(f"{name} must hold a YAML mapping, got {type(content).__name__}; write `key: value` lines")
    return {str(key): value for key, value in cast("dict[Any, Any]", content).items()}


def _lengths(config: Mapping[str, Any], method: str | None) -> tuple[int | None, int | None]:
    """(K, verified rows): a chain verifies K + 1, a tree its budget + 1."""
    if method is None:
        return None, None
    k = whole(config.get("max_draft_len"), name="speculative_config.max_draft_len")
    if k is None and method == "mtp":
        k = whole(config.get("num_nextn_predict_layers"), name="speculative_config.num_nextn_predict_layers")
    total = whole(config.get("max_total_draft_tokens"), name="speculative_config.max_total_draft_tokens")
    top_k = whole(config.get("dynamic_tree_max_topK"), name="speculative_config.dynamic_tree_max_topK")
    if config.get("use_dynamic_tree") and total is None and k is not None and top_k is not None:
        total = k * top_k
    return k, None if (total or k) is None else (total or k or 0) + 1


def _section(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{key} must be a YAML mapping, got {value!r}; indent its keys below it")
    return {str(name): entry for name, entry in cast("dict[Any, Any]", value).items()}


def _either(flags: Mapping[str, str | None], yaml: Mapping[str, Any], flag: str) -> int | None:
    value = flags.get(flag)
    return whole(value if value is not None else yaml.get(flag.replace("-", "_")), name=flag)


def _flag(yaml: Mapping[str, Any], key: str) -> bool | None:
    return None if yaml.get(key) is None else bool(yaml[key])


def _text(value: Any) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)
