"""Options that switch each other off: asynchronous scheduling, padded batches, model runners, mixed chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup
from scenarios.imports.written import MATCHING_METHODS

_V1_ONLY = ("suffix", "custom")


@final
@dataclass(frozen=True, slots=True)
class AsyncScheduling:
    """vLLM overlaps scheduling with the GPU by default; some drafting takes that away, silently or with an error."""

    topic: ClassVar[Topic] = Topic("asynchronous scheduling", sources.VLLM_ASYNC)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where it is asked for and refused; warn where an option costs it."""
        written = setup.written
        if written.engine != "vllm" or not setup.speculates:
            return
        asked = written.switch("async-scheduling")
        unpadded = bool(written.speculative.get("disable_padded_drafter_batch"))
        on_host = written.method in MATCHING_METHODS and written.method_text != "ngram_gpu"
        if unpadded and asked:
            yield self.topic.stops(
                "unpadded drafter batches and asynchronous scheduling exclude each other",
                "both asked for",
                "drop disable_padded_drafter_batch, or --no-async-scheduling",
            )
        elif unpadded:
            yield self.topic.warns(
                "unpadded drafter batches switch asynchronous scheduling off: host time stands between the steps again",
                "disable_padded_drafter_batch true",
                "drop it unless the draft passes are larger than the host's time (`specdec calibrate`)",
            )
        elif on_host and asked:
            yield self.topic.stops(
                f"{written.method} drafts on the host, which asynchronous scheduling cannot wait for",
                "--async-scheduling given",
                "drop --async-scheduling" + (", or use ngram_gpu" if written.method == "ngram" else ""),
            )
        elif on_host:
            yield self.topic.passes("off with this method: host time stands between the steps", f"{written.method}")


@final
@dataclass(frozen=True, slots=True)
class ModelRunner:
    """vLLM 0.33: the default, runner V2, lacks suffix, custom classes, P-EAGLE, heterogeneous vocabularies."""

    topic: ClassVar[Topic] = Topic("model runner", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where V2 is forced; pass with a note where the engine falls back."""
        written = setup.written
        if written.engine != "vllm" or not setup.speculates:
            return
        parallel_head = bool(written.speculative.get("parallel_drafting")) and written.method in ("eagle", "eagle3")
        lacking = written.method in _V1_ONLY or parallel_head or written.speculative.get("use_heterogeneous_vocab")
        if not lacking:
            return
        what = "P-EAGLE" if parallel_head else f"{written.method}"
        if written.environment.get("VLLM_USE_V2_MODEL_RUNNER") == "1" and not setup.before(0, 33):
            yield self.topic.stops(
                "model runner V2 is forced and does not support it (0.33)", what, "drop VLLM_USE_V2_MODEL_RUNNER=1"
            )
        else:
            yield self.topic.passes("falls back to model runner V1 in 0.33", what)


@final
@dataclass(frozen=True, slots=True)
class SglangOverlap:
    """SGLang: SpecV2 (overlap) runs chains only; mixed chunks are switched off by drafting."""

    topic: ClassVar[Topic] = Topic("overlap and mixed chunks", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for a tree under SpecV2; warn for mixed chunks, which are silently switched off."""
        written = setup.written
        if written.engine != "sglang" or not setup.speculates:
            return
        second = written.environment.get("SGLANG_ENABLE_SPEC_V2", "0").lower() in ("1", "true")
        if second and written.top_k > 1:
            yield self.topic.stops(
                "SGLANG_ENABLE_SPEC_V2 runs chains only",
                f"topk {written.top_k}",
                "give --speculative-eagle-topk 1, or drop the variable",
            )
        if written.switch("enable-mixed-chunk"):
            yield self.topic.warns(
                "mixed chunks are switched off by speculation: prompts stall decoding again",
                "--enable-mixed-chunk with a speculative algorithm",
                "drop the flag and size --chunked-prefill-size for the stall, or drop speculation",
            )


@final
@dataclass(frozen=True, slots=True)
class MtpAndPrefixCache:
    """Many MTP drafts and prefix caching can eat into each other's gain: a fact of the run, not of a config."""

    topic: ClassVar[Topic] = Topic("prefix caching and MTP", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """A note where both are on."""
        written = setup.written
        caching = written.flags.get("enable-prefix-caching") != "false"
        if written.engine == "vllm" and written.method == "mtp" and (written.draft_tokens or 0) >= 4 and caching:
            yield self.topic.passes(
                "gains of prefix caching and of many MTP drafts do not add up: measure with and without",
                f"K = {written.draft_tokens}, prefix caching on",
            )
