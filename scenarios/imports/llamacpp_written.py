"""llama.cpp: the flags of `llama-server`, `llama-cli` and `llama-speculative`, old and new names."""

from __future__ import annotations

from collections.abc import Mapping

from scenarios.imports.command_words import Flags, sort_words, words_of
from scenarios.imports.written import Written, whole

_ALIASES = {
    "m": "model",
    "hf": "hf-repo",
    "hfr": "hf-repo",
    "hfd": "hf-repo-draft",
    "hfrd": "hf-repo-draft",
    "spec-draft-hf": "hf-repo-draft",
    "md": "model-draft",
    "spec-draft-model": "model-draft",
    "c": "ctx-size",
    "cd": "ctx-size-draft",
    "spec-draft-ctx-size": "ctx-size-draft",
    "np": "parallel",
    "b": "batch-size",
    "ub": "ubatch-size",
    "ngl": "n-gpu-layers",
    "gpu-layers": "n-gpu-layers",
    "ngld": "n-gpu-layers-draft",
    "gpu-layers-draft": "n-gpu-layers-draft",
    "spec-draft-ngl": "n-gpu-layers-draft",
    "fa": "flash-attn",
    "ctk": "cache-type-k",
    "ctv": "cache-type-v",
    "mm": "mmproj",
    "kvu": "kv-unified",
    "cb": "cont-batching",
    "t": "threads",
    "n": "predict",
    "draft": "draft-max",
    "draft-n": "draft-max",
    "draft-n-min": "draft-min",
    "draft-p-min": "spec-draft-p-min",
}
_SWITCHES = words_of("jinja mlock no-mmap cont-batching no-webui metrics kv-unified conversation log-disable")
REMOVED = {
    "draft-max": "--spec-draft-n-max",
    "draft-min": "--spec-draft-n-min",
    "ctx-size-draft": "no flag: the draft takes the target's context",
    "spec-ngram-size-n": "--spec-ngram-mod-n-match, or the method's own --spec-ngram-*-size-n",
    "spec-ngram-size-m": "the method's own --spec-ngram-*-size-m",
}
"""Old names that new builds refuse, and what replaced them."""
_TYPES = {"draft-mtp": "mtp", "draft-eagle3": "eagle3", "draft-dflash": "dflash", "dflash": "dflash",
          "draft-dspark": "dspark", "draft-simple": "draft_model"}  # fmt: skip


def read_llamacpp(words: list[str], environment: Mapping[str, str]) -> Written:
    """The words after the program's name."""
    sorted_words = sort_words(words, aliases=_ALIASES, switches=_SWITCHES)
    flags = sorted_words.flags
    method = _method(flags)
    k = None if method is None else _draft_tokens(flags, method)
    slots = whole(flags.get("parallel"), name="--parallel")
    return Written(
        engine="llamacpp",
        flags=flags,
        environment=environment,
        target=flags.get("model") or flags.get("hf-repo"),
        draft=flags.get("model-draft") or flags.get("hf-repo-draft"),
        method=method,
        method_text=flags.get("spec-type") or ("draft model" if method == "draft_model" else None),
        draft_tokens=k,
        verify_rows=None if k is None else k + 1,
        max_sequences=slots,
        max_batched_tokens=whole(flags.get("batch-size"), name="--batch-size"),
        max_context_tokens=whole(flags.get("ctx-size"), name="--ctx-size") or None,
        draft_context_tokens=whole(flags.get("ctx-size-draft"), name="--ctx-size-draft") or None,
    )


def _method(flags: Flags) -> str | None:
    """A comma-separated --spec-type may name several; a draft model comes first, then the first type."""
    if flags.get("model-draft") or flags.get("hf-repo-draft"):
        types = [kind for kind in (flags.get("spec-type") or "").split(",") if kind in _TYPES]
        return _TYPES[types[0]] if types else "draft_model"
    kinds = [kind for kind in (flags.get("spec-type") or "").split(",") if kind and kind != "none"]
    if not kinds:
        return None
    if kinds[0].startswith("ngram"):
        return "ngram"
    return _TYPES.get(kinds[0], "unknown")


def _draft_tokens(flags: Flags, method: str) -> int | None:
    names = ["spec-draft-n-max", "draft-max"]
    if method == "ngram":
        names = [*(name for name in flags if name.startswith("spec-ngram") and name.endswith("n-max")), *names]
    return next((whole(flags[name], name=f"--{name}") for name in names if flags.get(name)), None)
