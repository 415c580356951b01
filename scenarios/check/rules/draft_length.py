"""K: missing, no multiple of the MTP layers, counted differently by engines, or impossible for the tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup
from scenarios.imports.written import Written, whole


@final
@dataclass(frozen=True, slots=True)
class DraftLength:
    """vLLM takes K from the draft's config only where that names one (n_predict, block_size), suffix has a default."""

    topic: ClassVar[Topic] = Topic("number of drafts", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where K is missing or below 1."""
        written = setup.written
        if not setup.speculates or written.engine == "llamacpp":
            return
        key = {"vllm": "num_speculative_tokens", "sglang": "--speculative-num-steps", "trtllm": "max_draft_len"}
        if written.draft_tokens is None:
            if _takes_k_from_config(setup):
                return
            yield self.topic.stops(
                f"K is missing, and {written.method} has no config to take it from",
                "K not given",
                f"give {key[written.engine]}, e.g. 3",
            )
        elif written.draft_tokens < 1:
            yield self.topic.stops(
                "K must be at least 1",
                f"K = {written.draft_tokens}",
                f"give {key[written.engine]} of at least 1, or serve without speculation",
            )
        else:
            yield self.topic.passes("K and the rows verified per sequence", _rows_text(written))


@final
@dataclass(frozen=True, slots=True)
class MtpLayers:
    """vLLM repeats the n MTP layers, so K above n must be a multiple of n; TensorRT-LLM wants both counts equal."""

    topic: ClassVar[Topic] = Topic("MTP layers", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for no layer, no multiple; pass with a note where layers are reused."""
        written, target, k = setup.written, setup.draft or setup.target, setup.written.draft_tokens
        if written.method != "mtp":
            return
        if written.engine == "trtllm":
            yield from self._trtllm(written)
        if target is None or k is None:
            return
        layers = target.mtp_layers
        if layers < 1 and setup.draft is None:
            yield self.topic.stops(
                f"{target.name} ships no MTP layer in its config",
                "0 layers",
                "choose another method, or give the draft",
            )
        elif layers >= 1 and k > layers and k % layers and written.engine == "vllm":
            yield self.topic.stops(
                "the engine refuses a K above the number of MTP layers that is no multiple of it",
                f"K = {k}, {layers} layers",
                f"use K = {k - k % layers} or {k + layers - k % layers}",
            )
        elif layers >= 1 and k > layers:
            yield self.topic.passes(
                "layers are reused: later drafts are accepted less often", f"K = {k}, {layers} trained"
            )
        elif layers >= 1:
            yield self.topic.passes("every draft has a layer of its own", f"K = {k}, {layers} layers")

    def _trtllm(self, written: Written) -> Iterator[Finding]:
        layers = whole(written.speculative.get("num_nextn_predict_layers"), name="num_nextn_predict_layers")
        length = whole(written.speculative.get("max_draft_len"), name="max_draft_len")
        if layers is not None and length is not None and layers != length:
            yield Topic(self.topic.rule, sources.TRTLLM_SPECULATIVE).stops(
                "num_nextn_predict_layers must match max_draft_len",
                f"{layers} and {length}",
                "give max_draft_len alone, or the same number twice",
            )


@final
@dataclass(frozen=True, slots=True)
class CountedWithRoot:
    """SGLang's num-draft-tokens counts the root: K + 1 of a chain, the nodes of a tree."""

    topic: ClassVar[Topic] = Topic("num-draft-tokens", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the engine overwrites it, stop where a tree cannot fill it or the trio is incomplete."""
        written = setup.written
        if written.engine != "sglang" or written.method not in ("eagle", "eagle3", "mtp", "draft_model"):
            return
        numbers = {name: whole(written.flags.get(f"speculative-{name}"), name=f"--speculative-{name}")
                   for name in ("num-steps", "eagle-topk", "num-draft-tokens")}  # fmt: skip
        steps, top_k, nodes = numbers.values()
        if steps is None and (top_k is not None or nodes is not None):
            yield self.topic.stops(
                "--speculative-num-steps is missing beside the other two: the engine tunes all three or none",
                "num-steps not given",
                f"add --speculative-num-steps {(nodes or 4) - 1}",
            )
        elif steps is not None and top_k is None:
            yield self.topic.stops(
                "--speculative-eagle-topk is missing beside num-steps: the engine tunes all three or none",
                "eagle-topk not given",
                f"add --speculative-eagle-topk 1 and --speculative-num-draft-tokens {steps + 1}",
            )
        elif steps is not None and top_k == 1 and nodes is not None and nodes != steps + 1:
            yield self.topic.warns(
                "with topk 1 the engine overwrites num-draft-tokens by num-steps + 1 (it counts the root)",
                f"{steps} steps, {nodes} given, {steps + 1} used",
                f"give --speculative-num-draft-tokens {steps + 1}; if {nodes} drafts were meant, {nodes} steps",
            )
        elif steps is not None and top_k is not None and top_k > 1 and nodes is not None:
            yield self._tree(steps, top_k, nodes)

    def _tree(self, steps: int, top_k: int, nodes: int) -> Finding:
        most = 1 + top_k + (steps - 1) * top_k * top_k
        number = f"{nodes} nodes verified of at most 1 + {top_k} + {steps - 1} x {top_k}^2 = {most}"
        if nodes > most:
            return self.topic.stops("the tree cannot fill num-draft-tokens", number, f"lower it to at most {most}")
        if nodes <= steps:
            return self.topic.warns(
                "fewer nodes are verified than the tree is deep: the last steps are drafted in vain",
                number,
                f"raise --speculative-num-draft-tokens above {steps + 1}, or draft fewer steps",
            )
        return self.topic.passes("the tree fills the verified rows, the root among them", number)


@final
@dataclass(frozen=True, slots=True)
class SameLength:
    """Two configurations that are compared must draft the same number of tokens."""

    topic: ClassVar[Topic] = Topic("K of the two configurations", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where they differ, and say when the engines' counting explains it."""
        other, written = setup.against, setup.written
        if other is None or other.draft_tokens is None or written.draft_tokens is None:
            return
        number = f"K = {written.draft_tokens} ({written.engine}) and {other.draft_tokens} ({other.engine})"
        if written.draft_tokens == other.draft_tokens and written.verify_rows == other.verify_rows:
            yield self.topic.passes("both draft and verify the same number of tokens", number)
            return
        sglang = next((one for one in (written, other) if one.engine == "sglang"), None)
        counted = sglang is not None and abs(written.draft_tokens - other.draft_tokens) == 1
        yield self.topic.warns(
            "the two do not draft alike"
            + (": SGLang's num-draft-tokens counts the root, vLLM's and TensorRT-LLM's K does not" if counted else ""),
            f"{number}; {written.verify_rows} and {other.verify_rows} rows verified",
            f"for K = {written.draft_tokens}: vLLM num_speculative_tokens {written.draft_tokens}, SGLang num-steps "
            f"{written.draft_tokens} and num-draft-tokens {written.draft_tokens + 1}, TensorRT-LLM max_draft_len "
            f"{written.draft_tokens}",
        )


@final
@dataclass(frozen=True, slots=True)
class BlockSize:
    """A block drafter was trained for one block; K beyond it has no position to be drafted at."""

    topic: ClassVar[Topic] = Topic("block size", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where more is drafted than the block holds."""
        draft, k = setup.draft, setup.written.draft_tokens
        if setup.written.method not in ("dflash", "dspark") or draft is None or draft.block_size is None or k is None:
            return
        if k > draft.block_size:
            yield self.topic.warns(
                f"{draft.name} drafts one block a round",
                f"K = {k} > block {draft.block_size}",
                f"use K <= {draft.block_size}",
            )
        else:
            yield self.topic.passes("K lies in the block", f"K = {k}, block {draft.block_size}")


def _takes_k_from_config(setup: Setup) -> bool:
    written = setup.written
    if written.engine == "vllm":
        named = setup.draft is not None and (setup.draft.mtp_layers > 0 or setup.draft.block_size is not None)
        return written.method in ("suffix", "mtp", "dflash", "dspark", "custom", "unknown") or named
    return written.engine == "sglang" or written.method in ("mtp", "ngram", "suffix", "custom", "unknown")


def _rows_text(written: Written) -> str:
    shape = f", tree with top-k {written.top_k}" if written.top_k > 1 else ""
    return f"K = {written.draft_tokens}, {written.verify_rows} rows a sequence{shape}"
