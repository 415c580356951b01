"""The fields of a scenario by their dotted paths, as an axis names them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from roofline.errors import UnknownName
from scenarios.files import schema_nodes
from scenarios.schema import Scenario

Table = dict[str, Any]

_EXCLUSIVE = {
    "acceptance": ("length", "alpha", "per_position", "task"),
    "loads": ("factors", "rates_per_s", "concurrencies"),
}
"""Ways of saying one thing: a field that is set takes the place of the others."""

_NO_AXIS = ("schema_version", "name", "description", "serve", "run", "run.seed", "run.seeds")
_LOADS_OF_THEIR_OWN = ("workload.rate_per_s", "workload.concurrency")


@cache
def field_types() -> Mapping[str, frozenset[str]]:
    """JSON types of every field an axis may name; items of a list stand under index 0."""
    schema = Scenario.model_json_schema()
    found: dict[str, set[str]] = {}
    for path, kind in _walk(schema, schema, prefix=""):
        found.setdefault(path, set()).add(kind)
    return {path: frozenset(kinds - {"null"}) for path, kinds in found.items() if path not in _NO_AXIS}


def _walk(node: Table, schema: Table, *, prefix: str) -> Iterator[tuple[str, str]]:
    """(path, JSON type) of all that lies below a node of the schema."""
    for alternative in schema_nodes([node], schema):
        if prefix:
            yield prefix, str(alternative.get("type", "any"))
        for name, child in cast("dict[str, Table]", alternative.get("properties", {})).items():
            yield from _walk(child, schema, prefix=f"{prefix}.{name}" if prefix else name)
        items = alternative.get("items")
        if isinstance(items, dict) and "$ref" in items:
            yield from _walk(cast("Table", items), schema, prefix=f"{prefix}.0")


def check_field(path: str) -> frozenset[str]:
    """The JSON types of a field.

    Raises
    ------
    UnknownName
        No scenario has that field, or it is none to vary; the message names the nearest ones.
    """
    types = field_types().get(_general(path))
    if types is not None:
        return types
    if path in ("run.seed", "run.seeds"):
        raise UnknownName(f"axis {path!r} is no axis: every scenario runs on the same seeds; give --seeds")
    raise UnknownName(f"axis {path!r} names no field of a scenario; {_nearest(path)} (`specdec schema` lists them all)")


def _general(path: str) -> str:
    return ".".join("0" if part.isdecimal() else part for part in path.split("."))


def _nearest(path: str) -> str:
    """Whole paths near the text, or whose last word is near its last word."""
    known = sorted(field_types())
    last = path.rsplit(".", 1)[-1]
    begun = [name for name in known if name.startswith(path)]
    begun += [name for name in known if name.rsplit(".", 1)[-1].startswith(last)]
    by_last = [name for name in known if difflib.get_close_matches(last, [name.rsplit(".", 1)[-1]], cutoff=0.7)]
    by_path = difflib.get_close_matches(path, known, n=3, cutoff=0.5)
    near = list(dict.fromkeys([*begun[:2], *by_path[:1], *by_last, *by_path]))[:4]
    return f"nearest: {', '.join(near)}" if near else "fields read like workload.rate_per_s"


def with_fields(table: Table, values: Mapping[str, Any]) -> Table:
    """The scenario table with fields set; what they take the place of is dropped, `table` is left as it is."""
    result = dict(table)
    if any(path in _LOADS_OF_THEIR_OWN for path in values):
        result.pop("loads", None)
    for path, value in values.items():
        result = _set(result, path.split("."), value)
    return result


def _set(node: Any, parts: list[str], value: Any) -> Any:
    name, rest = parts[0], parts[1:]
    if isinstance(node, list) and name.isdecimal() and int(name) < len(cast("list[Any]", node)):
        items = list(cast("list[Any]", node))
        items[int(name)] = _set(items[int(name)], rest, value) if rest else value
        return items
    # A plain number where the axis wants a table (lengths of one value) becomes that table.
    table: Table = dict(cast("Table", node)) if isinstance(node, dict) else {}
    if not rest:
        table[name] = value
        return table
    below = table.get(name)
    group = _EXCLUSIVE.get(name, ())
    if len(rest) == 1 and rest[0] in group and isinstance(below, dict):
        below = {key: kept for key, kept in cast("Table", below).items() if key not in group}
    table[name] = _set(below, rest, value)
    return table
