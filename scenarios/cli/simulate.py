"""`specdec simulate`: one arm at one load, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scenarios.cli.options import scenario_options, scenario_table

if TYPE_CHECKING:
    from scenarios.questions.simulate import OneRun
    from scenarios.schema import Scenario


@click.command()
@click.argument("scenario", required=False)
@scenario_options
@click.option("--arm", type=click.Choice(["on", "off"]), default="on", help="With speculation, or plain.")
@click.option("--at", metavar="LOAD", help="The load: 4 (req/s or in flight) or 2x; default 1x.")
@click.option("--reproducibility", is_flag=True, help="Run it again: which requests meet other batch shapes?")
@click.option("--out", metavar="FILE", help="Write the per-request table as CSV instead of its head.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, nothing else.")
def command(scenario: str | None, **options: Any) -> int:
    """Simulate one arm of SCENARIO at one load and print its requests."""
    from scenarios.files import scenario_from_dict, write_text_at_once
    from scenarios.questions.simulate import simulate_one

    table, origin = scenario_table(scenario, options)
    if options["reproducibility"]:
        return _reproduce(scenario_from_dict(table, origin=origin), options)
    run = simulate_one(scenario_from_dict(table, origin=origin), arm=options["arm"], at=options["at"])
    if options["as_json"]:
        from scenarios.report.run_text import run_json

        click.echo(run_json(run), nl=False)
    else:
        _print(run, whole=options["out"] is None)
    if options["out"]:
        from scenarios.report.run_text import requests_csv

        write_text_at_once(Path(options["out"]), requests_csv(run))
        click.echo(f"written to {options['out']}: {len(run.result.arrival_s):,} requests", err=options["as_json"])
    return 4 if run.result.saturation.saturated else 0


def _reproduce(scenario: Scenario, options: dict[str, Any]) -> int:
    from scenarios.questions.reproducibility import reproducibility
    from scenarios.report.reproducibility_text import reproducibility_json, reproducibility_lines

    found = reproducibility(scenario, arm=options["arm"], at=options["at"])
    click.echo(reproducibility_json(found) if options["as_json"] else "\n".join(reproducibility_lines(found)))
    return 0


def _print(run: OneRun, *, whole: bool) -> None:
    from scenarios.report.run_text import request_lines, summary_lines

    click.echo("\n".join(summary_lines(run)))
    if whole:
        click.echo("\n" + "\n".join(request_lines(run)))
