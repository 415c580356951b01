"""`specdec figures`: the figures of the course as files, or as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scenarios import notation


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME …]")
@click.option("--out", metavar="DIR", default="figures", show_default=True, help="Folder to write to.")
@click.option("--lang", metavar="en|zh", default="en", show_default=True, help="Language of all texts.")
@click.option("--format", "formats", metavar="LIST", default="svg,png", show_default=True, help="svg, png or both.")
@click.option(
    "--set", "settings", metavar="NAME=VALUE", multiple=True, help="An assumption, repeatable: gpu=…, alpha=…"
)
@click.option("--seed", metavar="N", default="0", show_default=True, help="Seed of everything simulated.")
@click.option("--html", "as_page", is_flag=True, help="One self-contained page with figures, texts and data.")
@click.option("--list", "listed", is_flag=True, help="Print names and assumptions, draw nothing.")
def command(names: tuple[str, ...], **options: Any) -> int:
    """Draw the figures of a course on the limits of speculative decoding; without NAME all of them.

    Beside each figure stands a CSV file with the data it was drawn from.
    """
    from scenarios.figures.assumptions import assumptions_from
    from scenarios.files import check_can_write

    assumptions = assumptions_from(options["settings"])
    if options["listed"]:
        _print_lists()
        return 0
    from scenarios.figures.course import checked_names
    from scenarios.figures.writing import Request, checked_formats, write_figures, write_page

    request = Request(
        names=checked_names(names),
        language=_language(options["lang"]),
        assumptions=assumptions,
        settings=options["settings"],
        seed=notation.whole(options["seed"], field="--seed", example="7", least=0),
    )
    formats = checked_formats(options["formats"])
    folder = Path(options["out"])
    check_can_write(folder)
    written = write_page(request, folder) if options["as_page"] else write_figures(request, folder, formats=formats)
    click.echo(f"written to {folder}: {', '.join(written)}")
    return 0


def _print_lists() -> None:
    from scenarios.figures import FIGURES
    from scenarios.figures.assumptions import Assumptions

    for number, name in enumerate(FIGURES, start=1):
        click.echo(f"{number:>2}  {name}")
    click.echo("\nassumptions (--set NAME=VALUE):")
    for name, field in Assumptions.model_fields.items():
        said = f"  {field.description}" if field.description else ""
        click.echo(f"    {name} = {field.default}{said}")


def _language(asked: str) -> str:
    """The language that can be drawn, with one message where it is not the one asked for."""
    from scenarios.figures.fonts import NO_FONT, drawn_language
    from scenarios.figures.words import all_texts

    all_texts(asked)
    drawn = drawn_language(asked)
    if drawn != asked:
        click.echo(f"note: {NO_FONT}", err=True)
    return drawn
