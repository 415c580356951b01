"""Load sweeps: where the measured speed-up crosses 1, and where the predicted one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scenarios.validate.rows import DATA_FOLDER, Prediction, Problem, read_table

SWEEPS = DATA_FOLDER / "load_sweeps.csv"
COLUMNS = ("source_id", "hardware", "target_model", "method", "k", "dataset", "load_type", "engine", "ids")
Verdict = Literal["hit", "miss", "right never", "false crossing", "not computed"]


@dataclass(frozen=True, slots=True)
class Sweep:
    """One configuration at rising loads. `crosses` and `predicted_crosses` are the number of the step in which S falls
    below 1: 0 is before the first load, i between loads i - 1 and i, None is never.

    `verdict`: a hit is a crossing predicted within one measured step.
    """

    name: str
    source: str
    loads: tuple[float, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...]
    crosses: int | None
    predicted_crosses: int | None
    verdict: Verdict
    reason: str = ""


def sweeps_of(predictions: Sequence[Prediction], path: Path = SWEEPS) -> tuple[tuple[Sweep, ...], tuple[Problem, ...]]:
    """Every sweep of the file beside the predictions of its rows."""
    table = read_table(path, columns=COLUMNS)
    by_id = {one.row.id: one for one in predictions}
    return tuple(_sweep(cells, by_id) for cells in table.rows), table.problems


def crossing(speedups: Sequence[float]) -> int | None:
    """The first step in which S falls below 1; 0: it starts there."""
    return next((index for index, value in enumerate(speedups) if value < 1.0), None)


def _sweep(cells: dict[str, str], by_id: dict[str, Prediction]) -> Sweep:
    name = " ".join(cells[key] for key in ("hardware", "target_model", "method", "k", "dataset") if cells[key])
    found = [by_id[one] for one in cells["ids"].split() if one in by_id]
    rows = sorted((one for one in found if one.row.load_value), key=lambda one: one.row.load_value or 0.0)
    loads = tuple(one.row.load_value or 0.0 for one in rows)
    measured = tuple(one.row.speedup or 0.0 for one in rows)
    missing = next((one.reason for one in rows if one.status != "computed"), "" if rows else "its rows are not given")
    predicted = tuple(one.speedup for one in rows)
    actual = crossing(measured)
    if missing:
        return Sweep(name, cells["source_id"], loads, measured, (), actual, None, "not computed", missing)
    guess = crossing(predicted)
    return Sweep(name, cells["source_id"], loads, measured, predicted, actual, guess, _verdict(actual, guess))


def _verdict(actual: int | None, guess: int | None) -> Verdict:
    if actual is None:
        return "right never" if guess is None else "false crossing"
    return "hit" if guess is not None and abs(guess - actual) <= 1 else "miss"
