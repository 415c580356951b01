"""`specdec check`: traps of a serving configuration, and the seven don'ts."""

from __future__ import annotations

from typing import Any

import click

from scenarios.cli.options import scenario_options, scenario_table

EXIT_STOP = 3


@click.command()
@click.argument("scenario", required=False)
@scenario_options
@click.option("--file", metavar="FILE", help="TensorRT-LLM or vLLM YAML, or a script with one serve line.")
@click.option("--engine-version", metavar="V", help="Release served with, e.g. 0.15.1 or b5142; default: current.")
@click.option("--bench", multiple=True, metavar="LINE", help="Load-generator line behind your numbers, repeatable.")
@click.option("--metric", multiple=True, metavar="NAME[=VALUE[@K]]", help="Figure you judge by: itl, acceptance_rate=…")
@click.option("--against", metavar="LINE", help="A second serve line that is compared with this one.")
@click.option("--exact", is_flag=True, help="The service needs the same tokens as without speculation.")
@click.option("--simulate", is_flag=True, help="Evaluate the seven don'ts on the scenario by simulation.")
@click.option("--brief", is_flag=True, help="Leave out what passed.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON, nothing else.")
def command(scenario: str | None, **options: Any) -> int:
    """Find what the engine refuses, what silently costs, and what misleads, before anything is simulated.

    Takes a serve command of vLLM, SGLang, TensorRT-LLM or llama.cpp (--serve), a file (--file), or a SCENARIO with
    options over it. Exits with 3 where a finding says stop, 2 for input that does not read, else 0.
    """
    from scenarios.check.checking import check
    from scenarios.check.reading import CheckOptions, read_setup
    from scenarios.report.check_text import check_json, check_lines

    table, origin = scenario_table(scenario, options)
    extra = CheckOptions(
        file=options["file"],
        engine_version=options["engine_version"],
        benchmarks=options["bench"],
        figures=options["metric"],
        against=options["against"],
        exact=options["exact"],
    )
    setup = read_setup(table, extra)
    report = check(setup)
    if options["simulate"]:
        from scenarios.check.limits import with_limits

        report = with_limits(report, setup, table, origin=origin)
    click.echo(check_json(report) if options["as_json"] else "\n".join(check_lines(report, brief=options["brief"])),
               nl=not options["as_json"])  # fmt: skip
    return EXIT_STOP if report.verdict == "stop" else 0
