"""Published acceptance by task, with its spread (`presets/acceptance.toml`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpreadPoint:
    """One quantile of a preset."""

    name: str
    alpha: float
    text: str


def task_names() -> tuple[str, ...]:
    """Tasks with a preset."""
    return ()


def task_spread(task: str, method: str) -> tuple[SpreadPoint, ...]:
    """p10, median, p90."""
    raise NotImplementedError
