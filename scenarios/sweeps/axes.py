"""What varies in a sweep: fields of a scenario, over listed values or over a range."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.sweeps.fields import check_field

Value = Any
_RANGE = re.compile(r"(?P<low>[^,\[\]\"']+?)\.\.(?P<high>[^,\[\]\"'/]+?)(?:/(?P<points>[0-9]+))?(?P<log>\s*log)?")


@dataclass(frozen=True, slots=True)
class Span:
    """A range, ends included: even steps or, with `log`, even ratios; `whole` numbers only."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, share: float) -> Value:
        """The value at a share of the way, 0 to 1."""
        if self.whole:
            return int(min(self.high, math.floor(self._between(share, self.low, self.high + 1))))
        return self._between(share, self.low, self.high)

    def _between(self, share: float, low: float, high: float) -> float:
        if self.log:
            return low * (high / low) ** share
        return low + share * (high - low)

    def spread(self, points: int) -> tuple[Value, ...]:
        """So many values from end to end, duplicates dropped."""
        shares = [index / (points - 1) for index in range(points)] if points > 1 else [0.0]
        values = [self._between(share, self.low, self.high) for share in shares]
        return tuple(dict.fromkeys(round(value) for value in values)) if self.whole else tuple(values)


@dataclass(frozen=True, slots=True)
class Axis:
    """Fields that vary together (zipped, where there are several) over rows of values, one a field; or one over a span.

    `points` is how many values a grid takes from the span; None: every whole number of it.
    """

    fields: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...] = ()
    span: Span | None = None
    points: int | None = None

    def grid(self) -> tuple[tuple[Value, ...], ...]:
        """The rows a grid goes through.

        Raises
        ------
        InvalidInput
            A range without a number of points.
        """
        if self.span is None:
            return self.rows
        points = self.points
        if points is None and self.span.whole:
            points = int(self.span.high - self.span.low) + 1
        if points is None:
            low, high = self.span.low, self.span.high
            raise InvalidInput(
                f"axis {self.fields[0]}={low:g}..{high:g} is a range, and a grid needs to know how many points it has; "
                f"write {low:g}..{high:g}/5, or sample it with --random N or --sobol N"
            )
        return tuple((value,) for value in self.span.spread(points))

    def at(self, share: float) -> tuple[Value, ...]:
        """The row at a share of the way, 0 to 1 (excluded)."""
        if self.span is not None:
            return (self.span.at(share),)
        return self.rows[min(len(self.rows) - 1, int(share * len(self.rows)))]


def parse_axis(text: str) -> Axis:
    """`FIELD=VALUE,VALUE,…` or `FIELD=LOW..HIGH[/POINTS][log]`.

    Raises
    ------
    InvalidInput
        No `=`, an empty list, a range that is none; `UnknownName` for a field no scenario has.
    """
    field, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise InvalidInput(f"axis {text!r} must read FIELD=VALUES; write it like workload.rate_per_s=1,2,4 or =1..32/6")
    return axis(field.strip(), values.strip())


def axis(field: str | Sequence[str], values: Sequence[Value] | str) -> Axis:
    """An axis from Python: a field and its values, several fields and rows of values, or a field and a range's text."""
    if isinstance(field, str):
        types = check_field(field)
        if isinstance(values, str):
            return _span_axis(field, values, types) or _checked(field, _listed(values), types)
        return _checked(field, list(values), types)
    fields = tuple(field)
    rows = [tuple(cast("Sequence[Value]", row)) for row in values]
    types_of = [check_field(name) for name in fields]
    for row in rows:
        if len(row) != len(fields):
            raise InvalidInput(
                f"axis {', '.join(fields)}: every row needs {len(fields)} values, got {row}; complete it"
            )
    if not rows:
        raise InvalidInput(f"axis {', '.join(fields)} has no values; give at least one row")
    read = tuple(
        tuple(_read(name, value, kinds) for name, value, kinds in zip(fields, row, types_of, strict=True))
        for row in rows
    )
    return Axis(fields=fields, rows=read)


def zipped(axes: Sequence[Axis]) -> Axis:
    """Axes of listed values that advance together.

    Raises
    ------
    InvalidInput
        They differ in length.
    """
    columns = [each.grid() for each in axes]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        counts = ", ".join(f"{each.fields[0]} has {len(column)}" for each, column in zip(axes, columns, strict=True))
        raise InvalidInput(f"zipped axes need as many values each, but {counts}; complete the shorter one")
    fields = tuple(name for each in axes for name in each.fields)
    return Axis(fields=fields, rows=tuple(tuple(v for part in row for v in part) for row in zip(*columns, strict=True)))


def axes_of(given: Mapping[Any, Any] | Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes from a mapping of fields to values; a field named twice is refused."""
    named = given.items() if isinstance(given, Mapping) else ()
    axes = tuple(axis(field, values) for field, values in named) or tuple(given)
    names = [name for each in axes for name in each.fields]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput(f"axis {twice!r} is given twice; put all its values into one axis")
    return axes


def _checked(field: str, values: list[Value], types: frozenset[str]) -> Axis:
    if not values:
        raise InvalidInput(f"axis {field!r} has no values; give at least one")
    return Axis(fields=(field,), rows=tuple((_read(field, value, types),) for value in values))


def _read(field: str, value: Value, types: frozenset[str]) -> Value:
    """The value in the field's own type, so that a column has one type; what fits none is left to the schema."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"axis {field!r}: values must be finite numbers, got {value}; correct the list")
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and "number" in types:
        return float(value)
    if isinstance(value, float) and types == frozenset({"integer"}) and value.is_integer():
        return int(value)
    if isinstance(value, int | float) and types == frozenset({"string"}):
        return str(value)
    return value


def _listed(text: str) -> list[Value]:
    """Comma-separated TOML values; words need no quotes."""
    try:
        return tomllib.loads(f"values = [{text}]")["values"]
    except tomllib.TOMLDecodeError:
        return [_word(part.strip()) for part in text.split(",") if part.strip()]


def _word(text: str) -> Value:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _span_axis(field: str, text: str, types: frozenset[str]) -> Axis | None:
    shape = _RANGE.fullmatch(text)
    if shape is None:
        return None
    low = notation.finite(shape["low"], field=f"axis {field}", example="1..32/6")
    high = notation.finite(shape["high"], field=f"axis {field}", example="1..32/6")
    if high <= low:
        raise InvalidInput(f"axis {field}: a range must rise, got {text}; write the smaller end first")
    if shape["log"] and low <= 0:
        raise InvalidInput(f"axis {field}: a range in even ratios starts above 0, got {text}; raise its lower end")
    whole = "integer" in types and "number" not in types
    if whole and (low != int(low) or high != int(high)):
        raise InvalidInput(f"axis {field} takes whole numbers, got the range {text}; round its ends")
    points = int(shape["points"]) if shape["points"] else None
    if points is not None and points < 2:
        raise InvalidInput(f"axis {field}: a range needs at least 2 points, got {points}; write {text.split('/')[0]}/2")
    return Axis(fields=(field,), span=Span(low, high, log=bool(shape["log"]), whole=whole), points=points)


def column_text(value: Value) -> str:
    """A value that is no plain scalar, as a column of text holds it."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
