"""`specdec list`: names that can be used."""

from __future__ import annotations

import click


@click.command()
@click.argument("what", type=click.Choice(["gpus", "models", "engines", "presets"]))
def command(what: str) -> None:
    """List names: gpus, models, engines, or presets (shipped scenarios and tasks)."""
    for name in names(what):
        click.echo(name)


def names(what: str) -> list[str]:
    """Names of one kind, sorted; presets are scenarios and, with their prefix, tasks."""
    if what == "presets":
        from scenarios.files import preset_names
        from scenarios.task_presets import task_names

        return [*preset_names(), *(f"--task {name}" for name in task_names())]
    from roofline import catalog

    return sorted({"gpus": catalog.gpu_names, "models": catalog.model_names, "engines": catalog.engine_names}[what]())
