"""K by batch size or by measured acceptance: ranges the engine refuses, loads at which speculation is off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast, final

from roofline.errors import InvalidInput
from roofline.units import ms_from_seconds
from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup

Row = tuple[int, int, int]


@final
@dataclass(frozen=True, slots=True)
class BatchSchedule:
    """vLLM's num_speculative_tokens_per_batch_size: inclusive ranges from 1 on, without overlap; K = 0 is allowed."""

    topic: ClassVar[Topic] = Topic("K by batch size", sources.VLLM_DYNAMIC)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for what the engine refuses; warn where K is capped, or 0 at this load."""
        rows = batch_rows(setup.written.speculative.get("num_speculative_tokens_per_batch_size"))
        if not rows:
            return
        problem = _problem(rows)
        if problem is not None:
            yield self.topic.stops(problem, _shown(rows), "write inclusive [first, last, K] rows from 1 on, in order")
            return
        k = setup.written.draft_tokens
        above = [row for row in rows if k is not None and row[2] > k]
        if above:
            yield self.topic.warns(
                "rows ask for more drafts than num_speculative_tokens, which caps them",
                f"K = {max(row[2] for row in above)} > {k}",
                f"raise num_speculative_tokens to {max(row[2] for row in above)}, or lower the rows",
            )
        yield from self._at_load(setup, rows)

    def _at_load(self, setup: Setup, rows: list[Row]) -> Iterator[Finding]:
        load = setup.load.concurrency
        used = None if load is None else k_at(rows, load)
        number = _shown(rows) if used is None else f"K = {used} at batch {load}"
        tax = _tax_text(setup)
        if used == 0:
            yield self.topic.warns(
                f"speculation is off at this load but stays loaded: {tax} a step and its memory buy nothing",
                number,
                "serve without speculation for this load",
            )
        elif any(row[2] == 0 for row in rows):
            yield self.topic.passes(f"ranges are in order; K = 0 is not free: {tax} a step", number)
        else:
            yield self.topic.passes("ranges are in order", number)


@final
@dataclass(frozen=True, slots=True)
class AdaptiveSteps:
    """SGLang's adaptive drafting: a chain of EAGLE or EAGLE-3 only, one config object."""

    topic: ClassVar[Topic] = Topic("adaptive drafting", sources.SGLANG_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for another method, a tree, or a config that is no object of candidate steps."""
        written = setup.written
        adaptive = written.switch("speculative-adaptive") or "speculative-adaptive-config" in written.flags
        if written.engine != "sglang" or not adaptive:
            return
        if written.method not in ("eagle", "eagle3", "mtp") or written.top_k != 1:
            yield self.topic.stops(
                "adaptive drafting needs EAGLE or EAGLE3 with a chain",
                f"{written.method_text}, topk {written.top_k}",
                "use --speculative-eagle-topk 1 with EAGLE or EAGLE3, or drop --speculative-adaptive",
            )
            return
        steps = candidate_steps(written.flags.get("speculative-adaptive-config"))
        yield self.topic.passes("the number of steps follows the measured acceptance", f"candidates {steps}")


def batch_rows(value: object) -> list[Row]:
    """Rows of a schedule, as written.

    Raises
    ------
    InvalidInput
        Not a list of three whole numbers each.
    """
    if value is None:
        return []
    rows = cast("list[Any]", value) if isinstance(value, list) else [value]
    result: list[Row] = []
    for row in rows:
        entries = cast("list[Any]", row) if isinstance(row, list | tuple) else []
        if len(entries) != 3 or not all(isinstance(part, int) and not isinstance(part, bool) for part in entries):
            raise InvalidInput(
                f"num_speculative_tokens_per_batch_size rows must be [first, last, K], got {row!r}; write them like "
                "[[1, 8, 4], [9, 64, 2]]"
            )
        result.append((entries[0], entries[1], entries[2]))
    return result


def k_at(rows: list[Row], batch: int) -> int:
    """K at a batch: gaps keep the previous row's, the tail the last one's."""
    return next((row[2] for row in reversed(rows) if row[0] <= batch), rows[0][2])


def candidate_steps(text: str | None) -> str:
    """The candidates by batch size of an adaptive config.

    Raises
    ------
    InvalidInput
        Not JSON, or a batch size without candidates.
    """
    if not text:
        return "of the engine: 1: [1, 3, 5, 7], 8: [0, 1, 3], 32: [0, 1], 64: [0]"
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"--speculative-adaptive-config must be JSON ({error.msg} at {error.pos}); correct it"
        ) from error
    if not isinstance(content, dict):
        raise InvalidInput('--speculative-adaptive-config must be an object like {"1": {"candidate_steps": [1, 3]}}')
    shown: list[str] = []
    for batch, entry in cast("dict[str, Any]", content).items():
        steps = cast("dict[str, Any]", entry).get("candidate_steps") if isinstance(entry, dict) else None
        if not isinstance(steps, list) or not steps:
            raise InvalidInput(f"--speculative-adaptive-config: batch {batch!r} needs candidate_steps, a list of steps")
        shown.append(f"{batch}: {steps}")
    return ", ".join(shown)


def _problem(rows: list[Row]) -> str | None:
    expected = 1
    for index, (first, last, k) in enumerate(rows):
        if index == 0 and first != 1:
            return "the first range must start at batch 1"
        if last < first or k < 0:
            return f"the range [{first}, {last}, {k}] is empty or its K negative"
        if first < expected:
            return f"the range [{first}, {last}, {k}] overlaps the one before it"
        expected = last + 1
    return None


def _shown(rows: list[Row]) -> str:
    return ", ".join(f"[{first}, {last}, {k}]" for first, last, k in rows)


def _tax_text(setup: Setup) -> str:
    if setup.profile is None:
        return "a tax"
    constant = setup.profile.host.idle_speculation_s
    return f"about {ms_from_seconds(constant.value):.1f} ms ({constant.label})"
