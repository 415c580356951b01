"""Names that a release has dropped or never knew: flags, keys, methods."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup
from scenarios.imports import serve_flags
from scenarios.imports.llamacpp_written import REMOVED
from scenarios.imports.vllm_written import V0_FLAGS

CONFIG_ONLY = (0, 9)
"""vLLM release from which drafting is set by --speculative-config alone."""
LLAMACPP_RENAMED = (8000,)
"""Build number of llama.cpp above which, at the latest, the old names are refused (spring 2026)."""
_GONE_METHODS = ("medusa", "mlp_speculator")
_NEWER_KEYS = ("suffix_decoding_corpus_tokens", "max_num_seqs")
_GONE_KEYS = {
    "speculative_token_tree": "trees are gone: draft a chain",
    "disable_by_batch_size": "use num_speculative_tokens_per_batch_size with K = 0",
}
_SGLANG_PREFIXES = ("speculative-algo", "speculative-num-steps", "speculative-num-draft", "speculative-eagle")
_TRTLLM_OLD = ("medusa", "lookahead")


@final
@dataclass(frozen=True, slots=True)
class RemovedFlags:
    """vLLM's flags of V0 and llama.cpp's old names."""

    topic: ClassVar[Topic] = Topic("removed flags", sources.VLLM_OLD_FLAGS)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where the release is known to refuse them."""
        written = setup.written
        if written.engine == "vllm":
            old = sorted(f"--{name}" for name in written.flags if name in V0_FLAGS)
            if old and (setup.version is None or setup.version >= CONFIG_ONLY):
                yield self.topic.stops(
                    "flags of vLLM before 0.9; this release knows --speculative-config only",
                    ", ".join(old),
                    "write --speculative-config (model, num_speculative_tokens), or give --engine-version",
                )
        if written.engine == "llamacpp":
            old = sorted(name for name in written.flags if name in REMOVED)
            topic = Topic(self.topic.rule, sources.LLAMACPP_ARGUMENTS)
            fix = "; ".join(f"--{name}: {REMOVED[name]}" for name in old)
            if old and setup.release is not None and setup.release >= LLAMACPP_RENAMED:
                yield topic.stops("this build refuses the old names", ", ".join(f"--{name}" for name in old), fix)
            elif old:
                yield topic.passes(f"builds of 2026 refuse these names ({fix})", ", ".join(f"--{name}" for name in old))


@final
@dataclass(frozen=True, slots=True)
class KnownMethod:
    """The proposer must be one this release still has."""

    topic: ClassVar[Topic] = Topic("method", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for methods that are gone, not yet there, or unknown."""
        written = setup.written
        shown = f"{written.method_text!r}"
        if written.method == "unknown":
            yield Topic(self.topic.rule, _method_source(setup)).stops(
                f"{setup.engine} knows no such method", shown, _known_methods(setup)
            )
        if written.engine == "trtllm":
            yield from self._trtllm(setup, shown)
        if written.engine != "vllm":
            return
        if written.method in _GONE_METHODS and not setup.before(0, 30):
            yield self.topic.stops("this method is gone from current releases", shown, "use eagle3, mtp or draft_model")
        if written.method == "draft_model" and setup.release is not None and (0, 10) <= setup.release < (0, 15):
            yield Topic(self.topic.rule, sources.VLLM_DRAFT_MODEL).stops(
                "releases 0.10 to 0.14 raise NotImplementedError for an independent draft model",
                ".".join(str(part) for part in setup.release),
                "use eagle, eagle3, mtp or ngram there, or a later release",
            )

    def _trtllm(self, setup: Setup, shown: str) -> Iterator[Finding]:
        text = (setup.written.method_text or "").lower()
        topic = Topic(self.topic.rule, sources.TRTLLM_SPECULATIVE)
        if text in _TRTLLM_OLD:
            yield topic.stops("the PyTorch backend has no such method", shown, "use Eagle3, MTP, NGram, PARD or SA")
        if setup.written.method in ("eagle3", "draft_model", "pard", "dflash") and setup.written.draft is None:
            yield topic.stops("the draft's checkpoint is missing", shown, "give speculative_model")


@final
@dataclass(frozen=True, slots=True)
class SpeculativeKeys:
    """vLLM refuses keys its SpeculativeConfig does not have."""

    topic: ClassVar[Topic] = Topic("keys of the speculative config", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for refused, removed and misspelt keys; pass with a note for keys not known here."""
        written = setup.written
        if written.engine != "vllm" or written.implied_version is not None:
            return
        config = written.speculative
        if config.get("tensor_parallel_size") is not None:
            yield self.topic.stops(
                "tensor_parallel_size raises inside the speculative config",
                f"tensor_parallel_size {config['tensor_parallel_size']}",
                f"write draft_tensor_parallel_size {config['tensor_parallel_size']}",
            )
        for key, fix in _GONE_KEYS.items():
            if config.get(key) is not None and not setup.before(0, 20):
                yield self.topic.stops(f"{key} is gone from current releases", f"{key} {config[key]}", fix)
        known = {*serve_flags.SPECULATIVE_HONOURED, *serve_flags.SPECULATIVE_IGNORED, *_GONE_KEYS, *_NEWER_KEYS}
        for key in config:
            if key in known or key == "tensor_parallel_size":
                continue
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.8)
            if near:
                yield self.topic.stops("no such key", key, f"did you mean {near[0]}?")
            else:
                yield self.topic.passes("a key this check does not know; the engine refuses keys it lacks", key)


@final
@dataclass(frozen=True, slots=True)
class ForeignFlags:
    """Flags of another engine, which this one does not know; the same number means another K there."""

    topic: ClassVar[Topic] = Topic("flags of another engine", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where one stands on the line."""
        written = setup.written
        theirs = {
            "vllm": ("SGLang", [name for name in written.flags if name.startswith(_SGLANG_PREFIXES)]),
            "sglang": ("vLLM", [name for name in written.flags if name in {*V0_FLAGS, "speculative-config", "sc"}]),
        }.get(written.engine)
        if theirs is None or not theirs[1]:
            return
        words = {
            "vllm": "--speculative-config; K = SGLang's num-steps, or num-draft-tokens - 1 of a chain",
            "sglang": "--speculative-algorithm; num-steps = vLLM's num_speculative_tokens, num-draft-tokens one more",
        }
        yield self.topic.stops(
            f"flags of {theirs[0]}, unknown to {setup.engine}",
            ", ".join(f"--{name}" for name in theirs[1]),
            words[written.engine],
        )


def _method_source(setup: Setup) -> sources.Reference:
    return {
        "vllm": sources.VLLM_SPECULATIVE,
        "sglang": sources.SGLANG_SPECULATIVE,
        "trtllm": sources.TRTLLM_SPECULATIVE,
        "llamacpp": sources.LLAMACPP_SPECULATIVE,
    }[setup.written.engine]


def _known_methods(setup: Setup) -> str:
    return {
        "vllm": "use ngram, suffix, draft_model, eagle, eagle3, mtp, dflash or dspark",
        "sglang": "use EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM, DFLASH or DSPARK",
        "trtllm": "use MTP, Eagle3, NGram, DraftTarget, PARD, DFlash or SA",
        "llamacpp": "use a draft model, draft-mtp, draft-eagle3 or one of the ngram types",
    }[setup.written.engine]
