"""Golden data of the figures: `python -m tests.scenarios.figures.golden` writes it and prints the largest changes."""

import csv
import math
import sys
from pathlib import Path

from scenarios.figures import FIGURES
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.course import compute
from scenarios.figures.table import Table

FOLDER = Path(__file__).parents[2] / "golden" / "figures"
RTOL = 1e-6
SIMULATED_RTOL = 0.02
"""The last bit of a step's time may differ between machines, and with it which of two requests is served first."""
_SIMULATED = ("simulated",)


def read_golden(name: str) -> list[dict[str, str]]:
    """Rows as they were written; none where the figure is new."""
    file = FOLDER / f"{name}.csv"
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def differences(name: str, data: Table) -> list[tuple[float, str]]:
    """(relative change, where) of every cell that is not as it was; infinite where there is nothing to compare."""
    before = read_golden(name)
    if len(before) != len(data) or (before and list(before[0]) != list(data.columns)):
        return [(math.inf, f"{name}: {len(before)} rows before, {len(data)} now, or other columns")]
    found = []
    for number, (old, row) in enumerate(zip(before, data.rows(), strict=True)):
        rtol = SIMULATED_RTOL if row["basis"] in _SIMULATED or name == "predicted_vs_measured" else RTOL
        for column, value in row.items():
            change = _change(old[column], value)
            if change > rtol:
                found.append((change, f"{name}, row {number}, {column}: {old[column]} before, {value} now"))
    return sorted(found, reverse=True)


def _change(old: str, value: object) -> float:
    if value is None or isinstance(value, str):
        return 0.0 if old == (value or "") else math.inf
    if not old:
        return math.inf
    before = float(old)
    return 0.0 if before == value else abs(value - before) / max(abs(before), abs(value))


def main() -> None:
    """Rewrite all files, or those named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        data = compute(name, Assumptions(), seed=0)
        changed = differences(name, data)
        print(
            f"{name}: {len(data)} rows, {len(changed)} cells changed", *(where for _, where in changed[:1]), sep="\n  "
        )
        (FOLDER / f"{name}.csv").write_text(data.csv(), encoding="utf-8", newline="")


if __name__ == "__main__":
    main()
