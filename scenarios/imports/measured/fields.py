"""Fields of foreign JSON, checked as they are read: missing is None, of another kind is an error in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of a file; `where` says which, for errors."""

    item: Mapping[str, Any]
    where: str

    def __contains__(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.item.get(key) is not None

    def refuse(self, key: str, needs: str) -> InvalidInput:
        """What to raise about a field."""
        shown = repr(self.item.get(key))
        short = shown if len(shown) <= 60 else f"{shown[:57]}…"
        return InvalidInput(f"{self.where}: {key} must be {needs}, got {short}; correct the field or remove it")

    def number(self, key: str, *, least: float = 0.0, most: float = math.inf) -> float | None:
        """A finite number in a range."""
        value = self.item.get(key)
        if value is None:
            return None
        if not _is_number(value) or not least <= value <= most:
            raise self.refuse(key, _range_text(least, most))
        return float(value)

    def whole(self, key: str, *, least: int = 0) -> int | None:
        """A whole number."""
        value = self.number(key, least=least)
        if value is not None and value != int(value):
            raise self.refuse(key, "a whole number")
        return None if value is None else int(value)

    def text(self, key: str) -> str | None:
        """A text."""
        value = self.item.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refuse(key, "a text")
        return value

    def table(self, key: str) -> Fields | None:
        """An object."""
        value = self.item.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.refuse(key, "an object")
        return Fields(cast("Mapping[str, Any]", value), f"{self.where}: {key}")

    def tables(self, key: str) -> list[Fields]:
        """A list of objects; empty where it is missing."""
        found: list[Fields] = []
        for index, value in enumerate(self._list(key)):
            if not isinstance(value, Mapping):
                raise self.refuse(key, "a list of objects")
            found.append(Fields(cast("Mapping[str, Any]", value), f"{self.where}: {key}[{index}]"))
        return found

    def numbers(self, key: str, *, least: float = 0.0, most: float = math.inf) -> FloatArray | None:
        """A list of finite numbers in a range."""
        if key not in self:
            return None
        values = self._list(key)
        if not all(_is_number(value) and least <= value <= most for value in values):
            raise self.refuse(key, f"a list of numbers, each {_range_text(least, most)}")
        return np.array(values, dtype=np.float64)

    def _list(self, key: str) -> list[Any]:
        value = self.item.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(key, "a list")
        return cast("list[Any]", value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _range_text(least: float, most: float) -> str:
    if math.isfinite(most):
        return f"a number from {least:g} to {most:g}"
    return f"a finite number of at least {least:g}" if math.isfinite(least) else "a finite number"
