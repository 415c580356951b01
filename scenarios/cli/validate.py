"""`specdec validate`: everything that is predicted against everything that others measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from scenarios.cli.options import setup_options

EXIT_STRICT = 2
SHOWN_PROBLEMS = 20


@click.command()
@click.option(
    "--data",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV with the columns of scenarios/data/validation/speedups.csv, instead of what ships; may be repeated.",
)
@click.option("--family", multiple=True, help="Only rows that speak of this: a method, GPU, engine, model or source.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write JSON, CSV, page and figures there."
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Write the page there.")
@click.option("--strict", is_flag=True, help="Exit 2 where a cell or column could not be used.")
@click.option("--workers", type=click.IntRange(1), help="Processes; default: all cores. The result is the same.")
@click.option(
    "--mine",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A run of your own, as `specdec import` reads or writes it, instead; completed by the options below.",
)
@click.option(
    "--calibrate-host", type=click.Path(path_type=Path), help="With --mine: write the host time that fits it."
)
@setup_options
def command(
    data: tuple[Path, ...], family: tuple[str, ...], out: Path | None, report: Path | None, strict: bool,
    workers: int | None, mine: tuple[Path, ...], calibrate_host: Path | None, **setup: Any,
) -> int:  # fmt: skip
    """Predict published measurements as they were made and say how far off each family is.

    With --mine, a run of your own is predicted, and what explains the difference is said.
    """
    if mine:
        from scenarios.cli.validate_mine import validate_mine

        validate_mine(mine, setup, calibrate_host=calibrate_host)
        return 0
    from importlib.metadata import PackageNotFoundError, version

    from scenarios.cli.progress import load_progress
    from scenarios.files import check_can_write, write_text_at_once
    from scenarios.validate.report import class_lines, report_text
    from scenarios.validate.run import usual_workers, validate

    if out:
        check_can_write(out)
    with load_progress() as progress:
        found = validate(data, only=family, workers=workers or usual_workers(), progress=progress)
    for line in class_lines(found.families):
        click.echo(line)
    not_computed = sum(one.status != "computed" for one in found.predictions)
    click.echo(f"{len(found.predictions)} rows read, {not_computed} not computed (reasons are in validation.csv)")
    _print_problems([str(problem) for problem in found.problems])
    if out:
        from scenarios.validate.written import write_validation

        try:
            release = version("specdec-sim")
        except PackageNotFoundError:
            release = "source tree"
        write_validation(found, out, version=release)
        click.echo(f"written to {out}: validation.json, validation.csv, validation.md, result.json, two figures")
    if report:
        write_text_at_once(report, report_text(found))
        click.echo(f"written to {report}")
    return EXIT_STRICT if strict and found.problems else 0


def _print_problems(problems: list[str]) -> None:
    if not problems:
        return
    click.echo(f"{len(problems)} cells or columns could not be used; the rest was computed:", file=sys.stderr)
    for problem in problems[:SHOWN_PROBLEMS]:
        click.echo(f"  {problem}", file=sys.stderr)
    if len(problems) > SHOWN_PROBLEMS:
        click.echo(f"  and {len(problems) - SHOWN_PROBLEMS} more", file=sys.stderr)
