"""What is assumed where a row says nothing (`priors.toml`), as ranges that draws are taken from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scenarios.files import read_toml
from scenarios.validate.naming import plain_text

DRAWS = 8
"""Alternatives behind an interval, beside the middle of every range."""


@dataclass(frozen=True, slots=True)
class Range:
    """Low, middle and high of an open quantity: its 10 %, 50 % and 90 % quantiles."""

    low: float
    middle: float
    high: float

    def at(self, quantile: float) -> float:
        """Value at a quantile, linear between the three and held at the ends beyond the outer two."""
        if quantile <= 0.5:
            share = max(0.0, (quantile - 0.1) / 0.4)
            return self.low + share * (self.middle - self.low)
        return self.middle + min(1.0, (quantile - 0.5) / 0.4) * (self.high - self.middle)


def quantiles(row_id: str, field: str, *, draws: int = DRAWS) -> tuple[float, ...]:
    """Stratified quantiles of the draws in an order of their own for every row and field: 0.5 first (no draw), then one
    from the middle of each of `draws` equal parts.
    """
    parts = [(part + 0.5) / draws for part in range(draws)]

    def place(part: float) -> str:
        return hashlib.sha256(f"{row_id}|{field}|{part}".encode()).hexdigest()

    return (0.5, *sorted(parts, key=place))


def chosen(options: Sequence[Any], quantile: float) -> Any:
    """The option of a list (the middle first) at a quantile: 0.5 takes the first, draws go through all."""
    return options[0] if quantile == 0.5 else options[min(int(quantile * len(options)), len(options) - 1)]


def lengths_of(dataset: str) -> tuple[Range, Range]:
    """Prompt and answer tokens of a dataset."""
    entry = _entry("lengths", dataset)
    return Range(*map(float, entry["input"])), Range(*map(float, entry["output"]))


def task_of(dataset: str) -> str:
    """Task whose published acceptance a dataset is given."""
    return str(_entry("task", dataset)["name"])


def _entry(kind: str, text: str) -> dict[str, Any]:
    cleaned = plain_text(text)
    return next(entry for entry in _tables()[kind] if re.search(entry["pattern"], cleaned))


@cache
def _tables() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("priors.toml"), what="priors of validation")
