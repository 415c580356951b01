"""Acceptance banks: one measured round a row, `commits,category,a0,a1,…`, as written by calibration runs of drafters.

`commits` is how many drafts of the round were accepted, `category` the kind of request, and `a0…` a signal per draft
position in 0..1: the drafter's confidence, or 1 where the draft was accepted (an oracle). Only `commits` says what was
accepted; the signals are kept for controllers that look at them.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios.notation import nearest
from simulator.acceptance import PerPositionAcceptance

LEADING_COLUMNS = ("commits", "category")


@dataclass(frozen=True, slots=True)
class AcceptanceBank:
    """Measured rounds.

    Attributes
    ----------
    commits : (rounds,)
        Accepted drafts, bonus token left out.
    category_id : (rounds,)
        Index into `categories`.
    signals : (rounds, K)
        What the drafter said before verification, by draft position.
    """

    name: str
    categories: tuple[str, ...]
    commits: NDArray[np.int64]
    category_id: NDArray[np.int64]
    signals: NDArray[np.float64]

    @property
    def draft_tokens(self) -> int:
        """K of the rounds."""
        return self.signals.shape[1]

    def rounds_of(self, category: str | None = None) -> NDArray[np.int64]:
        """Accepted drafts of the rounds of one category, or of all."""
        if category is None:
            return self.commits
        if category not in self.categories:
            raise InvalidInput(
                f"acceptance bank {self.name}: has no category {category!r}; {nearest(category, self.categories)}"
            )
        return self.commits[self.category_id == self.categories.index(category)]

    def histogram(self, category: str | None = None) -> NDArray[np.int64]:
        """Rounds by accepted drafts, `(K + 1,)`."""
        return np.bincount(self.rounds_of(category), minlength=self.draft_tokens + 1)

    def acceptance_length(self, category: str | None = None) -> float:
        """Tokens a round, bonus included."""
        return 1.0 + float(self.rounds_of(category).mean())

    def acceptance(self, category: str | None = None) -> PerPositionAcceptance:
        """The measured shares by position, unconditional, for the simulator."""
        counts = self.histogram(category)
        at_least = counts[::-1].cumsum()[::-1]
        return PerPositionAcceptance(tuple(float(share) for share in at_least[1:] / at_least[0]))


def read_acceptance_bank(path: Path) -> AcceptanceBank:
    """Read a bank.

    Raises
    ------
    InvalidInput
        A wrong header, a row with too few or too many cells, commits that are no whole number in 0..K, signals outside
        0..1, no rows; the message names line, column and value.
    """
    where = f"acceptance bank {path}"
    rows = read_rows(path, where)
    header = rows[0]
    expected = [*LEADING_COLUMNS, *(f"a{position}" for position in range(len(header) - len(LEADING_COLUMNS)))]
    if len(header) <= len(LEADING_COLUMNS) or header != expected:
        raise InvalidInput(
            f"{where}: the header must be commits,category,a0,a1,…, got {','.join(header)[:80]!r}; rename"
        )
    names: dict[str, int] = {}
    commits: list[int] = []
    category_id: list[int] = []
    signals: list[list[float]] = []
    for line, row in enumerate(rows[1:], start=2):
        place = f"{where}: line {line}"
        if len(row) != len(header):
            raise InvalidInput(f"{place} has {len(row)} cells, the header {len(header)}; the file looks cut off")
        count = whole(row[0], f"{place}: commits")
        if count > len(header) - len(LEADING_COLUMNS):
            raise InvalidInput(
                f"{place}: commits must be in 0..{len(header) - len(LEADING_COLUMNS)} (one signal column a draft), got "
                f"{count}; the bonus token is not counted"
            )
        commits.append(count)
        category_id.append(names.setdefault(row[1].strip(), len(names)))
        signals.append([_signal(cell, f"{place}: {name}") for cell, name in zip(row[2:], header[2:], strict=True)])
    if not commits:
        raise InvalidInput(f"{where}: has a header but no rounds; give a file with at least one round")
    return AcceptanceBank(
        name=path.name,
        categories=tuple(names),
        commits=np.array(commits, dtype=np.int64),
        category_id=np.array(category_id, dtype=np.int64),
        signals=np.array(signals, dtype=np.float64),
    )


def read_rows(path: Path, where: str) -> list[list[str]]:
    """Cells of a CSV file with a header, blank lines left out."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if any(cell.strip() for cell in row)]
    except OSError as error:
        raise InvalidInput(f"{where}: cannot be read ({error.strerror}); give a readable file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{where}: is not UTF-8 text; save it as UTF-8") from error
    except csv.Error as error:
        raise InvalidInput(f"{where}: is not CSV ({error}); correct that line") from error
    if not rows:
        raise InvalidInput(f"{where}: is empty; give a file with a header and rows")
    return rows


def whole(text: str, what: str) -> int:
    """A whole number of at least 0."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise InvalidInput(f"{what} must be a whole number of at least 0, got {text!r}; correct the line")
    return value


def _signal(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise InvalidInput(f"{what} must be in 0..1, got {text!r}; 0 where the drafter stopped before that position")
    return value
