"""`specdec sweep`: a scenario over axes, into a folder that a killed sweep goes on from."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.cli.options import asked_workers, scenario_options, scenario_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from scenarios.sweeps.axes import Axis
    from scenarios.sweeps.best import Watched
    from scenarios.sweeps.sweeping import Settings
    from scenarios.sweeps.workers import Workers


@click.command()
@click.argument("scenario", required=False)
@scenario_options
@click.option("--axis", multiple=True, metavar="FIELD=VALUES", help="1,2,4 or 1..32/6 or '1..32/6 log'; repeatable.")
@click.option("--zip", "together", multiple=True, metavar="FIELD=VALUES", help="Axes that advance together; repeat.")
@click.option("--random", "random_samples", metavar="N", help="So many random points of the axes, not their grid.")
@click.option("--sobol", "sobol_samples", metavar="N", help="So many points of a Sobol sequence.")
@click.option("--out", metavar="DIR", required=True, help="The dataset; the same sweep goes on from there.")
@click.option("--best", metavar="COLUMN", help="What to rank by; default tpot_speedup.")
@click.option("--workers", metavar="N", help="Processes; 1: none but this one; default: all cores.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, tcp://host:8786, instead of processes.")
@click.option("--json", "as_json", is_flag=True, help="Print the best rows as JSON, nothing else.")
def command(scenario: str | None, **options: Any) -> int:
    """Answer SCENARIO at every point of its axes, on paired seeds.

    A field is named as in a scenario file: workload.rate_per_s, hardware.gpu, acceptance.alpha.
    """
    from scenarios.files import check_can_write, scenario_from_dict, write_text_at_once
    from scenarios.sweeps.sweeping import sweep

    folder = Path(options["out"])
    check_can_write(folder)
    axes = _axes(options["axis"], options["together"])
    settings = _settings(options["random_samples"], options["sobol_samples"], options["best"])
    table, origin = scenario_table(scenario, options)
    with _progress(quiet=options["as_json"]) as watch:
        done = sweep(
            scenario_from_dict(table, origin=origin),
            axes,
            out=folder,
            settings=settings,
            executor=_workers(options["workers"], options["scheduler"]),
            watch=watch,
        )
    from scenarios.report.sweep_text import sweep_json, sweep_lines
    from scenarios.sweeps.summary import table_csv

    write_text_at_once(folder / "table.csv", table_csv(done.table))
    click.echo(sweep_json(done) if options["as_json"] else "\n".join(sweep_lines(done)), nl=not options["as_json"])
    click.echo(f"written to {folder}: results.parquet (every seed), table.csv (every scenario)", err=options["as_json"])
    return 0


def _axes(each: tuple[str, ...], together: tuple[str, ...]) -> tuple[Axis, ...]:
    from scenarios.sweeps.axes import axes_of, parse_axis, zipped

    axes = [parse_axis(text) for text in each]
    if together:
        axes.append(zipped([parse_axis(text) for text in together]))
    return axes_of(axes)


def _settings(random_samples: str | None, sobol_samples: str | None, best: str | None) -> Settings:
    from scenarios.sweeps.sweeping import Settings

    if random_samples and sobol_samples:
        raise InvalidInput("--random and --sobol are two ways to sample; keep one")
    if random_samples:
        return Settings("random", notation.whole(random_samples, field="--random", example="200"), best)
    if sobol_samples:
        return Settings("sobol", notation.whole(sobol_samples, field="--sobol", example="256"), best)
    return Settings(rank_by=best)


def _workers(workers: str | None, scheduler: str | None) -> Workers:
    from scenarios.sweeps.workers import DaskCluster, InProcess, Processes

    if scheduler is not None:
        if workers is not None:
            raise InvalidInput("--workers counts processes of this machine, --scheduler asks a cluster; keep one")
        return DaskCluster(scheduler)
    count = asked_workers(workers)
    return InProcess() if count == 1 else Processes(count)


@contextmanager
def _progress(*, quiet: bool) -> Generator[Callable[[Watched], None] | None]:
    """A bar with the time left and the best so far, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[best]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scenarios", total=None, best="")

        def told(now: Watched) -> None:
            bar.update(task, completed=now.done, total=now.total, best=now.best)

        yield told
