"""`python -m sglang.launch_server …` and `sglang serve …`, as written: chains, trees, adaptive drafting (0.5.23)."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.imports.command_words import Flags, sort_words, words_of
from scenarios.imports.written import Written, share, sizes_of, whole

_METHODS = {
    "EAGLE": "eagle",
    "EAGLE3": "eagle3",
    "NEXTN": "mtp",
    "STANDALONE": "draft_model",
    "NGRAM": "ngram",
    "DFLASH": "dflash",
    "DSPARK": "dspark",
    "UNO": "custom",
}
_ALIASES = {
    "model": "model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "mem-fraction": "mem-fraction-static",
    "speculative-algo": "speculative-algorithm",
    "speculative-draft": "speculative-draft-model-path",
    "speculative-draft-model": "speculative-draft-model-path",
    "cuda-graph-max-bs-decode": "cuda-graph-max-bs",
    "cuda-graph-bs-decode": "cuda-graph-bs",
}
_SWITCHES = words_of(
    """
    disable-cuda-graph disable-overlap-schedule disable-radix-cache enable-metrics enable-mixed-chunk
    skip-tokenizer-init speculative-adaptive trust-remote-code enable-dp-attention enable-torch-compile
    enable-deterministic-inference enable-p2p-check enable-dp-lm-head disable-cuda-graph-padding
    enable-flashinfer-allreduce-fusion speculative-use-rejection-sampling speculative-use-block-verification
    """
)
LLAMA_TREE = (5, 4, 8)
CHAIN = (3, 1, 4)
"""(steps, top-k, verified tokens) the engine chooses where none is given: Llama and Grok; everything else."""


def read_sglang(words: list[str], environment: Mapping[str, str]) -> Written:
    """The words after the launcher. EAGLE without a draft path drafts with the checkpoint's own MTP layers."""
    sorted_words = sort_words(words, aliases=_ALIASES, switches=_SWITCHES)
    flags = sorted_words.flags
    algorithm = flags.get("speculative-algorithm")
    draft = flags.get("speculative-draft-model-path")
    method = None if algorithm is None else _METHODS.get(algorithm.upper(), "unknown")
    if method == "eagle" and draft is None:
        method = "mtp"
    target = flags.get("model-path") or next(iter(sorted_words.positional), None)
    steps, top_k, rows = _shape(flags, method, target or "")
    return Written(
        engine="sglang",
        flags=flags,
        speculative={
            name.removeprefix("speculative-"): value for name, value in flags.items() if "speculative" in name
        },
        environment=environment,
        target=target,
        quantization=flags.get("quantization"),
        kv_cache_dtype=flags.get("kv-cache-dtype"),
        draft=draft,
        draft_quantization=flags.get("speculative-draft-model-quantization"),
        method=method,
        method_text=algorithm,
        draft_tokens=steps,
        verify_rows=rows,
        top_k=top_k,
        tensor=whole(flags.get("tp-size"), name="--tp-size") or 1,
        pipeline=whole(flags.get("pp-size"), name="--pp-size") or 1,
        data=whole(flags.get("dp-size"), name="--dp-size") or 1,
        max_sequences=whole(flags.get("max-running-requests"), name="--max-running-requests"),
        max_batched_tokens=whole(flags.get("chunked-prefill-size"), name="--chunked-prefill-size"),
        max_context_tokens=whole(flags.get("context-length"), name="--context-length"),
        draft_context_tokens=whole(flags.get("speculative-draft-window-size"), name="--speculative-draft-window-size"),
        memory_fraction=share(flags.get("mem-fraction-static"), name="--mem-fraction-static"),
        graph_sizes=sizes_of(flags.get("cuda-graph-bs"), name="--cuda-graph-bs"),
        graph_limit=whole(flags.get("cuda-graph-max-bs"), name="--cuda-graph-max-bs"),
        eager="disable-cuda-graph" in flags,
    )


def _shape(flags: Flags, method: str | None, target: str) -> tuple[int | None, int, int | None]:
    """(K, top-k, verified rows): as given, else the engine's automatic choice; a chain verifies steps + 1 rows."""
    if method is None:
        return None, 1, None
    steps = whole(flags.get("speculative-num-steps"), name="--speculative-num-steps")
    nodes = whole(flags.get("speculative-num-draft-tokens"), name="--speculative-num-draft-tokens")
    top_k = whole(flags.get("speculative-eagle-topk"), name="--speculative-eagle-topk")
    if method in ("ngram", "dflash", "dspark"):
        rows = nodes or whole(flags.get("speculative-dflash-block-size"), name="--speculative-dflash-block-size")
        return (None if rows is None else rows - 1), 1, rows
    if steps is None and top_k is None and nodes is None:
        family = any(word in target.lower() for word in ("llama", "grok")) and method != "draft_model"
        steps, top_k, nodes = LLAMA_TREE if family else CHAIN
    if (top_k or 1) == 1:
        steps = steps if steps is not None else (None if nodes is None else nodes - 1)
        return steps, 1, None if steps is None else steps + 1
    return steps, top_k or 1, nodes
