"""All figures of the course on one self-contained page, with their texts, data and commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenarios.questions.decide import package_version
from scenarios.report.page import data_uri, rendered, svg_uri

if TYPE_CHECKING:
    from scenarios.figures.course import Drawn
    from scenarios.figures.writing import Request

PROSE = ("title", "see", "try")


def figures_page(request: Request) -> str:
    """The page as text; nothing in it is loaded from elsewhere."""
    from scenarios.figures.words import all_texts

    assumed = request.assumptions.model_dump()
    texts = all_texts(request.language)["page"]
    figures = [_figure(drawn, request) for drawn in request.figures()]
    return rendered(
        "figures.html",
        language=request.language,
        texts=texts,
        figures=figures,
        font=_font(request.language, [*texts.values(), *(figure[key] for figure in figures for key in PROSE)]),
        assumptions=[
            (name, f"{value:g}" if isinstance(value, float) else str(value)) for name, value in assumed.items()
        ],
        version=package_version(),
        seed=request.seed,
    )


def _font(language: str, texts: list[str]) -> str | None:
    """The Chinese characters of the page as a font inside it, so that it reads the same on any machine."""
    from scenarios.figures.fonts import subset_font

    content = subset_font("".join(texts)) if language == "zh" else None
    return None if content is None else data_uri(content, "font/sfnt")


def _figure(drawn: Drawn, request: Request) -> dict[str, Any]:
    return {
        "name": drawn.name,
        "title": drawn.text("title"),
        "image": svg_uri(drawn.image("svg")),
        "see": drawn.text("see"),
        "try": drawn.text("try"),
        "data": data_uri(drawn.data.csv().encode(), "text/csv;charset=utf-8"),
        "command": request.command(drawn.name),
    }
