"""`specdec validate --mine`: a run of one's own against its prediction."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.errors import InvalidInput
from scenarios.cli.options import scenario_table

if TYPE_CHECKING:
    from scenarios.schema import Scenario


def validate_mine(files: tuple[Path, ...], options: dict[str, Any], *, calibrate_host: Path | None) -> None:
    """Print predicted against measured for the run in FILES: a scenario of `specdec import`, or what it reads.

    Raises
    ------
    InvalidInput
        See `specdec import` and `own_run`; or there is no host time to write.
    """
    from scenarios.report.own_run_text import own_run_lines
    from scenarios.validate.own_run import own_run

    with tempfile.TemporaryDirectory() as folder:
        found = own_run(_scenario(files, options, Path(folder)))
    click.echo("\n".join(own_run_lines(found)))
    if calibrate_host is None:
        return
    from scenarios.files import write_text_at_once

    if found.host.calibration is None:
        raise InvalidInput(f"--calibrate-host {calibrate_host}: nothing is written, {found.host.refused}")
    write_text_at_once(calibrate_host, found.host.calibration.model_dump_json(indent=2) + "\n")
    click.echo(f"written to {calibrate_host}; use it with --calibration {calibrate_host}")


def _scenario(files: tuple[Path, ...], options: dict[str, Any], folder: Path) -> Scenario:
    from scenarios.files import scenario_from_dict

    if len(files) == 1 and files[0].suffix == ".toml":
        table, origin = scenario_table(str(files[0]), options)
        return scenario_from_dict(table, origin=origin)
    from scenarios.imports.measured.combine import read_files
    from scenarios.imports.measured.fragment import beside, fragment, fragment_text, requests_csv

    whole, _ = read_files(files)
    out = folder / "run.toml"
    closed = whole.concurrency is not None and whole.rate_per_s is None
    requests = requests_csv(whole.requests) if whole.requests and not (whole.trace or closed) else None
    if requests:
        beside(out).write_text(requests, encoding="utf-8")
    table, notes = fragment(whole, requests_file=beside(out).name if requests else None)
    out.write_text(fragment_text(table, (*whole.notes, *notes)), encoding="utf-8")
    complete, _ = scenario_table(str(out), options)
    return scenario_from_dict(complete, origin=f"the run of {whole.source}")
