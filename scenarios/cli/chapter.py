"""`specdec chapter`: every row of the course chapter, computed and judged."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("rows", nargs=-1, metavar="[ROW]...")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE|DIR", help="Write a page (.md), JSON (.json), or both."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of lengths and luck. Default: 0.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes. Default: one a core; the result is the same.")
def command(rows: tuple[str, ...], out: Path | None, seed: int, workers: int | None) -> int:
    """Compute the chapter's claims L1 to L16 (all, or the ROWs named) and judge them."""
    from scenarios.chapter.rows import chapter_rows, row_names
    from scenarios.cli.progress import load_progress
    from scenarios.questions.pool import available_workers
    from scenarios.report.chapter_text import chapter_text, check_place, write_chapter

    row_names(rows)
    if out is not None:
        check_place(out)
    with load_progress(what="computing rows") as told:
        made = chapter_rows(rows, seed=seed, workers=workers or available_workers(), progress=told)
    click.echo(chapter_text(made))
    if out is not None:
        write_chapter(out, made)
        click.echo(f"\nwritten to {out}")
    return 0
