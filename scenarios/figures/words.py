"""What the figures say, in the languages they are written in: one TOML file each, one table a figure."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roofline.errors import InvalidInput
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.services import machine_text

FOLDER = Path(__file__).parent / "texts"
LANGUAGES = ("en", "zh")
Facts = Mapping[str, object]
"""Numbers of a computed figure, for the places in its paragraphs."""
BASES = ("closed form", "simulated", "calibrated", "catalogue", "measured", "published", "claim", "assumed")
"""Where a curve comes from: a formula, the simulator, cost tables of either kind, somebody's measurement, a claim."""


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of one figure; what all figures share stands behind them.

    `assumed` fills places like `{machine}` and `{alpha}` that are the same in the whole figure.
    """

    language: str
    figure: str
    own: Mapping[str, str]
    common: Mapping[str, str]
    assumed: Mapping[str, object]

    def __call__(self, key: str, **values: object) -> str:
        """A text with its `{places}` filled."""
        text = self.own.get(key) or self.common[key]
        return text.format(**{**self.assumed, **values})

    def basis(self, basis: object) -> str:
        """Where a curve comes from, in this language."""
        return self.common[f"basis_{str(basis).replace(' ', '_')}"]

    def labelled(self, text: str, basis: object) -> str:
        """A curve's name with where it comes from."""
        return self.common["labelled"].format(text=text, basis=self.basis(basis))


def words_of(figure: str, language: str, assumptions: Assumptions) -> Words:
    """The texts of a figure under these assumptions.

    Raises
    ------
    InvalidInput
        No such language.
    """
    texts = all_texts(language)
    assumed = {
        **assumptions.model_dump(),
        "machine": machine_text(assumptions),
        "context_tokens": assumptions.context_tokens,
        "K": assumptions.draft_tokens,
    }
    return Words(language, figure, texts[figure], texts["common"], assumed)


@cache
def all_texts(language: str) -> dict[str, dict[str, Any]]:
    """Every table of a language's file."""
    if language not in LANGUAGES:
        raise InvalidInput(f"--lang must be one of {', '.join(LANGUAGES)}, got {language!r}; choose one of them")
    return tomllib.loads((FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
