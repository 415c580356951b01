"""The token budget of a step against batch x (K + 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup

_BUDGET_FLAG = {"vllm": "--max-num-batched-tokens", "trtllm": "max_num_tokens", "llamacpp": "--batch-size"}
_SMALL_ROOM_FRACTION = 0.05
_LLAMACPP_DEFAULT = 2048


@final
@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A verifying sequence costs K + 1 tokens of the step's budget; where the budget ends, drafts are cut."""

    topic: ClassVar[Topic] = Topic("token budget", sources.VLLM_SCHEDULER)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where one sequence does not fit, warn where the expected batch does not."""
        written, budget = setup.written, step_budget(setup)
        flag = _BUDGET_FLAG.get(written.engine)
        if written.verify_rows is None or budget is None or flag is None:
            return
        rows = written.verify_rows + draft_slots(setup)
        if rows > budget:
            yield self.topic.stops(
                "a single sequence's drafts exceed the budget of a step",
                f"K + 1 = {rows} tokens > {budget:,}",
                f"raise {flag} above {rows}, or lower K",
            )
            return
        batch = setup.batch
        if batch is None:
            yield self.topic.passes("no batch is given", f"{budget:,} tokens hold {budget // rows:,} x {rows}")
            return
        yield self._of_batch(batch, rows, budget, flag)

    def _of_batch(self, batch: int, rows: int, budget: int, flag: str) -> Finding:
        need, room = batch * rows, budget - batch * rows
        number = f"{batch:,} sequences x {rows} = {need:,} tokens of {budget:,}"
        if room < 0:
            return self.topic.warns(
                f"the full batch does not fit one step: drafts are cut for {batch - budget // rows:,} sequences, "
                "and no prompt is read meanwhile",
                number,
                f"raise {flag} to at least {need:,} plus a prompt chunk, or lower K or the number of sequences",
            )
        if room < _SMALL_ROOM_FRACTION * budget:
            return self.topic.warns(
                "at the full batch almost nothing of the step is left for prompts: TTFT grows",
                f"{number}, {room:,} left",
                f"raise {flag}, or lower K or the number of sequences",
            )
        return self.topic.passes("the batch fits one step", number)


@final
@dataclass(frozen=True, slots=True)
class BudgetHoldsSequences:
    """vLLM refuses a budget below the number of sequences."""

    topic: ClassVar[Topic] = Topic("budget and sequences", sources.VLLM_SCHEDULER)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where both are given and contradict each other."""
        budget, cap = setup.written.max_batched_tokens, setup.written.max_sequences
        if setup.written.engine == "vllm" and budget is not None and cap is not None and budget < cap:
            yield self.topic.stops(
                "the engine refuses a token budget below the number of sequences",
                f"{budget:,} < {cap:,}",
                "raise --max-num-batched-tokens or lower --max-num-seqs",
            )


def step_budget(setup: Setup) -> int | None:
    """Tokens of one step, given or the engine's default on this GPU; None where neither is known."""
    written = setup.written
    if written.engine == "sglang":
        return None
    if written.max_batched_tokens is not None:
        return written.max_batched_tokens
    if written.engine == "llamacpp":
        return _LLAMACPP_DEFAULT
    if written.engine == "vllm" and setup.profile is not None and setup.gpu is not None:
        return setup.profile.scheduler.tier(setup.gpu).max_batched_tokens
    return None


def draft_slots(setup: Setup) -> int:
    """Further rows of vLLM's input budget per sequence: 1 for a draft model, K for a parallel one."""
    written = setup.written
    if written.engine != "vllm":
        return 0
    if written.method == "pard":
        return written.draft_tokens or 0
    return 1 if written.method == "draft_model" else 0
