"""Rows of the published measurements that ship, for overlays: always with their ids."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from roofline.errors import InvalidInput

FOLDER = Path(__file__).parent.parent / "data" / "validation"


def rows_by_id(file: str, ids: Iterable[str]) -> list[dict[str, str]]:
    """The rows with these ids, in their order.

    Raises
    ------
    InvalidInput
        The file has no such row: the installation is not whole.
    """
    known = _by_id(file)
    wanted = list(ids)
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InvalidInput(f"{file}: row {missing[0]} is missing; install specdec-sim anew")
    return [known[name] for name in wanted]


def read_rows(file: str) -> list[dict[str, str]]:
    """All rows of a shipped file."""
    return list(_read(file))


@cache
def _read(file: str) -> tuple[dict[str, str], ...]:
    with (FOLDER / file).open(encoding="utf-8", newline="") as stream:
        return tuple(csv.DictReader(stream))


@cache
def _by_id(file: str) -> dict[str, dict[str, str]]:
    return {row["id"]: row for row in _read(file)}


def id_range(prefix: str, first: int, last: int, *, step: int = 1) -> list[str]:
    """Ids like R0140 … R0148."""
    return [f"{prefix}{number:04d}" for number in range(first, last + 1, step)]


def ids_text(ids: Sequence[str]) -> str:
    """Ids for a caption: runs of neighbours as first–last, others one by one."""
    runs: list[list[str]] = []
    for name in ids:
        letter, number = name[0], int(name[1:])
        if runs and runs[-1][-1][0] == letter and int(runs[-1][-1][1:]) == number - 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(run) for run in runs)


def per_position_series(series: Iterable[str]) -> dict[str, list[float]]:
    """Unconditional acceptance by position of published series, p_1 first."""
    found: dict[str, list[float]] = {name: [] for name in series}
    for row in read_rows("per_position.csv"):
        if row["series_id"] in found:
            found[row["series_id"]].append(float(row["p_unconditional"]))
    return found
