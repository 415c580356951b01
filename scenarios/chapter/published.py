"""Measurements of others that rows of the chapter are held against (`published.toml`), each with its source."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from roofline.errors import UnknownName
from scenarios.chapter.judging import Quantity
from scenarios.files import read_toml

FILE = Path(__file__).parent / "published.toml"


def published(name: str) -> Quantity:
    """A measurement by its name in the file.

    Raises
    ------
    UnknownName
        No such entry.
    """
    entries = _entries()
    if name not in entries:
        raise UnknownName(f"published measurement {name!r} does not exist; the names are {', '.join(entries)}")
    entry = entries[name]
    return Quantity(
        name=entry["what"],
        value=float(entry["value"]),
        label="measured",
        unit=entry.get("unit", ""),
        source=f"{entry['row']}: {entry['source']}",
    )


@cache
def _entries() -> dict[str, dict[str, Any]]:
    return read_toml(FILE, what="published measurements")
