"""`specdec calibrate import-tables`: constants of GPUs from the measured kernel tables of aiconfigurator-core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from roofline.errors import InvalidInput, SpecdecError

if TYPE_CHECKING:
    from roofline.calibration import Calibration

    Job = tuple[str, str]


@click.command("import-tables")
@click.option("--system", help="System of the tables (h200_sxm) or the catalogue's GPU (H200-SXM).")
@click.option("--engine", help="vllm, sglang or trtllm.")
@click.option("--all", "everything", is_flag=True, help="Every system and engine with tables.")
@click.option(
    "--package",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of the unpacked wheel; default: the installed package.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the files. Default: here.")
@click.option("--ship", is_flag=True, help="Write into the catalogue instead, where --gpu and --engine find them.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes of --all.")
def command(
    system: str | None, engine: str | None, everything: bool, package: Path | None, out: Path | None, ship: bool,
    workers: int,
) -> None:  # fmt: skip
    """Fit constants to measured kernel tables and say how far they are off on shapes left out."""
    from calibrate.kernel_tables.shipping import all_jobs, import_jobs

    if not everything and (system is None or engine is None):
        raise InvalidInput("give --system and --engine, or --all")
    if ship and out is not None:
        raise InvalidInput("--ship writes into the catalogue; leave --out away")
    folder = None if ship else out or Path.cwd()
    jobs = _wanted(all_jobs(package), system=system, engine=engine) if everything else ((str(system), str(engine)),)
    done = 0

    def report(job: Job, result: Calibration | SpecdecError) -> None:
        nonlocal done
        done += 1
        click.echo(f"[{done}/{len(jobs)}] {job[0]} {job[1]}: {_outcome(result, folder, alone=len(jobs) == 1)}")

    import_jobs(jobs, package, workers=workers, report=report)


def _wanted(jobs: tuple[Job, ...], *, system: str | None, engine: str | None) -> tuple[Job, ...]:
    return tuple(job for job in jobs if system in (None, job[0]) and engine in (None, job[1]))


def _outcome(result: Calibration | SpecdecError, folder: Path | None, *, alone: bool) -> str:
    """Write the file; a sentence for many, a table of residuals for one. One alone fails loudly."""
    from calibrate.kernel_tables.shipping import calibration_text, default_path
    from scenarios.files import write_text_at_once

    if isinstance(result, SpecdecError):
        if alone:
            raise result
        return f"skipped: {result}"
    path = default_path(result, folder)
    write_text_at_once(path, calibration_text(result))
    if not alone:
        refused = ", ".join(result.verdict.by_weights)
        return f"{path.name}, {f'see its verdict on {refused}' if refused else 'stable'}"
    reasons = [why for found in result.verdict.by_weights.values() for why in found]
    lines = [f"{path}", *_residual_lines(result), *(f"  not accepted: {why}" for why in reasons)]
    return "\n".join(lines)


def _residual_lines(calibration: Calibration) -> list[str]:
    lines = [f"  {'shapes left out of the fit':<58} {'rows':>5} {'median':>7} {'p90':>7}"]
    for one in calibration.residuals:
        if one.held_out:
            median, tail = one.median_abs_error_fraction, one.p90_abs_error_fraction
            lines.append(f"  {one.group:<58} {one.rows:>5} {median:>7.1%} {tail:>7.1%}")
    return lines
