"""`vllm serve …` and vLLM's config YAML, as written, of releases 0.4 to 0.33; only what does not read is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios.imports import serve_flags
from scenarios.imports.command_words import CommandWords, Flags, canonical, sort_words
from scenarios.imports.written import Version, Written, share, sizes_of, whole

V0_FLAGS = {
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
    "speculative-draft-tensor-parallel-size": "draft_tensor_parallel_size",
    "speculative-max-model-len": "max_model_len",
    "speculative-model-quantization": "quantization",
    "speculative-disable-by-batch-size": "disable_by_batch_size",
    "ngram-prompt-lookup-max": "prompt_lookup_max",
    "ngram-prompt-lookup-min": "prompt_lookup_min",
    "spec-decoding-acceptance-method": "acceptance_method",
    "typical-acceptance-sampler-posterior-threshold": "posterior_threshold",
    "typical-acceptance-sampler-posterior-alpha": "posterior_alpha",
    "speculative-disable-mqa-scorer": "disable_mqa_scorer",
}
"""Flags of V0, replaced by `--speculative-config` in 0.8.3 and gone after 0.9."""
LAST_V0: Version = (0, 8)
_METHODS = {
    "ngram": "ngram",
    "ngram_gpu": "ngram",
    "draft_model": "draft_model",
    "suffix": "suffix",
    "custom_class": "custom",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "dflash": "dflash",
    "dspark": "dspark",
    "medusa": "medusa",
    "mlp_speculator": "mlp_speculator",
}
_SWITCHES = serve_flags.SWITCHES | {
    "speculative-disable-mqa-scorer",
    "use-v2-block-manager",
    "enable-flashinfer-autotune",
}
_EXTRA_ALIASES = {"cuda-graph-sizes": "cudagraph-capture-sizes"}


def read_vllm(words: list[str], environment: Mapping[str, str]) -> Written:
    """The words after `vllm serve` (or after the module of the API server)."""
    sorted_words = sort_words(words, aliases={**serve_flags.ALIASES, **_EXTRA_ALIASES}, switches=_SWITCHES)
    return _written(sorted_words, environment)


def read_vllm_yaml(content: Mapping[str, Any]) -> Written:
    """A file for `vllm serve --config`: the long names of the flags as keys."""
    words = CommandWords()
    for key, value in content.items():
        name = canonical(str(key), {**serve_flags.ALIASES, **_EXTRA_ALIASES})
        if value is True:
            words.flags[name] = None
        elif value is False:
            words.flags[name] = "false"
        else:
            words.flags[name] = json.dumps(value) if isinstance(value, dict | list) else str(value)
    return _written(words, {})


def _written(words: CommandWords, environment: Mapping[str, str]) -> Written:
    flags = {
        (name.removeprefix("no-") if name.startswith("no-") else name): ("false" if name.startswith("no-") else value)
        for name, value in words.flags.items()
    }
    old = {key: scalar(flags[name]) for name, key in V0_FLAGS.items() if name in flags}
    config = {**old, **_config(words, flags, "speculative-config")}
    method, text = vllm_method(config) if config else (None, None)
    if old and method == "unknown":
        # V0 drafts with the checkpoint's own layers where nothing but K is given.
        method, text = "mtp", "num-speculative-tokens alone"
    k = whole(config.get("num_speculative_tokens"), name="num_speculative_tokens")
    return Written(
        engine="vllm",
        flags=flags,
        speculative=config,
        environment=environment,
        target=flags.get("model") or next(iter(words.positional), None),
        quantization=flags.get("quantization"),
        kv_cache_dtype=flags.get("kv-cache-dtype"),
        draft=str(config["model"]) if config.get("model") and method not in ("ngram", "suffix") else None,
        draft_quantization=config.get("quantization"),
        method=method,
        method_text=text,
        draft_tokens=k,
        verify_rows=None if k is None else k + 1,
        draft_tensor=whole(config.get("draft_tensor_parallel_size"), name="draft_tensor_parallel_size"),
        draft_context_tokens=whole(config.get("max_model_len"), name="speculative-config.max_model_len"),
        implied_version=LAST_V0 if old else None,
        **_serving(flags, _config(words, flags, "compilation-config")),
    )


def _serving(flags: Flags, compilation: Mapping[str, Any]) -> dict[str, Any]:
    """What concerns every service: parallelism, scheduler, memory, graphs."""

    def number(flag: str) -> int | None:
        return whole(flags.get(flag), name=f"--{flag}")

    sizes = flags.get("cudagraph-capture-sizes") or compilation.get("cudagraph_capture_sizes")
    limit = flags.get("max-cudagraph-capture-size") or compilation.get("max_cudagraph_capture_size")
    chunked = flags.get("enable-chunked-prefill", "unset")
    return {
        "tensor": number("tensor-parallel-size") or 1,
        "pipeline": number("pipeline-parallel-size") or 1,
        "data": number("data-parallel-size") or 1,
        "max_sequences": number("max-num-seqs"),
        "max_batched_tokens": number("max-num-batched-tokens"),
        "max_context_tokens": number("max-model-len"),
        "memory_fraction": share(flags.get("gpu-memory-utilization"), name="--gpu-memory-utilization"),
        "graph_sizes": sizes_of(sizes, name="--cudagraph-capture-sizes"),
        "graph_limit": whole(limit, name="--max-cudagraph-capture-size"),
        "graph_unit": "tokens",
        "chunked_prefill": None if chunked == "unset" else (chunked or "true").lower() != "false",
        "eager": "enforce-eager" in flags and (flags["enforce-eager"] or "true").lower() != "false",
    }


def _config(words: CommandWords, flags: Flags, name: str) -> dict[str, Any]:
    """A JSON flag with its dotted keys over it."""
    dotted = {key: scalar(value) for key, value in words.dotted.get(name, {}).items()}
    return {**json_object(flags.get(name), flag=f"--{name}"), **dotted}


def vllm_method(config: Mapping[str, Any]) -> tuple[str, str]:
    """The proposer and the name it was found by, detected from the draft where `method` is not given."""
    given = config.get("method")
    model = str(config.get("model") or "")
    lowered = model.lower()
    if given is None:
        tests = (
            ("ngram", lowered in ("ngram", "[ngram]")),
            ("eagle3", "eagle3" in lowered or "eagle-3" in lowered),
            ("eagle", "eagle" in lowered),
            ("dflash", "dflash" in lowered),
            ("dspark", "dspark" in lowered),
            ("medusa", "medusa" in lowered),
            ("mlp_speculator", "accelerator" in lowered),
            ("mtp", "mtp" in lowered),
            ("custom", lowered.count(".") >= 2 and "/" not in lowered),
        )
        found = next((name for name, holds in tests if holds), "draft_model" if model else "unknown")
        return found, model or "neither method nor model"
    name = str(given)
    if name.endswith("_mtp"):
        return "mtp", name
    parallel = bool(config.get("parallel_drafting")) and name == "draft_model"
    return ("pard" if parallel else _METHODS.get(name, "unknown")), name


def json_object(text: str | None, *, flag: str) -> dict[str, Any]:
    """The JSON object behind a flag, empty where the flag is not given."""
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        shown = text if len(text) <= 60 else f"{text[:57]}…"
        raise InvalidInput(
            f"{flag} must be a JSON object, got {shown!r} (position {error.pos}: {error.msg}); write it like "
            '\'{"method": "eagle3", "num_speculative_tokens": 3}\''
        ) from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{flag} must be a JSON object, got {type(value).__name__}; write it in braces")
    return cast("dict[str, Any]", value)


def scalar(text: str | None) -> Any:
    """A value: JSON where it reads as such, else the text itself; a bare switch is True."""
    if text is None:
        return True
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
