"""How many requests run at once: caps that speculation lowers, and loads above the cap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.rules.budget import step_budget
from scenarios.check.setup import Setup

SGLANG_CAP = 48
"""Running requests where --max-running-requests is not given and any speculative algorithm is on."""
_BLOCK_METHODS = ("dflash", "dspark")


@final
@dataclass(frozen=True, slots=True)
class RunningCap:
    """Speculation lowers the number of running requests in SGLang; above the cap, requests queue."""

    topic: ClassVar[Topic] = Topic("running requests", sources.SGLANG_CAP)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the load exceeds the cap."""
        written = setup.written
        workers = attention_workers(setup)
        lowered = written.engine == "sglang" and setup.speculates and written.max_sequences is None
        cap = SGLANG_CAP if lowered else running_cap(setup)
        if cap is None or not (setup.speculates or setup.load.concurrency):
            return
        each = f", {cap // workers} for each of {workers} workers" if workers > 1 else ""
        load = setup.load.concurrency
        if load is not None and load > cap:
            cause = "speculation lowers the cap, and " if lowered else ""
            yield self.topic.warns(
                f"{cause}{load - cap:,} of {load:,} requests wait: throughput is flat from {cap:,} on and TTFT grows",
                f"{load:,} in flight > {cap:,}{each}",
                f"give {_cap_flag(setup)} {load} (and captured graphs for that batch), or count on the queue",
            )
        else:
            named = "the engine's cap with speculation on" if lowered else "the cap"
            yield self.topic.passes(f"{named} holds the load" if load else f"{named}; give --concurrency to compare",
                                    f"{load or '?'} in flight, cap {cap:,}{each}")  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class ActiveSequences:
    """Block drafters of vLLM reserve their look-ahead in the budget, which caps the active sequences."""

    topic: ClassVar[Topic] = Topic("active sequences", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the batch exceeds budget // look-ahead."""
        written, budget, batch = setup.written, step_budget(setup), setup.batch
        if written.engine != "vllm" or written.method not in _BLOCK_METHODS or written.draft_tokens is None:
            return
        if budget is None or batch is None:
            return
        lookahead = written.draft_tokens + (1 if written.method == "dflash" else 0)
        active = budget // lookahead
        if batch > active:
            yield self.topic.warns(
                "the drafter's look-ahead caps the active sequences below the batch",
                f"{budget:,} // {lookahead} = {active:,} < {batch:,}",
                f"raise --max-num-batched-tokens to {batch * lookahead:,}, or lower K",
            )


@final
@dataclass(frozen=True, slots=True)
class ConcurrencyLimit:
    """TensorRT-LLM's max_concurrency switches speculation off above a batch."""

    topic: ClassVar[Topic] = Topic("speculation off above a load", sources.TRTLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the load is above it: the draft's memory buys nothing."""
        limit = setup.written.speculative.get("max_concurrency")
        batch = setup.batch
        if setup.written.engine != "trtllm" or not isinstance(limit, int) or batch is None:
            return
        if setup.load.concurrency is not None and batch > limit:
            yield self.topic.warns(
                "speculation is off at this load, but its memory is held",
                f"batch {batch:,} > max_concurrency {limit:,}",
                "remove speculative_config for this load, or raise max_concurrency if `specdec decide` says it pays",
            )
        else:
            yield self.topic.passes("speculation is on up to its limit", f"max_concurrency {limit:,}")


def running_cap(setup: Setup) -> int | None:
    """Sequences that run at once, given or the engine's default on this GPU."""
    if setup.written.max_sequences is not None:
        return setup.written.max_sequences
    if setup.written.engine == "vllm" and setup.profile is not None and setup.gpu is not None:
        return setup.profile.scheduler.tier(setup.gpu).max_sequences
    return None


def attention_workers(setup: Setup) -> int:
    """SGLang under attention data parallelism divides the cap over its workers."""
    written = setup.written
    return written.data if written.engine == "sglang" and written.switch("enable-dp-attention") else 1


def _cap_flag(setup: Setup) -> str:
    return {
        "vllm": "--max-num-seqs",
        "sglang": "--max-running-requests",
        "trtllm": "max_batch_size",
        "llamacpp": "--parallel",
    }[setup.written.engine]
