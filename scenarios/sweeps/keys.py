"""What makes a result the same result: the scenario, the seed, the version of the code, the files it names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from scenarios.questions.decide import package_version

_PACKAGES = ("roofline", "simulator", "calibrate", "scenarios")
_SUFFIXES = (".py", ".toml", ".json", ".csv")
_DIGEST_BYTES = 16


def canonical(value: object) -> str:
    """One text for equal values, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def digest(text: str) -> str:
    """A short hash, 32 hex digits."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def cell_key(table: Mapping[str, Any], seed: int, *, version: str, files: Mapping[str, str]) -> str:
    """Key of one scenario under one seed. What a scenario is called does not matter; what its files hold does."""
    content = {key: value for key, value in table.items() if key not in ("name", "description")}
    return digest(canonical([content, seed, version, dict(files)]))


@cache
def code_version() -> str:
    """The package's version and a fingerprint of its code and catalogue: results of other code are other results."""
    root = Path(__file__).resolve().parents[2]
    total = hashlib.blake2b(digest_size=6)
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*")):
            if file.suffix in _SUFFIXES and file.is_file():
                total.update(file.relative_to(root).as_posix().encode())
                total.update(file.read_bytes())
    return f"{package_version()}+{total.hexdigest()}"


def files_named(values: object) -> dict[str, str]:
    """Digest by path of every file that a table (or a list of axis values) names."""
    return {text: found for text in sorted(set(_texts(values))) if (found := _file_digest(text)) is not None}


@cache
def _file_digest(text: str) -> str | None:
    file = Path(text)
    try:
        return hashlib.blake2b(file.read_bytes(), digest_size=_DIGEST_BYTES).hexdigest() if file.is_file() else None
    except (OSError, ValueError):  # too long for a name, or not readable: the scenario will say so
        return None


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for below in cast("Mapping[str, object]", value).values():
                yield from _texts(below)
        case list() | tuple():
            for below in cast("list[object]", value):
                yield from _texts(below)
        case _:
            return
