"""Captured graphs against batch x (K + 1), and engines told to run eagerly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.rules.caps import attention_workers
from scenarios.check.setup import Setup

_GRID = (1, 2, 4, *range(8, 249, 8), *range(256, 1025, 16))
"""vLLM's sizes, in tokens; the last are 512, 1024 on data-centre Blackwell."""
_DEFAULT_LIMIT = 512
WIDEST_BATCH = (0, 29)
"""From about this release on, vLLM captures the widest uniform decode batch by itself (PR 50488)."""
FIRST_OF_THIS_RUNNER = (0, 9)
"""V0 captured by sequences and verified otherwise: nothing is said about it."""
_WIDTH_COUNTED = (0, 13)
"""Before it, the default list ended at twice the number of sequences, whatever K."""


@final
@dataclass(frozen=True, slots=True)
class CapturedGraphs:
    """Steps above the largest captured size run eagerly: the full batch is the slowest one."""

    topic: ClassVar[Topic] = Topic("captured graphs", sources.VLLM_GRAPHS)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the full batch is larger than the largest graph."""
        written, batch = setup.written, _batch_of_a_worker(setup)
        if not setup.speculates or written.verify_rows is None or written.eager or written.engine == "llamacpp":
            return
        width = written.verify_rows if written.graph_unit == "tokens" else 1
        largest, why = _largest(setup, batch, width)
        if largest is None:
            return
        if batch is None:
            unit = "tokens" if written.graph_unit == "tokens" else "sequences"
            yield self.topic.passes(
                "no batch is given", f"graphs up to {largest:,} {unit}: {largest // width:,} sequences"
            )
            return
        number = f"{batch:,} x {width} = {batch * width:,} against {largest:,} {written.graph_unit}"
        if batch * width > largest:
            yield self.topic.warns(
                f"the full batch runs outside the graphs ({why}): an eager verification is several times slower",
                number,
                f"capture it: {_fix(setup, batch * width)}",
            )
        else:
            yield self.topic.passes("the full batch is captured", number)


@final
@dataclass(frozen=True, slots=True)
class EagerDrafting:
    """A round launches the target once and the draft K times; without graphs each pays its launches."""

    topic: ClassVar[Topic] = Topic("eager drafting", sources.VLLM_EAGER)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where graphs are switched off for the target or for the draft alone."""
        written = setup.written
        if not setup.speculates or written.engine == "llamacpp":
            return
        passes = 1 if written.method in ("ngram", "suffix") else 1 + (written.draft_tokens or 1)
        if written.eager:
            yield self.topic.warns(
                "graphs are off: every pass of a round pays its kernel launches on the host",
                f"{passes} passes a round, none captured",
                "remove --enforce-eager" if written.engine == "vllm" else "capture graphs",
            )
        elif written.speculative.get("enforce_eager") is True and written.method not in ("ngram", "suffix"):
            yield self.topic.warns(
                "the draft runs without graphs, and its passes are shorter than their launches",
                f"{passes - 1} draft passes a round, none captured",
                "remove enforce_eager from the speculative config",
            )


def _batch_of_a_worker(setup: Setup) -> int | None:
    """Attention workers of SGLang capture and run their share of the batch each."""
    return None if setup.batch is None else -(-setup.batch // attention_workers(setup))


def _largest(setup: Setup, batch: int | None, width: int) -> tuple[int | None, str]:
    """The largest captured size, and why it is that; None where the engine's own choice holds any batch."""
    written = setup.written
    if written.graph_sizes is not None:
        return max(written.graph_sizes, default=0), "the list given ends below it"
    if written.graph_limit is not None:
        if written.engine != "vllm":
            return written.graph_limit, "the limit given is below it"
        return max((size for size in _GRID if size <= written.graph_limit), default=0), (
            f"the list up to {written.graph_limit} ends on the grid of 8"
        )
    if written.engine == "sglang" and setup.gpu is not None and setup.profile is not None and batch is not None:
        sizes = setup.profile.graph_tokens(setup.gpu, max_sequences=batch, draft_tokens=width - 1)
        return (max(sizes), "the engine's default list ends below it") if sizes else (None, "")
    if written.engine != "vllm" or written.max_sequences is None:
        return None, ""
    return _default(setup, written.max_sequences, width)


def _default(setup: Setup, sequences: int, width: int) -> tuple[int | None, str]:
    """The list of vLLM itself: ends at 2 x sequences at first, off the grid until the widest batch was added."""
    full = sequences * width
    if (
        full > _DEFAULT_LIMIT
        or setup.before(*FIRST_OF_THIS_RUNNER)
        or (setup.release is not None and setup.release >= WIDEST_BATCH)
    ):
        return None, ""
    if setup.before(*_WIDTH_COUNTED):
        limit = min(2 * sequences, _DEFAULT_LIMIT)
        return max(size for size in _GRID if size <= limit), "this release's list ends at twice the sequences"
    captured = max(size for size in _GRID if size <= full)
    if captured == full or full <= 8:
        return full, ""
    return captured, "the list may be cut at the last multiple of 8 below it in releases before 0.29"


def _fix(setup: Setup, tokens: int) -> str:
    match setup.written.engine:
        case "vllm":
            return f"--cudagraph-capture-sizes with {tokens} in the list, or a smaller --max-num-seqs"
        case "sglang":
            return f"--cuda-graph-max-bs {tokens}, or a smaller --max-running-requests"
        case _:
            return f"cuda_graph_config.max_batch_size: {tokens} with enable_padding: true"
