"""`python -m sglang.launch_server …` (0.5.23): the flags of a chain; trees are refused.

SGLang's `num_draft_tokens` counts the root, so K is one less.
"""

from __future__ import annotations

from typing import Any

from roofline.errors import InvalidInput
from scenarios import notation

_METHODS = {
    "EAGLE": "eagle",
    "EAGLE3": "eagle3",
    "NEXTN": "mtp",
    "STANDALONE": "draft_model",
    "NGRAM": "ngram",
}
_ALIASES = {
    "model": "model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "ep": "ep-size",
    "expert-parallel-size": "ep-size",
    "speculative-algo": "speculative-algorithm",
    "speculative-draft-model": "speculative-draft-model-path",
}
_SWITCHES = (
    "disable-cuda-graph",
    "disable-overlap-schedule",
    "disable-radix-cache",
    "enable-dp-attention",
    "enable-metrics",
    "enable-mixed-chunk",
    "skip-tokenizer-init",
    "speculative-adaptive",
    "trust-remote-code",
)
_WHOLE = {
    "max-running-requests": "max_sequences",
    "chunked-prefill-size": "max_batched_tokens",
    "context-length": "max_context_tokens",
    "page-size": "block_tokens",
}
_PLACES = {
    "model-path": "target.model",
    "tp-size": "hardware.tensor_parallel",
    "pp-size": "hardware.pipeline_parallel",
    "dp-size": "hardware.data_parallel",
    "enable-dp-attention": "hardware.data_parallel",
    "ep-size": "hardware.expert_parallel",
    "quantization": "target.quantization",
    "kv-cache-dtype": "target.kv_cache_dtype",
    "mem-fraction-static": "engine.gpu_memory_utilization_fraction",
    "disable-cuda-graph": "engine.enforce_eager",
    "speculative-algorithm": "speculation.method",
    "speculative-draft-model-path": "speculation.draft",
    "speculative-num-steps": "speculation.draft_tokens",
    "speculative-num-draft-tokens": "speculation.draft_tokens + 1",
    "speculative-eagle-topk": "1: a chain; above: speculation.tree",
    **{flag: f"engine.{key}" for flag, key in _WHOLE.items()},
}
Row = tuple[str, str, Any, str]


def parse_sglang_words(words: list[str]) -> tuple[dict[str, Any], list[Row]]:
    """Scenario tables and the fate of every flag.

    Raises
    ------
    InvalidInput
        No model, a tree without its size, an unknown algorithm, or a value of the wrong kind.
    """
    flags = _sort(words)
    if not flags.get("model-path"):
        raise InvalidInput("serve command names no model; add --model-path MODEL")
    engine: dict[str, Any] = {"profile": "sglang"}
    for flag, key in _WHOLE.items():
        if flags.get(flag):
            engine[key] = notation.human_tokens(flags[flag], field=f"--{flag}")
    if flags.get("mem-fraction-static"):
        engine["gpu_memory_utilization_fraction"] = notation.finite(
            flags["mem-fraction-static"], field="--mem-fraction-static", example="0.85"
        )
    if "disable-cuda-graph" in flags:
        engine["enforce_eager"] = True
    target: dict[str, Any] = {"model": flags["model-path"]}
    if flags.get("quantization"):
        target["quantization"] = flags["quantization"]
    if flags.get("kv-cache-dtype", "auto") != "auto":
        target["kv_cache_dtype"] = flags["kv-cache-dtype"]
    tables: dict[str, Any] = {
        "target": target,
        "hardware": _hardware(flags),
        "engine": engine,
    }
    if "speculative-algorithm" in flags:
        tables["speculation"] = _speculation(flags)
    return tables, [_fate(name, value) for name, value in flags.items()]


def _hardware(flags: dict[str, str]) -> dict[str, Any]:
    """`tp-size` counts all GPUs of a stage; under data-parallel attention every rank has its share of them."""
    gpus, stages, ranks = (
        notation.human_tokens(flags.get(flag, "1"), field=f"--{flag}") for flag in ("tp-size", "pp-size", "dp-size")
    )
    hardware: dict[str, Any] = {"tensor_parallel": gpus}
    if stages > 1:
        hardware["pipeline_parallel"] = stages
    if ranks > 1:
        if "enable-dp-attention" not in flags or gpus % ranks:
            raise InvalidInput(
                f"--dp-size {ranks} needs --enable-dp-attention and a --tp-size it divides, got {gpus}; "
                "separate replicas are not simulated together: drop the flag and give the load of one"
            )
        hardware |= {"tensor_parallel": gpus // ranks, "data_parallel": ranks}
    if flags.get("ep-size", "1") not in ("1", ""):
        hardware["expert_parallel"] = True
    return hardware


def _sort(words: list[str]) -> dict[str, str]:
    flags: dict[str, str] = {}
    todo = [word for word in words if not word.startswith("\0")]
    while todo:
        word = todo.pop(0)
        if not word.startswith("--"):
            raise InvalidInput(f"serve command has the stray word {word!r}; quote values with spaces")
        name, equals, _ = word[2:].replace("_", "-").partition("=")
        name = _ALIASES.get(name, name)
        if equals or name in _SWITCHES:
            flags[name] = word.partition("=")[2] if equals else ""
        else:
            flags[name] = todo.pop(0) if todo and not todo[0].startswith("--") else ""
        if name in _PLACES and name not in _SWITCHES and not flags[name]:
            raise InvalidInput(f"serve command: {word} needs a value; write it like `{word} VALUE`")
    return flags


def _speculation(flags: dict[str, str]) -> dict[str, Any]:
    algorithm = flags["speculative-algorithm"].upper()
    if algorithm not in _METHODS:
        raise InvalidInput(
            f"--speculative-algorithm {algorithm!r} cannot be computed; {notation.nearest(algorithm, _METHODS)}"
        )
    if "speculative-adaptive" in flags:
        raise InvalidInput("--speculative-adaptive cannot be computed yet; give a fixed --speculative-num-steps")
    top_k = notation.human_tokens(flags.get("speculative-eagle-topk", "1"), field="--speculative-eagle-topk")
    steps, nodes = flags.get("speculative-num-steps"), flags.get("speculative-num-draft-tokens")
    if top_k > 1:
        return _with_draft(_tree(algorithm, steps, nodes, top_k), flags)
    if not steps and not nodes:
        raise InvalidInput(
            "--speculative-num-steps is missing and the engine's automatic choice is a tree for some models; give it"
        )
    counts = {
        *([notation.human_tokens(steps, field="--speculative-num-steps")] if steps else []),
        *([notation.human_tokens(nodes, field="--speculative-num-draft-tokens") - 1] if nodes else []),
    }
    if len(counts) > 1:
        raise InvalidInput(
            f"--speculative-num-draft-tokens must be num-steps + 1 for a chain, got {nodes} and {steps}; correct one"
        )
    return _with_draft({"method": _METHODS[algorithm], "draft_tokens": counts.pop()}, flags)


def _tree(algorithm: str, steps: str | None, nodes: str | None, top_k: int) -> dict[str, Any]:
    """A tree that follows confidence: `num-steps` passes, `topk` nodes grown in each, `num-draft-tokens` - 1 kept."""
    if not steps or not nodes:
        raise InvalidInput(
            f"--speculative-eagle-topk {top_k} drafts a tree, which needs --speculative-num-steps and "
            "--speculative-num-draft-tokens; give both"
        )
    return {
        "method": _METHODS[algorithm],
        "tree": {
            "nodes": notation.human_tokens(nodes, field="--speculative-num-draft-tokens") - 1,
            "depth": notation.human_tokens(steps, field="--speculative-num-steps"),
            "beam": top_k,
        },
    }


def _with_draft(speculation: dict[str, Any], flags: dict[str, str]) -> dict[str, Any]:
    if flags.get("speculative-draft-model-path"):
        speculation["draft"] = flags["speculative-draft-model-path"]
    return speculation


def _fate(name: str, value: str) -> Row:
    if name in _PLACES:
        return (f"--{name}", value, "honoured", _PLACES[name])
    return (f"--{name}", value, "ignored", "not read from SGLang lines")
