"""From the name of a figure to its table, its picture and its texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from matplotlib.figure import Figure

from roofline.errors import UnknownName
from scenarios import notation
from scenarios.figures import FIGURES
from scenarios.figures.assumptions import Assumptions, assumptions_from
from scenarios.figures.drawing import canvas, course_style, image
from scenarios.figures.fonts import drawn_language
from scenarios.figures.table import Table
from scenarios.figures.words import Words, words_of


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure with the table behind it and the texts around it."""

    name: str
    data: Table
    figure: Figure
    words: Words
    facts: Mapping[str, object]

    def text(self, key: str) -> str:
        """A paragraph (`see`, `try`) or the title, with the numbers of this figure."""
        return self.words(key, **self.facts)

    def image(self, file_format: str) -> bytes:
        """A `png` or `svg` file, 1600 pixels wide, the same bytes every time."""
        with course_style(self.words.language):
            return image(self.figure, file_format)

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        return self.image("png")


def show(figure: ModuleType | str, *, language: str = "en", seed: int = 0, **assumed: Any) -> Drawn:
    """Compute and draw one figure; `assumed` are fields of `Assumptions`, like `gpu="A100-SXM-80GB"`.

    Raises
    ------
    SpecdecError
        An unknown figure, language or assumption, or one that cannot be computed.
    """
    name = figure if isinstance(figure, str) else figure.__name__.rpartition(".")[2]
    assumptions = assumptions_from(f"{key}={value}" for key, value in assumed.items())
    return drawn(name, compute(name, assumptions, seed=seed), language=language, assumptions=assumptions)


def compute(name: str, assumptions: Assumptions, *, seed: int) -> Table:
    """The table of one figure."""
    run: Callable[[Assumptions, int], Table] = _module(name).compute
    return run(assumptions, seed)


def drawn(name: str, data: Table, *, language: str, assumptions: Assumptions) -> Drawn:
    """A table drawn; in English where Chinese is asked for and no font has it."""
    words = words_of(name, drawn_language(language), assumptions)
    module = _module(name)
    with course_style(words.language):
        figure = canvas(getattr(module, "HEIGHT_INCHES", 5.6))
        module.draw(figure, data, words)
    facts: Mapping[str, object] = module.facts(data, assumptions) if hasattr(module, "facts") else {}
    return Drawn(name, data, figure, words, facts)


def checked_names(names: Iterable[str]) -> tuple[str, ...]:
    """The figures asked for, all of them where none is named.

    Raises
    ------
    UnknownName
        No such figure.
    """
    asked = tuple(dict.fromkeys(names)) or FIGURES
    for name in asked:
        if name not in FIGURES:
            raise UnknownName(f"figure {name!r} does not exist; {notation.nearest(name, FIGURES)}")
    return asked


def _module(name: str) -> ModuleType:
    [known] = checked_names([name])
    return import_module(f"scenarios.figures.{known}")
