"""Published acceptance by task, with its spread (`presets/acceptance.toml`); always labelled assumed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from roofline.errors import InvalidInput, UnknownName
from scenarios import notation
from scenarios.files import PRESET_FOLDER, read_toml
from scenarios.schema import MATCHING_METHODS

QUANTILES = ("p10", "median", "p90")


@dataclass(frozen=True, slots=True)
class SpreadPoint:
    """One quantile of a preset: the i.i.d. acceptance of one draft."""

    name: str
    alpha: float
    text: str


def task_names() -> tuple[str, ...]:
    """Tasks with a preset."""
    return tuple(sorted(_presets()))


def task_spread(task: str, method: str) -> tuple[SpreadPoint, ...]:
    """The p10, median and p90 of a task for the family of a method.

    Raises
    ------
    UnknownName
        No such task.
    InvalidInput
        The task is published for other families of drafters only.
    """
    presets = _presets()
    if task not in presets:
        raise UnknownName(f"task {task!r} has no preset; {notation.nearest(task, presets)}")
    family = "ngram" if method in MATCHING_METHODS else "chain"
    if family not in presets[task]:
        raise InvalidInput(
            f"task {task!r} has no published acceptance for {family} drafters (it has "
            f"{', '.join(presets[task])}); give "
            "--acceptance-length with your own"
        )
    row = presets[task][family]
    rests = f"{row['rows']} published rows of {row['source_count']} sources"
    return tuple(
        SpreadPoint(
            name, float(row[f"alpha_{name}"]), f"task {task!r}, {name} of {rests}: alpha {row[f'alpha_{name}']:.2f}"
        )
        for name in QUANTILES
    )


@cache
def _presets() -> dict[str, dict[str, dict[str, Any]]]:
    return read_toml(PRESET_FOLDER / "acceptance.toml", what="acceptance presets")
