"""The `specdec` command: finds the subcommand, runs it, turns errors into one sentence and an exit code.

Exit codes: 0 answered, 2 bad input, 3 does not fit, 4 saturated at every load.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from roofline.errors import DoesNotFit, SpecdecError

COMMANDS = {
    "decide": (
        "scenarios.cli.decide",
        "Does speculative decoding pay, up to which load, with how many drafts?",
    ),
    "plan": ("scenarios.cli.plan", "How many GPUs, of which type, for a load and its objectives?"),
    "simulate": ("scenarios.cli.simulate", "One arm at one load, with a table of its requests."),
    "sweep": ("scenarios.cli.sweep", "A scenario over axes of any field, resumable, on one core or a cluster."),
    "compare": ("scenarios.cli.compare", "Two scenarios, and the term that makes the difference."),
    "import": ("scenarios.cli.import_measured", "Your benchmark files, metrics, logs or traces as a scenario."),
    "check": ("scenarios.cli.check", "Traps of a serving configuration, and the seven don'ts."),
    "chapter": ("scenarios.cli.chapter", "The course chapter's claims L1 to L16, computed and judged."),
    "validate": ("scenarios.cli.validate", "Predictions against published measurements: how far off, by family."),
    "acceptance": ("scenarios.cli.acceptance", "Acceptance: matching on your logs, a real model on text."),
    "figures": ("scenarios.cli.figures", "The figures of the course, with their data, or one page of them."),
    "init": ("scenarios.cli.init", "Write a commented scenario to start from."),
    "list": ("scenarios.cli.listing", "Names of gpus, models, engines or presets."),
    "show": ("scenarios.cli.show", "One catalogue entry or preset with its numbers and sources."),
    "schema": ("scenarios.cli.json_schema", "JSON schema of scenario files."),
    "calibrate": ("scenarios.cli.calibrate", "Measure a machine, fit its constants."),
}
EXIT_BAD_INPUT = 2
EXIT_INFEASIBLE = 3


class LazyGroup(click.Group):
    """Imports a command's module only when that command is called, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        return import_module(COMMANDS[cmd_name][0]).command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, but an unknown name lists the known ones."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}; commands are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"specdec-sim {version('specdec-sim')}")
        except PackageNotFoundError:
            click.echo("specdec-sim (not installed)")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print it.")
def cli() -> None:
    """Say, before anything is deployed, whether speculative decoding pays."""


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; wrong input is one sentence on stderr."""
    try:
        result: Any = cli.main(args=arguments, prog_name="specdec", standalone_mode=False)
    except DoesNotFit as error:
        click.echo(f"INFEASIBLE: {error}", err=True)
        return EXIT_INFEASIBLE
    except SpecdecError as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "specdec"
        click.echo(f"error: {error.format_message().rstrip('.')} (see `{where} --help`)", err=True)
        return EXIT_BAD_INPUT
    except click.Abort:
        click.echo("stopped", err=True)
        return 130
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the `specdec` command."""
    sys.exit(run())
