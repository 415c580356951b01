"""Numbers and names as a report writes them; nothing here is computed with."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.units import gib_from_bytes, ms_from_seconds

if TYPE_CHECKING:
    from simulator.compare import Interval

WIDTH = 118
SECONDS_FROM_S = 10.0


def load_text(value: float, kind: str) -> str:
    """A load with its unit."""
    return f"{value:{'.3g' if value < 999.5 else ',.0f'}} req/s" if kind == "rate" else f"{value:.0f} in flight"


def number(value: float) -> str:
    """Three significant digits, thousands separated, a dash where there is none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def time_text(value_s: float) -> str:
    """Milliseconds in a table cell; whole seconds from ten on."""
    if math.isfinite(value_s) and value_s >= SECONDS_FROM_S:
        return f"{value_s:,.0f} s"
    return number(ms_from_seconds(value_s))


def duration_text(value_s: float) -> str:
    """A time with its unit, in running text."""
    text = time_text(value_s)
    return text if text == "-" or text.endswith(" s") else f"{text} ms"


def durations_text(values_s: Sequence[float]) -> str:
    """Times with slashes between: one unit at the end where all share it, else each with its own."""
    texts = [duration_text(value_s) for value_s in values_s]
    units = {text.rpartition(" ")[2] for text in texts if text != "-"}
    if len(units) != 1:
        return "/".join(texts)
    [unit] = units
    return f"{'/'.join(text.removesuffix(f' {unit}') for text in texts)} {unit}"


def labelled_text(label: str, text: str) -> str:
    """A line of what an answer rests on."""
    return f"  {f'[{label}]':<13}{text}"


def memory_text(count_bytes: float) -> str:
    """GiB with one decimal."""
    return f"{gib_from_bytes(count_bytes):.1f} GiB"


def share_text(fraction: float) -> str:
    """A share as percent."""
    if not math.isfinite(fraction):
        return "-"
    return f"{100 * fraction:.0f} %" if fraction == 0 or fraction >= 0.0995 else f"{100 * fraction:.1f} %"


def speedup(ratio: Interval) -> str:
    """A ratio with its interval, `1.42 (1.38-1.46)`."""
    if not math.isfinite(ratio.estimate):
        return "-"
    if ratio.low <= 0.0 or not math.isfinite(ratio.high):
        return f"{ratio.estimate:.2f}"
    return f"{ratio.estimate:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def paragraph(title: str, text: str) -> list[str]:
    """A titled paragraph, wrapped and indented under its title."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=f"{title:<12}",
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )


def grid(header: list[str], rows: list[list[str]], *, left: int = 2) -> list[str]:
    """Aligned columns, the first `left` of them to the left."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [header, *rows]
    ]
