"""Pipeline stages, the draft's tensor parallelism, attention data parallelism: by method and release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup
from scenarios.imports.written import MATCHING_METHODS

_FIX = "serve with tensor parallelism only, or without speculation"
PIPELINE_REFUSED_BELOW = (0, 16)
V0_CHUNKS_ABOVE_TOKENS = 32768


@final
@dataclass(frozen=True, slots=True)
class PipelineStages:
    """Method x stages x release: vLLM up to 0.15 refuses all, later ones run EAGLE-3; SGLang asserts."""

    topic: ClassVar[Topic] = Topic("pipeline parallelism", sources.VLLM_PIPELINE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop or warn for more than one stage with speculation."""
        written = setup.written
        if not setup.speculates:
            return
        number = f"{written.pipeline} stages, {written.method}"
        if written.pipeline == 1:
            yield self.topic.passes("one stage", number)
        elif written.engine == "vllm":
            yield self._vllm(setup, number)
        elif written.engine == "sglang":
            topic = Topic(self.topic.rule, sources.SGLANG_PIPELINE)
            if written.environment.get("SGLANG_ENABLE_PP_SPEC", "0") not in ("0", "", "false", "False"):
                yield topic.warns("stages with speculation are experimental", number, _FIX)
            else:
                yield topic.stops("the engine asserts that no speculation runs over stages", number, _FIX)
        elif written.engine == "trtllm":
            yield Topic(self.topic.rule, sources.TRTLLM_ARGS).warns(
                "stages with drafts are not listed as supported for every method", number, _FIX
            )

    def _vllm(self, setup: Setup, number: str) -> Finding:
        method = setup.written.method
        if setup.before(*PIPELINE_REFUSED_BELOW):
            return self.topic.stops("releases up to 0.15 refuse speculation over pipeline stages", number, _FIX)
        if method == "mtp":
            return self.topic.stops(
                "refused up to 0.15, and with MTP reported broken on later releases (49355, 57755)", number, _FIX
            )
        if setup.release is None or method not in ("eagle", "eagle3"):
            return self.topic.warns(
                "refused up to 0.15; later releases run EAGLE-3 over stages (55623), other methods are not confirmed",
                number,
                f"{_FIX}; or give --engine-version and try it",
            )
        return self.topic.passes("EAGLE drafts run over stages in this release (55623)", number)


@final
@dataclass(frozen=True, slots=True)
class DraftTensorParallel:
    """vLLM runs the draft on 1 GPU or on all of the target's; V0 with chunked prefill on 1 alone."""

    topic: ClassVar[Topic] = Topic("draft tensor parallelism", sources.VLLM_DRAFT_TP)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for another size, or for the release that wants 1."""
        written = setup.written
        if written.engine != "vllm" or not setup.speculates or written.method in MATCHING_METHODS:
            return
        draft = written.draft_tensor if written.draft_tensor is not None else written.tensor
        number = f"draft {draft}, target {written.tensor}"
        if draft not in (1, written.tensor):
            yield Topic(self.topic.rule, sources.VLLM_SPECULATIVE).stops(
                "the draft runs on one GPU or on all of the target's",
                number,
                f"draft_tensor_parallel_size 1 or {written.tensor}",
            )
        elif setup.before(0, 8) and draft != 1 and _chunked_by_v0(setup) and written.method == "draft_model":
            yield self.topic.stops(
                "chunked prefill with drafts works with a draft on one GPU only in this release",
                number,
                "--speculative-draft-tensor-parallel-size 1, or no --enable-chunked-prefill",
            )
        elif draft != 1 and written.implied_version is not None and _chunked_by_v0(setup):
            yield self.topic.stops(
                "V0 runs chunked prefill with drafts only with the draft on one GPU",
                number,
                "--speculative-draft-tensor-parallel-size 1, or no --enable-chunked-prefill",
            )
        elif written.tensor > 1:
            yield self.topic.passes("a size the engine runs", number)


def _chunked_by_v0(setup: Setup) -> bool:
    """V0 turned chunked prefill on by itself for contexts above 32,768 tokens."""
    chunked = setup.written.chunked_prefill
    return chunked if chunked is not None else (setup.written.max_context_tokens or 0) > V0_CHUNKS_ABOVE_TOKENS


@final
@dataclass(frozen=True, slots=True)
class HeadsDivide:
    """Tensor parallelism cuts whole attention heads; small drafts often have an odd number of them."""

    topic: ClassVar[Topic] = Topic("attention heads", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where a size does not divide the heads."""
        written = setup.written
        if written.engine == "llamacpp" or not setup.speculates:
            return
        workers = written.data if written.switch("enable-dp-attention") else 1
        sizes = ((setup.target, written.tensor // workers or 1, "target"),
                 (setup.draft, written.draft_tensor or written.tensor // workers or 1, "draft"))  # fmt: skip
        for facts, size, role in sizes:
            if facts is None or facts.heads is None or facts.heads % size == 0:
                continue
            fix = f"use {', '.join(str(n) for n in range(1, 9) if facts.heads % n == 0)} GPUs"
            if role == "draft" and written.engine == "vllm":
                fix = "draft_tensor_parallel_size 1"
            yield self.topic.stops(
                f"the {role}'s heads do not divide over its GPUs", f"{facts.heads} heads on {size}", fix
            )


@final
@dataclass(frozen=True, slots=True)
class AttentionData:
    """SGLang's n-gram and standalone drafts do not run under attention data parallelism."""

    topic: ClassVar[Topic] = Topic("attention data parallelism", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for those two."""
        written = setup.written
        if written.engine != "sglang" or not written.switch("enable-dp-attention"):
            return
        if written.method in ("ngram", "draft_model"):
            yield self.topic.stops(
                f"{written.method_text} does not run with --enable-dp-attention",
                f"{written.data} attention workers",
                "drop --enable-dp-attention, or use EAGLE, EAGLE3 or NEXTN",
            )
