"""`specdec decide`: verdict, report, files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.errors import DoesNotFit
from scenarios.cli.options import asked_workers, scenario_options, scenario_table

if TYPE_CHECKING:
    from scenarios.build import Service
    from scenarios.questions.decide import Decision


@click.command()
@click.argument("scenario", required=False)
@scenario_options
@click.option("--out", metavar="DIR", help="Write result.json, loads.csv and two figures there.")
@click.option("--report", metavar="FILE", help="Write a self-contained HTML page to forward.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, nothing else.")
@click.option("--explain", is_flag=True, help="Add the byte and FLOP account of one step, term by term.")
@click.option("--workers", metavar="N", help="Processes; default: all cores. The result does not depend on it.")
def command(scenario: str | None, **options: Any) -> int:
    """Say whether speculative decoding pays, up to which load and with how many drafts.

    SCENARIO is a TOML file or a preset's name (`specdec list presets`); options lie over it.
    """
    from scenarios.cli.progress import load_progress
    from scenarios.files import check_can_write, scenario_from_dict

    if options["out"]:
        check_can_write(Path(options["out"]))
    if options["report"]:
        check_can_write(Path(options["report"]).absolute().parent, option="--report")
    table, origin = scenario_table(scenario, options)
    workers = asked_workers(options["workers"])
    with load_progress(quiet=options["as_json"]) as progress:
        from scenarios.build import build_service
        from scenarios.questions.decide import decide_service

        try:
            service = build_service(scenario_from_dict(table, origin=origin))
        except DoesNotFit as error:
            if options["as_json"]:
                click.echo(json.dumps({"verdict": "INFEASIBLE", "answer": f"INFEASIBLE: {error}"}, indent=2))
            raise
        decision = decide_service(service, workers=workers, progress=progress)
    _print(service, decision, as_json=options["as_json"], explain=options["explain"])
    if options["out"]:
        from scenarios.report.files import write_decision

        write_decision(decision, Path(options["out"]))
        click.echo(f"\nwritten to {options['out']}: result.json, loads.csv, two figures", err=options["as_json"])
    if options["report"]:
        _write_report(service, decision, table, Path(options["report"]))
        click.echo(f"\nwritten to {options['report']}", err=options["as_json"])
    return 4 if decision.saturated_everywhere else 0


def _write_report(service: Service, decision: Decision, table: dict[str, Any], file: Path) -> None:
    """The page, with the findings of `specdec check` where its rules cover the engine."""
    from scenarios.check.checking import check
    from scenarios.check.reading import ENGINES, CheckOptions, read_setup
    from scenarios.files import write_text_at_once
    from scenarios.report.html_decision import decision_page

    covered = decision.scenario.engine.profile in ENGINES
    checked = check(read_setup(table, CheckOptions())) if covered else None
    write_text_at_once(file, decision_page(service, decision, checked=checked))


def _print(service: Service, decision: Decision, *, as_json: bool, explain: bool) -> None:
    if as_json:
        from scenarios.report.files import decision_json

        sys.stdout.write(decision_json(decision))
        return
    from scenarios.report.decision_text import decision_text

    head, _, rest = decision_text(decision).partition("\n")
    click.echo(click.style(head, bold=True))
    click.echo(rest)
    if explain:
        from scenarios.report.explain import explain_lines

        click.echo("\n" + "\n".join(explain_lines(service, decision)))
