"""Figures as files: pictures and the data behind them, or one page; all of them or none."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from roofline.errors import InvalidInput
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.course import Drawn, compute, drawn
from scenarios.files import folder_written_at_once

FORMATS = ("svg", "png")
PAGE = "figures.html"


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be drawn. `settings` are the user's `name=value`, for the command that reproduces a figure."""

    names: tuple[str, ...]
    language: str
    assumptions: Assumptions
    settings: tuple[str, ...]
    seed: int

    def figures(self) -> Iterator[Drawn]:
        """One after the other."""
        for name in self.names:
            data = compute(name, self.assumptions, seed=self.seed)
            yield drawn(name, data, language=self.language, assumptions=self.assumptions)

    def command(self, name: str) -> str:
        """The command line that draws one of them again."""
        words = ["specdec", "figures", name, "--lang", self.language]
        words += [word for setting in self.settings for word in ("--set", shlex.quote(setting))]
        return " ".join(words + (["--seed", str(self.seed)] if self.seed else []))


def checked_formats(text: str) -> tuple[str, ...]:
    """Formats of a list like `svg,png`.

    Raises
    ------
    InvalidInput
        Another format, or none.
    """
    asked = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    if not asked or set(asked) - set(FORMATS):
        raise InvalidInput(f"--format must be {' or '.join(FORMATS)} or both, got {text!r}; write it like svg,png")
    return asked


def write_figures(request: Request, folder: Path, *, formats: tuple[str, ...]) -> list[str]:
    """Write every figure in every format, its data as CSV, and the texts; returns what was written, in words."""
    with folder_written_at_once(folder) as draft:
        texts: list[str] = []
        for figure in request.figures():
            for file_format in formats:
                (draft / f"{figure.name}.{file_format}").write_bytes(figure.image(file_format))
            (draft / f"{figure.name}.csv").write_text(figure.data.csv(), encoding="utf-8", newline="")
            texts += [f"## {figure.text('title')}", "", figure.text("see"), "", figure.text("try"), ""]
            texts += [f"`{request.command(figure.name)}`", ""]
        (draft / f"texts_{request.language}.md").write_text("\n".join(texts), encoding="utf-8")
    count = len(request.names)
    pictures = f"{count} figure{'s' * (count > 1)} ({', '.join(formats)})"
    return [pictures, "data (csv)", f"texts_{request.language}.md"]


def write_page(request: Request, folder: Path) -> list[str]:
    """Write one self-contained page with everything."""
    from scenarios.report.html_figures import figures_page

    with folder_written_at_once(folder) as draft:
        (draft / PAGE).write_text(figures_page(request), encoding="utf-8")
    return [PAGE]
