"""Which combinations of the axes a sweep visits: a grid, random points, or a Sobol sequence; made when asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios.sweeps.axes import Axis, Value
from simulator.rng import Streams

Kind = Literal["grid", "random", "sobol"]


@dataclass(frozen=True, slots=True)
class Design:
    """Points of a sweep by index; the last axis of a grid varies fastest, `samples` is for the others."""

    axes: tuple[Axis, ...]
    kind: Kind = "grid"
    samples: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse samples of a grid and samplings of nothing."""
        if (self.kind == "grid") == (self.samples is not None) or (self.samples is not None and self.samples < 1):
            raise InvalidInput(
                f"a {self.kind} sweep needs {'no number' if self.kind == 'grid' else 'a number'} of samples"
                f"{'' if self.kind == 'grid' else ' of at least 1'}, got {self.samples}; correct samples"
            )
        if self.kind != "grid" and not self.axes:
            raise InvalidInput(f"a {self.kind} sweep needs at least one axis; give --axis FIELD=LOW..HIGH")

    def __len__(self) -> int:
        """Number of scenarios."""
        return self.samples or math.prod(len(axis.grid()) for axis in self.axes)

    def points(self, first: int, last: int) -> Iterator[dict[str, Value]]:
        """Values by field of the points `first` to `last` (excluded)."""
        if self.kind == "grid":
            rows = [axis.grid() for axis in self.axes]
            for index in range(first, last):
                yield self._named(_digits(index, rows))
            return
        shares = self._random(first, last) if self.kind == "random" else self._sobol(first, last)
        for row in shares:
            yield self._named([axis.at(float(share)) for axis, share in zip(self.axes, row, strict=True)])

    def _named(self, rows: list[tuple[Value, ...]]) -> dict[str, Value]:
        pairs = zip(self.axes, rows, strict=True)
        return {name: value for axis, row in pairs for name, value in zip(axis.fields, row, strict=True)}

    def _random(self, first: int, last: int) -> NDArray[np.float64]:
        streams = Streams(self.seed)
        return np.array([streams.get("sweep", index).random(len(self.axes)) for index in range(first, last)])

    def _sobol(self, first: int, last: int) -> NDArray[np.float64]:
        """The sequence from its start, moved round the unit cube by one random shift that the seed decides."""
        from scipy.stats import qmc  # pyright: ignore[reportMissingTypeStubs]

        sequence: Any = qmc.Sobol(len(self.axes), scramble=False)
        parts: list[NDArray[np.float64]] = []
        if first == 0:  # alone: scipy warns of a start that is no power of two
            parts.append(sequence.random(1))
        else:
            sequence.fast_forward(first)
        if last - max(first, 1) > 0:
            parts.append(sequence.random(last - max(first, 1)))
        shift = Streams(self.seed).get("sweep_shift", 0).random(len(self.axes))
        return (np.concatenate(parts) + shift) % 1.0


def _digits(index: int, rows: list[tuple[tuple[Value, ...], ...]]) -> list[tuple[Value, ...]]:
    """One row of each axis: the index written in mixed radix."""
    picked: list[tuple[Value, ...]] = []
    for choices in reversed(rows):
        index, digit = divmod(index, len(choices))
        picked.append(choices[digit])
    return picked[::-1]
