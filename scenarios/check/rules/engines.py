"""Rules of one engine alone: TensorRT-LLM's trees and schedulers, llama.cpp's draft range and offload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup
from scenarios.imports.written import whole


@final
@dataclass(frozen=True, slots=True)
class TrtllmTree:
    """max_draft_len <= max_total_draft_tokens <= topK x max_draft_len; no window, latent attention or static tree."""

    topic: ClassVar[Topic] = Topic("dynamic tree", sources.TRTLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for what the engine refuses."""
        written, config = setup.written, setup.written.speculative
        total = whole(config.get("max_total_draft_tokens"), name="max_total_draft_tokens")
        k = written.draft_tokens
        if written.engine != "trtllm":
            return
        if not config.get("use_dynamic_tree"):
            if total is not None and k is not None and total != k and not config.get("eagle_choices"):
                yield self.topic.stops(
                    "a chain drafts max_draft_len tokens",
                    f"{total} and {k}",
                    "drop max_total_draft_tokens, or ask for a tree",
                )
            return
        if written.method != "eagle3":
            yield self.topic.stops(
                "only Eagle3 drafts trees; matching and MTP draft chains",
                f"{written.method_text}",
                "drop use_dynamic_tree",
            )
        if config.get("eagle_choices"):
            yield self.topic.stops("a dynamic and a static tree exclude each other", "both given", "drop eagle_choices")
        most = None if k is None else k * written.top_k
        if total is not None and k is not None and most is not None:
            number = f"{k} <= {total} <= {written.top_k} x {k} = {most}"
            ok = k <= total <= most
            yield (
                self.topic.passes("the budget fits the tree", number)
                if ok
                else self.topic.stops(
                    "the tree's budget must lie between its depth and topK x depth", number, f"give {k} to {most}"
                )
            )
        target = setup.target
        if target is not None and (target.latent_attention or target.window_tokens):
            yield self.topic.stops(
                "dynamic trees do not run with latent or windowed attention", target.name, "drop use_dynamic_tree"
            )


@final
@dataclass(frozen=True, slots=True)
class TrtllmScheduler:
    """Drafts made outside the target's graph need the plain scheduler; beams never go with drafts."""

    topic: ClassVar[Topic] = Topic("overlap scheduler", sources.TRTLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for beams; a note where the overlap is given up."""
        written = setup.written
        if written.engine != "trtllm" or not setup.speculates:
            return
        beams = whole(written.flags.get("max-beam-width"), name="max_beam_width") or 1
        if beams > 1:
            yield self.topic.stops(
                "drafts and beams exclude each other", f"max_beam_width {beams}", "drop max_beam_width"
            )
        two_models = written.method in ("ngram", "draft_model", "custom")
        two_models = two_models or written.speculative.get("eagle3_one_model") is False
        if two_models:
            yield self.topic.passes(
                "drafts are made outside the target's graph: no overlap (disable_overlap_scheduler: true)",
                f"{written.method_text}",
            )


@final
@dataclass(frozen=True, slots=True)
class LlamacppRange:
    """Shorter drafts than draft-min are thrown away; draft-max must not lie below it."""

    topic: ClassVar[Topic] = Topic("draft range", sources.LLAMACPP_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for an empty range, pass with K else."""
        written = setup.written
        if written.engine != "llamacpp" or not setup.speculates:
            return
        names = ("spec-draft-n-min", "draft-min", "spec-ngram-mod-n-min")
        least = (
            next((whole(written.flags[name], name=f"--{name}") for name in names if written.flags.get(name)), 0) or 0
        )
        k = written.draft_tokens
        number = f"{least} to {'the default (16, 3 in builds of 2026)' if k is None else k} drafts"
        if k is not None and least > k:
            yield self.topic.stops(
                "the shortest draft is longer than the longest: nothing is drafted", number, "swap them"
            )
        elif k is not None and k < 1:
            yield self.topic.stops("no token is drafted", number, "give at least 1, or drop the draft")
        else:
            yield self.topic.passes("K of this engine is the longest draft, the root not counted", number)


@final
@dataclass(frozen=True, slots=True)
class LlamacppDraft:
    """A draft on the CPU, a draft context shorter than the service's, a projector beside drafts."""

    topic: ClassVar[Topic] = Topic("draft placement", sources.LLAMACPP_ARGUMENTS)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn for a draft kept on the CPU beside an offloaded target, and for a projector."""
        written = setup.written
        if written.engine != "llamacpp" or not setup.speculates:
            return
        layers = (
            whole(written.flags.get("n-gpu-layers"), name="--n-gpu-layers")
            if _is_number(written, "n-gpu-layers")
            else None
        )
        draft_layers = written.flags.get("n-gpu-layers-draft")
        if written.method == "draft_model" and draft_layers == "0" and layers:
            yield self.topic.warns(
                "the draft runs on the CPU beside a target on the GPU: K slow passes a round",
                f"{layers} layers of the target offloaded, 0 of the draft",
                "give --n-gpu-layers-draft 99, or a smaller target share",
            )
        if written.flags.get("mmproj") and written.method == "draft_model":
            yield self.topic.warns(
                "drafts are switched off for requests with images",
                "--mmproj with a draft model",
                "serve text without --mmproj",
            )
        slots, context = written.max_sequences or 1, written.max_context_tokens
        if slots > 1 and context is not None:
            yield self.topic.passes(
                "the context is divided over the slots", f"{context:,} / {slots} = {context // slots:,} each"
            )


def _is_number(written: object, name: str) -> bool:
    from scenarios.imports.written import Written

    assert isinstance(written, Written)
    return (written.flags.get(name) or "").lstrip("-").isdigit()
