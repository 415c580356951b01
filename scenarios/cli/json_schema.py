"""`specdec schema`: the JSON schema of scenario files."""

from __future__ import annotations

import json

import click


@click.command()
def command() -> None:
    """Print the JSON schema of scenario files."""
    from scenarios.schema import Scenario

    click.echo(json.dumps(Scenario.model_json_schema(), indent=2))
