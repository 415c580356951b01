"""Measured step times, `batch_size,num_draft_tokens,step_seconds`, and how they correct a computed cost table.

`num_draft_tokens` counts the root, as SGLang does: 1 is plain decoding, K + 1 a round with K drafts. `step_seconds` is
the whole round of a batch that only decodes: draft, verify, sample, host.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofline.cost import round_cost
from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from scenarios.imports.acceptance_banks import read_rows, whole

FloatArray = NDArray[np.float64]
COLUMNS = ("batch_size", "num_draft_tokens", "step_seconds")


@dataclass(frozen=True, slots=True)
class MeasuredStepCosts:
    """Seconds of a round by drafts and batch, on a full grid.

    Attributes
    ----------
    batches : (B,)
        Measured batch sizes, rising.
    drafts : (D,)
        Measured K, rising; the first is 0, plain decoding.
    round_s : (D, B)
        Seconds of a round.
    """

    name: str
    batches: NDArray[np.int64]
    drafts: NDArray[np.int64]
    round_s: FloatArray

    def seconds(self, draft_tokens: int, batch: NDArray[np.float64]) -> FloatArray:
        """Linear between measured points in K and batch; below the smallest batch its time, above the largest NaN."""
        upper = int(np.searchsorted(self.drafts, draft_tokens))
        if upper == len(self.drafts):
            raise InvalidInput(
                f"step costs {self.name}: K = {draft_tokens} was not measured, the largest is {self.drafts[-1]}; "
                "measure it or lower K"
            )
        lower = upper if self.drafts[upper] == draft_tokens else upper - 1
        span = max(1, int(self.drafts[upper] - self.drafts[lower]))
        weight = (draft_tokens - int(self.drafts[lower])) / span
        between: FloatArray = (1.0 - weight) * self.round_s[lower] + weight * self.round_s[upper]
        return np.interp(batch, self.batches, between, right=math.nan)

    def applied_to(self, table: StepCostTable, *, context_tokens: int) -> StepCostTable:
        """A computed table whose decode rounds take the measured time at that context.

        Prefill, mixed steps and how attention grows with context stay computed; batch and K end where the measurement
        does. The difference at `context_tokens` (the mean context of the measured batch) is added to each round.

        Raises
        ------
        InvalidInput
            A measured round is shorter than what the table computes for its attention alone, so the measurement is of
            another machine or context.
        """
        sequences = min(table.max_sequences, int(self.batches[-1]))
        drafts = min(table.max_draft_tokens, int(self.drafts[-1]))
        plain_s = table.sample_plain_s[: sequences + 1].copy()
        chain_s = table.draft_chain_s[: drafts + 1, : sequences + 1].copy()
        for draft_tokens in range(drafts + 1):
            feasible = min(sequences, table.max_tokens // (draft_tokens + 1))
            batch = np.arange(1.0, feasible + 1.0)
            measured_s = self.seconds(draft_tokens, batch)
            change_s = measured_s - _computed_s(table, batch, draft_tokens, context_tokens=context_tokens)
            shortest_s = _computed_s(table, batch, draft_tokens, context_tokens=0) + change_s
            self._check(measured_s, shortest_s, draft_tokens=draft_tokens)
            row = plain_s if draft_tokens == 0 else chain_s[draft_tokens]
            row[1 : feasible + 1] += change_s
            row[feasible + 1 :] += change_s[-1]  # never a whole round: the token budget cuts these
        return dataclasses.replace(
            table,
            label="measured",
            sample_plain_s=plain_s,
            draft_chain_s=chain_s,
            draft_passes=table.draft_passes[: drafts + 1],
            first_pass_extra_tokens=table.first_pass_extra_tokens[: drafts + 1],
        )

    def _check(self, measured_s: FloatArray, shortest_s: FloatArray, *, draft_tokens: int) -> None:
        """At no context at all a corrected round must still take time."""
        if not (shortest_s > 0.0).all():
            worst = int(np.argmin(shortest_s))
            raise InvalidInput(
                f"step costs {self.name}: {1e3 * measured_s[worst]:.3g} ms at batch {worst + 1} and K = {draft_tokens} "
                "is less than the computed attention alone; give the context the table was measured at, or this GPU's "
                "own measurement"
            )


def _computed_s(table: StepCostTable, batches: FloatArray, draft_tokens: int, *, context_tokens: int) -> FloatArray:
    return np.array(
        [
            round_cost(table, batch=int(batch), context_tokens=context_tokens, draft_tokens=draft_tokens).round_s
            for batch in batches
        ]
    )


def read_step_costs(path: Path) -> MeasuredStepCosts:
    """Read a table of measured step times.

    Raises
    ------
    InvalidInput
        A wrong header, numbers that are not positive, a pair given twice, a grid with holes, no plain decoding.
    """
    where = f"step costs {path}"
    rows = read_rows(path, where)
    if tuple(rows[0]) != COLUMNS:
        raise InvalidInput(f"{where}: the header must be {','.join(COLUMNS)}, got {','.join(rows[0])[:80]!r}; rename")
    points: dict[tuple[int, int], float] = {}
    for line, row in enumerate(rows[1:], start=2):
        place = f"{where}: line {line}"
        if len(row) != len(COLUMNS):
            raise InvalidInput(f"{place} has {len(row)} cells instead of {len(COLUMNS)}; the file looks cut off")
        batch, width = whole(row[0], f"{place}: batch_size"), whole(row[1], f"{place}: num_draft_tokens")
        if batch < 1 or width < 1:
            raise InvalidInput(
                f"{place}: batch_size and num_draft_tokens count from 1 (1 is plain decoding), got {batch} and "
                f"{width}; num_draft_tokens is K + 1"
            )
        if points.setdefault((width - 1, batch), seconds := _seconds(row[2], f"{place}: step_seconds")) != seconds:
            raise InvalidInput(f"{place}: batch {batch} with {width} was given before with another time; keep one")
    return _on_a_grid(points, path.name, where)


def _on_a_grid(points: dict[tuple[int, int], float], name: str, where: str) -> MeasuredStepCosts:
    drafts, batches = sorted({key[0] for key in points}), sorted({key[1] for key in points})
    if not points or drafts[0] != 0:
        raise InvalidInput(
            f"{where}: has no rows with num_draft_tokens 1, plain decoding, to compare with; measure it at the same "
            "batches"
        )
    holes = [(batch, draft) for draft in drafts for batch in batches if (draft, batch) not in points]
    if holes:
        raise InvalidInput(
            f"{where}: batch {holes[0][0]} with num_draft_tokens {holes[0][1] + 1} is missing; measure every "
            "num_draft_tokens at every batch"
        )
    round_s = np.array([[points[draft, batch] for batch in batches] for draft in drafts])
    round_s.setflags(write=False)
    return MeasuredStepCosts(name, np.array(batches, dtype=np.int64), np.array(drafts, dtype=np.int64), round_s)


def _seconds(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise InvalidInput(f"{what} must be a positive number of seconds, got {text!r}; correct the line")
    return value
