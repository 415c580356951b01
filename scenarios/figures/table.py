"""The tidy table behind a figure: one row an observation, every column named with its unit."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

Cell = str | int | float | None
Rows = list[Mapping[str, Cell]]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length by name; None where a row says nothing.

    Every table of a figure has a column `basis`: where the row comes from (`BASES` of `scenarios.figures.words`).
    """

    columns: Mapping[str, tuple[Cell, ...]]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Cell]]) -> Table:
        """From rows that name their cells; columns stand in the order of their first use."""
        listed = [{name: _plain(value) for name, value in row.items()} for row in rows]
        names = dict.fromkeys(name for row in listed for name in row)
        return cls({name: tuple(row.get(name) for row in listed) for name in names})

    def __len__(self) -> int:
        """Rows."""
        return len(next(iter(self.columns.values()), ()))

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Every row by column."""
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))

    def where(self, **equal: Cell) -> Table:
        """The rows that have these values; a column the table lacks is None in all of them."""
        kept = [row for row in self.rows() if all(row.get(name) == value for name, value in equal.items())]
        return Table({name: tuple(row[name] for row in kept) for name in self.columns})

    def values(self, name: str) -> NDArray[np.float64]:
        """A numeric column, NaN for None."""
        return np.array([math.nan if value is None else float(value) for value in self.columns[name]])

    def distinct(self, name: str) -> list[Cell]:
        """Values of a column in the order in which they first stand there, without None."""
        return [value for value in dict.fromkeys(self.columns[name]) if value is not None]

    def one(self, name: str) -> Cell:
        """The cell of the first row; the table must not be empty."""
        return self.columns[name][0]

    def csv(self) -> str:
        """The table as CSV text, numbers with nine significant digits."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows():
            writer.writerow([_written(value) for value in row.values()])
        return stream.getvalue()


def _plain(value: Cell) -> Cell:
    """Numpy scalars as Python's; NaN as None, so that a table equals its copy."""
    if isinstance(value, np.generic):
        return _plain(cast("Cell", value.item()))
    return None if isinstance(value, float) and math.isnan(value) else value


def _written(value: Cell) -> str:
    if value is None:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)
