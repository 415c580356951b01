"""Names of published tables -> names of the catalogue (`names.toml`, and the catalogue's own names)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roofline.catalog import gpu_names
from roofline.catalog.loader import engine_names, model_names
from roofline.errors import InvalidInput
from scenarios.files import read_toml

_COUNT = re.compile(r"^\s*(\d+)\s*[x×*]\s*", re.IGNORECASE)
_CAPACITY = re.compile(r"\s?\d+ ?gi?b?\b")


@dataclass(frozen=True, slots=True)
class Named:
    """A name of the catalogue, and what was assumed to find it. `other`: what it may be just as well."""

    name: str
    note: str = ""
    other: str = ""
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A GPU of the catalogue and how many of them the text itself says (None: it says nothing)."""

    gpu: str
    count: int | None
    note: str = ""


def machine_of(text: str) -> Machine:
    """The GPU a table means by `2x RTX 5060 Ti 16GB (-sm tensor)`.

    Raises
    ------
    InvalidInput
        Nothing given, several kinds of GPU, or one that the catalogue lacks.
    """
    if not text.strip():
        raise InvalidInput("hardware is not given")
    counted = _COUNT.match(text)
    if "+" in re.sub(r"\(.*?\)|ai max\+", "", text.lower()):
        raise InvalidInput(f"hardware {text!r} is of several kinds")
    bare = _COUNT.sub("", text)
    found = _look_up("gpu", bare, what="hardware")
    if not found.name:
        named = _own_name(bare, gpu_names())
        if named is None:
            raise InvalidInput(f"hardware {text!r} is in no row of the catalogue (`specdec list gpus`)")
        found = Named(named)
    if found.name not in gpu_names():
        raise InvalidInput(f"hardware {text!r} ({found.name}) is in no row of the catalogue (`specdec list gpus`)")
    return Machine(found.name, int(counted[1]) if counted else None, found.note)


def engine_of(text: str, *, dated: str = "") -> Named:
    """The engine profile, of the release in use on the day `dated`; raises `InvalidInput` for what has none."""
    return _named("engine", text, engine_names(), what="engine", dated=dated)


def method_of(text: str) -> Named:
    """The method of a scenario; raises `InvalidInput` for what is not computed."""
    return _named("method", text, (), what="method")


def model_of(text: str, *, what: str = "target_model") -> Named:
    """The catalogue's configuration of a model; raises `InvalidInput` where there is none."""
    return _named("model", text, model_names(), what=what)


def head_of(method: str, target: str) -> str | None:
    """The published head of a target, where the catalogue has its configuration."""
    for entry in _tables().get("head", ()):
        if entry["method"] == method and entry["target"].lower() == target.lower():
            return str(entry["name"])
    return None


def plain_text(text: str) -> str:
    """Lower case, everything but letters and digits as single blanks."""
    return " ".join(re.sub(r"[^a-z0-9]+", " ", text.lower()).split())


def _named(kind: str, text: str, own: tuple[str, ...], *, what: str, dated: str = "") -> Named:
    if not text.strip():
        raise InvalidInput(f"{what} is not given")
    found = _look_up(kind, text, what=what, dated=dated)
    if found.name:
        if own and found.name.lower() not in {_slashed(name).lower() for name in own}:
            raise InvalidInput(f"{what} {text!r} ({found.name}) has no configuration in the catalogue")
        return found
    named = _own_name(text, own)
    if named is None:
        raise InvalidInput(f"{what} {text!r} is not known to the catalogue")
    return Named(named)


def _look_up(kind: str, text: str, *, what: str, dated: str = "") -> Named:
    cleaned = plain_text(text)
    for entry in _tables().get(kind, ()):
        if "before" in entry and not (dated and dated < entry["before"]):
            continue
        if re.search(entry["pattern"], cleaned):
            if "reason" in entry:
                raise InvalidInput(f"{what} {text!r} {entry['reason']}")
            return Named(entry["name"], entry.get("note", ""), entry.get("other", ""), entry.get("dtype", ""))
    return Named("")


def _own_name(text: str, names: tuple[str, ...]) -> str | None:
    """The longest name of the catalogue all of whose words stand in the text, capacities aside."""
    words = set(plain_text(text).split())
    fitting: list[tuple[int, str]] = []
    for name in names:
        asked = _CAPACITY.sub("", plain_text(_slashed(name).split("/")[-1])).split()
        if asked and set(asked) <= words:
            fitting.append((len(asked), name))
    return _slashed(max(fitting)[1]) if fitting else None


def _slashed(name: str) -> str:
    return name.replace("--", "/")


@cache
def _tables() -> dict[str, Any]:
    return read_toml(Path(__file__).with_name("names.toml"), what="names of published tables")
