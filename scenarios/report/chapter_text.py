"""The chapter's rows as text for a terminal, as the page `docs/chapter.md`, and as JSON."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roofline.errors import InvalidInput
from scenarios.chapter.judging import Claim, Quantity, Row, Table, judge
from scenarios.files import check_can_write, folder_written_at_once, write_text_at_once
from scenarios.report.words import WIDTH, grid, number, share_text

_INDENT = " " * 6
_INTRODUCTION = """\
# The chapter, row by row

Each row of the course chapter on the limits of speculative decoding, computed and judged. This page is the output of

    specdec chapter --out docs/chapter.md

and `specdec chapter L3` computes one row. A claim is a range with a tolerance; every number, computed here or published
by others, is held against it. All inside: **holds**. Some: **in part**. None: **does not hold**. A row sums up its
claims in the same way; **not yet** marks claims that nothing can be held against so far, and does not count.

Labels: *measured* by counting or published (with the row it was copied from), *calibrated* on measured kernels,
*catalogue* for published constants, *assumed* where an acceptance or a law was assumed. A computed number carries
the weakest label of its inputs.
"""


def chapter_text(rows: Sequence[Row]) -> str:
    """What the command prints: a line a row, then each row with its numbers."""
    lines = grid(["row", "verdict", "what", "claims"], [_summary(row) for row in rows], left=4)
    for row in rows:
        lines += ["", *_row_lines(row)]
    return "\n".join(lines)


def chapter_page(rows: Sequence[Row]) -> str:
    """Markdown."""
    summary = [f"| [{row.id}](#{_anchor(row)}) | {row.title} | **{row.verdict}** | {_counts(row)} |" for row in rows]
    lines = [_INTRODUCTION, "| row | what | verdict | claims |", "|---|---|---|---|", *summary]
    for row in rows:
        lines += ["", row_section(row)]
    return "\n".join(lines) + "\n"


def chapter_json(rows: Sequence[Row]) -> str:
    """All rows with verdicts, for programs; a number that is not known is null."""
    content = [
        {**asdict(row), "verdict": row.verdict, "claims": [_claim_fields(claim) for claim in row.claims]}
        for row in rows
    ]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def check_place(out: Path) -> None:
    """Refuse a place for the chapter that cannot be written, before anything is computed.

    Raises
    ------
    InvalidInput
        An ending other than `.md` and `.json`, or a folder that cannot be made or written.
    """
    if out.suffix not in ("", ".md", ".json"):
        raise InvalidInput(f"--out {out}: must end in .md or .json, or be a folder, got {out.suffix!r}; rename it")
    check_can_write(out.parent if out.suffix else out)


def write_chapter(out: Path, rows: Sequence[Row]) -> None:
    """A page (`.md`), JSON (`.json`), or a folder with both, whole or not at all."""
    if out.suffix == ".md":
        write_text_at_once(out, chapter_page(rows))
    elif out.suffix == ".json":
        write_text_at_once(out, chapter_json(rows))
    else:
        with folder_written_at_once(out) as folder:
            write_text_at_once(folder / "chapter.md", chapter_page(rows))
            write_text_at_once(folder / "chapter.json", chapter_json(rows))


def row_section(row: Row) -> str:
    """One row of the page."""
    lines = [f"## {row.id} {row.title}", "", f"**{row.verdict.capitalize()}.** The chapter says: {row.says}.", ""]
    lines += [f"    {row.command}", "", "| claim | range | computed | published | verdict |", "|---|---|---|---|---|"]
    lines += [_claim_cells(claim) for claim in row.claims]
    for table in row.tables:
        lines += ["", *_table_lines(table)]
    lines += ["", row.note] if row.note else []
    sources = {
        quantity.source for claim in row.claims for quantity in (*claim.published, *claim.beside) if quantity.source
    }
    if sources:
        lines += ["", "Published numbers are from", ""]
        lines += [f"- {source}" for source in sorted(sources)]
    return "\n".join(lines)


def _summary(row: Row) -> list[str]:
    return [row.id, row.verdict, row.title, _counts(row)]


def _counts(row: Row) -> str:
    counts = Counter(judge(claim) for claim in row.claims)
    order = ("holds", "in part", "does not hold", "not yet")
    words_ = {"holds": "hold", "in part": "in part", "does not hold": "do not", "not yet": "not yet"}
    return ", ".join(f"{counts[verdict]} {words_[verdict]}" for verdict in order if counts[verdict])


def _anchor(row: Row) -> str:
    kept = "".join(sign for sign in f"{row.id} {row.title}".lower() if sign.isalnum() or sign in " -")
    return kept.replace(" ", "-")


def _value(quantity: Quantity) -> str:
    if not math.isfinite(quantity.value):
        return "none"
    plain = f"{quantity.value:.3f}" if 0.1 <= abs(quantity.value) < 1.0 else number(quantity.value)
    text = f"{quantity.value:.2f}" if 1.0 <= abs(quantity.value) < 10.0 and quantity.value % 1 else plain
    return f"{text} {quantity.unit}".rstrip()


def _range(claim: Claim) -> str:
    if claim.missing:
        return ""
    low, high = claim.low, claim.high
    if low is None or high is None:
        text = f"at most {number(high or 0.0)}" if high is not None else f"at least {number(low or 0.0)}"
    else:
        text = number(low) if low == high else f"{number(low)} to {number(high)}"
    return text + (f" ± {share_text(claim.tolerance_fraction)}" if claim.tolerance_fraction else "")


def _claim_cells(claim: Claim) -> str:
    beside = [f"*beside:* {_value(quantity)} {quantity.name} [{quantity.label}]" for quantity in claim.beside]
    found = "<br>".join(
        [f"**{_value(quantity)}** {quantity.name} [{quantity.label}]" for quantity in claim.found] + beside
    )
    others = "<br>".join(f"**{_value(quantity)}** {quantity.name} [{quantity.label}]" for quantity in claim.published)
    found = f"missing: {claim.missing}" if claim.missing else found
    return f"| {claim.says} | {_range(claim)} | {found} | {others} | {judge(claim)} |"


def _table_lines(table: Table) -> list[str]:
    rows = [f"| {' | '.join(row)} |" for row in table.rows]
    return [f"{table.title}:", "", f"| {' | '.join(table.header)} |", "|" + "---|" * len(table.header), *rows]


def _row_lines(row: Row) -> list[str]:
    lines = [f"{row.id}  {row.title}: {row.verdict.upper()}", *_wrapped(f"The chapter says: {row.says}.", _INDENT)]
    lines += [f"{_INDENT}$ {row.command}"]
    for claim in row.claims:
        lines += [f"{_INDENT}{judge(claim):<14}{claim.says}{f' ({_range(claim)})' if not claim.missing else ''}"]
        lines += [_quantity_line(quantity) for quantity in (*claim.found, *claim.published)]
        lines += [_quantity_line(quantity, beside=True) for quantity in claim.beside]
        lines += [f"{_INDENT * 3}missing: {claim.missing}"] if claim.missing else []
    for table in row.tables:
        header, body = list(table.header), [list(each) for each in table.rows]
        lines += ["", f"{_INDENT}{table.title}", *(f"{_INDENT}{line}" for line in grid(header, body, left=len(header)))]
    return lines + (["", *_wrapped(row.note, _INDENT)] if row.note else [])


def _quantity_line(quantity: Quantity, *, beside: bool = False) -> str:
    source = f" ({quantity.source.split(':')[0]})" if quantity.source else ""
    text = f"{_value(quantity):>12}  {quantity.name} [{quantity.label}]{source}"
    return f"{_INDENT * 2}{f'{text}, not judged' if beside else text}"


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _claim_fields(claim: Claim) -> dict[str, Any]:
    numbers = {"found": claim.found, "published": claim.published, "beside": claim.beside}
    shown = {name: [_quantity_fields(quantity) for quantity in each] for name, each in numbers.items()}
    return {**asdict(claim), **shown, "verdict": judge(claim)}


def _quantity_fields(quantity: Quantity) -> dict[str, Any]:
    return {**asdict(quantity), "value": quantity.value if math.isfinite(quantity.value) else None}
