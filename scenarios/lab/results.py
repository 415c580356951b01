"""A cell as JSON and back, and the tables that are computed from cells."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrate.lab.cells import Cell
from calibrate.lab.rounds import Estimate, spearman
from simulator.matchers.counts import RoundCounts


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell with its names."""

    slice_name: str
    task: str
    licence: str
    temperature: float
    cell: Cell


Groups = dict[tuple[int, int], RoundCounts]
ESTIMATES = ("entropy_nats", "first", "length", "overlap")
ENDS = ("mean", "low", "high")
GROUPS = ("by_context_tokens", "by_depth_tokens")


def cell_to_json(result: CellResult) -> dict[str, Any]:
    """Everything counted, as integers, with what follows from them."""
    cell = result.cell
    content: dict[str, Any] = {
        "slice": result.slice_name,
        "task": result.task,
        "licence": result.licence,
        "temperature": result.temperature,
        "answers": cell.answers,
        "looping_answers": cell.looping_answers,
        "rounds_by_drafted_accepted": _table(cell.counts),
        "conditional": [_number(share) for share in cell.counts.conditional],
        "per_position": [_number(share) for share in cell.counts.per_position],
    }
    for name in ESTIMATES:
        content[name] = _estimate(getattr(cell, name))
    for name in GROUPS:
        groups: Groups = getattr(cell, name)
        content[name] = [{"from": low, "to": high, "rounds": _table(group)} for (low, high), group in groups.items()]
    return content


def cell_from_json(content: dict[str, Any]) -> CellResult:
    """The same back."""
    cell = Cell(
        counts=_counts(content["rounds_by_drafted_accepted"]),
        entropy_nats=_estimate_back(content["entropy_nats"]),
        first=_estimate_back(content["first"]),
        length=_estimate_back(content["length"]),
        overlap=None if content["overlap"] is None else _estimate_back(content["overlap"]),
        by_context_tokens=_groups_back(content["by_context_tokens"]),
        by_depth_tokens=_groups_back(content["by_depth_tokens"]),
        answers=content["answers"],
        looping_answers=content["looping_answers"],
    )
    return CellResult(content["slice"], content["task"], content["licence"], content["temperature"], cell)


def entropy_correlation(cells: tuple[CellResult, ...], temperature: float) -> tuple[float, int]:
    """Spearman's correlation of position-1 acceptance with entropy over slices, and how many slices."""
    chosen = [each.cell for each in cells if each.temperature == temperature and np.isfinite(each.cell.first.mean)]
    entropy = np.array([cell.entropy_nats.mean for cell in chosen])
    return spearman(entropy, np.array([cell.first.mean for cell in chosen])), len(chosen)


def table_csv(cells: tuple[CellResult, ...]) -> str:
    """One row a cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    most = max(cell.cell.counts.draft_tokens for cell in cells)
    positions = [f"conditional_{index}" for index in range(1, most + 1)]
    spread = [f"{name}{end}" for name in ESTIMATES for end in ("", "_low", "_high")]
    writer.writerow(["slice", "task", "temperature", "answers", "rounds", "looping_answers", *spread, *positions])
    for each in cells:
        cell = each.cell
        numbers = [value for name in ESTIMATES for value in _row(getattr(cell, name))]
        row = [each.slice_name, each.task, each.temperature, cell.answers, cell.counts.rounds, cell.looping_answers]
        writer.writerow([*row, *numbers, *(_number(share) for share in cell.counts.conditional)])
    return text.getvalue()


def _row(estimate: Estimate | None) -> list[float | None]:
    return [None] * 3 if estimate is None else [_number(part) for part in (estimate.mean, estimate.low, estimate.high)]


def _table(counts: RoundCounts) -> list[list[int]]:
    return counts.by_drafted_accepted.tolist()


def _counts(table: list[list[int]]) -> RoundCounts:
    return RoundCounts(np.array(table, dtype=np.int64), without_bonus=0)


def _estimate(estimate: Estimate | None) -> dict[str, float | None] | None:
    return None if estimate is None else dict(zip(ENDS, _row(estimate), strict=True))


def _estimate_back(content: dict[str, float | None]) -> Estimate:
    mean, low, high = (float("nan") if value is None else value for value in map(content.__getitem__, ENDS))
    return Estimate(mean, low, high)


def _groups_back(content: list[dict[str, Any]]) -> Groups:
    return {(each["from"], each["to"]): _counts(each["rounds"]) for each in content}


def _number(value: float) -> float | None:
    """Six digits; None where nothing was counted."""
    return round(float(value), 6) if np.isfinite(value) else None
