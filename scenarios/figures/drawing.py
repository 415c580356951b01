"""How every figure looks: canvas, colours that stay apart in grey and for colour-blind readers, legends, notes.

Lines are formulas or cost tables, filled marks are simulated, hollow diamonds are somebody's measurements.
"""

# matplotlib annotates its keyword arguments only in part.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from scenarios.figures.fonts import families_for

STYLE = Path(__file__).parent.parent / "course.mplstyle"
WIDTH_INCHES, DOTS_PER_INCH = 10.0, 160
"""1600 pixels wide."""
COLOURS = ("#004488", "#DDAA33", "#BB5566", "#000000")
"""For things without order: Paul Tol's high-contrast palette, made for print in grey (personal.sru.nl/~pault)."""
SHADES = ("#00204d", "#3b496c", "#6c6e72", "#9b8f5e", "#cbb24a")
"""For things in order, dark to light (matplotlib's cividis at 0, 0.23, 0.45, 0.62, 0.8)."""
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKS = ("o", "s", "^", "v", "P")
MEASURED = {"marker": "D", "linestyle": "none", "markerfacecolor": "white", "markersize": 6, "zorder": 5}
QUIET = "0.35"
NOTE_WIDTH = 150
"""Columns of a note at the foot of a figure; a Chinese character takes two."""


def course_style(language: str) -> AbstractContextManager[None]:
    """Matplotlib's settings for figures of the course."""
    settings: dict[str, Any] = {
        "font.family": families_for(language),
        "font.size": 11.5,
        "figure.dpi": DOTS_PER_INCH,
        "savefig.dpi": DOTS_PER_INCH,
        "savefig.bbox": "standard",
        "svg.hashsalt": "specdec-sim",
        "legend.fontsize": 10.5,
        "axes.unicode_minus": True,
    }
    return cast("AbstractContextManager[None]", style.context([STYLE, settings]))


def canvas(height_inches: float = 5.6) -> Figure:
    """An empty figure of the course's width."""
    return Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")


def shade(index: int, *, of: int) -> dict[str, Any]:
    """Colour and dashes of curve `index` of `of` curves in order."""
    place = round(index * (len(SHADES) - 1) / max(of - 1, 1))
    return {"color": SHADES[place], "linestyle": DASHES[index % len(DASHES)]}


def colour(index: int) -> dict[str, Any]:
    """Colour and dashes of curve `index` of things without order."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def measured(index: int, *, of: int = 1) -> dict[str, Any]:
    """Hollow diamonds in the colour of curve `index`."""
    edge = shade(index, of=of)["color"] if of > 1 else COLOURS[2]
    return {**MEASURED, "markeredgecolor": edge, "color": edge}


def finish(figure: Figure, title: str, *, notes: Iterable[str]) -> None:
    """Title on top, notes (assumptions, ids of measured rows) at the foot."""
    figure.suptitle(title, x=0.008, ha="left", fontsize=15)
    text = "\n".join(line for note in notes if note for line in wrapped(note, NOTE_WIDTH))
    if text:
        figure.supxlabel(text, x=0.008, ha="left", fontsize=9, color=QUIET, linespacing=1.35)


def legend_beside(
    figure: Figure, axes: Iterable[Axes], *, title: str | None = None, headings: Sequence[str] = ()
) -> None:
    """One legend for all axes to their right; without headings (one for each of the axes) a label stands once."""
    found: list[tuple[str, Any]] = []
    for index, each in enumerate(axes):
        handles, labels = each.get_legend_handles_labels()
        if headings:
            found.append((headings[index], Line2D([], [], linestyle="none")))
        known: set[str] = set() if headings else {label for label, _ in found}
        found += [(label, handle) for label, handle in zip(labels, handles, strict=True) if label not in known]
    labels, handles = [label for label, _ in found], [handle for _, handle in found]
    figure.legend(handles, labels, loc="outside right upper", title=title, alignment="left")


def log_axis(axes: Axes, values: Iterable[float], *, which: str = "x") -> None:
    """A logarithmic axis with plain numbers at these places."""
    places = list(values)
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis.set_ticks(places, [plain(value) for value in places])
    axis.set_ticks([], minor=True)


def plain(value: float) -> str:
    """A number on an axis: 16k from ten thousand on."""
    if abs(value) >= 10_000:
        return f"{value / 1000:g}k"
    return f"{value:g}"


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns; Chinese text breaks anywhere but before a mark."""
    lines, line, columns = [], "", 0
    for word in _words(text):
        wide = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in word)
        if line and columns + len(word.rstrip()) - len(word) + wide > width:
            lines.append(line.rstrip())
            line, columns = "", 0
        line, columns = line + word, columns + wide
    return [*lines, line.rstrip()] if line.strip() else lines


def _words(text: str) -> list[str]:
    """Pieces a line may break after: words with their space, Chinese characters with the marks that follow."""
    pieces: list[str] = []
    for char in text:
        wide = unicodedata.east_asian_width(char) in "WF"
        joins = bool(pieces) and (unicodedata.category(char).startswith("P") or char == " ")
        before_wide = bool(pieces) and unicodedata.east_asian_width(pieces[-1][-1]) in "WF"
        if joins or (pieces and not wide and not before_wide and not pieces[-1].endswith(" ")):
            pieces[-1] += char
        else:
            pieces.append(char)
    return pieces


def image(figure: Figure, file_format: str) -> bytes:
    """The figure as a file's bytes, the same every time."""
    stream = io.BytesIO()
    metadata: dict[str, str | None] = {"svg": {"Date": None, "Creator": "specdec-sim"}, "png": {"Software": None}}[
        file_format
    ]  # type: ignore[assignment]
    figure.savefig(stream, format=file_format, metadata=metadata)
    return stream.getvalue()
