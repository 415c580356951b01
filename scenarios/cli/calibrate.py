"""`specdec calibrate run | fit | report`: measure a machine, fit its constants, show both side by side."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from roofline.errors import InvalidInput
from scenarios.cli.import_tables import command as import_tables_command

if TYPE_CHECKING:
    from collections.abc import Generator

    from calibrate.report import Report
    from calibrate.run import Progress, RunPlan

DRY_RUN_GPU = "H200-SXM"
FOLDER = click.Path(path_type=Path, file_okay=False)
_TIME_TEXT = re.compile(r"^(\d+(?:\.\d+)?)(s|min|h)?$")
_SECONDS_PER = {"s": 1.0, "min": 60.0, "h": 3600.0, None: 1.0}


@click.group(commands=[import_tables_command])
def command() -> None:
    """Measure a machine, fit its constants, show predicted beside measured speed-ups."""


@command.command("run")
@click.option("--device", type=click.Choice(["cuda", "cpu"]), help="Default: cuda where there is one.")
@click.option("--preset", default="small", show_default=True, help="tiny, small, 8b or 70b-shard.")
@click.option("--dtype", type=click.Choice(["bf16", "fp32", "int8"]), default="bf16", show_default=True)
@click.option("--context", type=click.IntRange(32), help="Tokens in the cache; default: the preset's.")
@click.option("--budget", default="6min", show_default=True, help="Time for everything: 90s, 6min, 1h.")
@click.option("--loops", is_flag=True, help="Time continuous loops instead of most rounds.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--dry-run", is_flag=True, help="Print every job with its estimate and measure nothing.")
@click.option("--gpu", default=DRY_RUN_GPU, show_default=True, help="Catalogue GPU of --dry-run.")
@click.option("--out", type=FOLDER, help="Folder for rows.jsonl; an interrupted run there is continued.")
def run_command(
    device: str | None, preset: str, dtype: str, context: int | None, budget: str, loops: bool, seed: int,
    dry_run: bool, gpu: str, out: Path | None,
) -> None:  # fmt: skip
    """Time components and whole rounds, shuffled together, within a budget."""
    started_s = time.monotonic()
    plan = _plan(device, preset, dtype=dtype, context=context, budget_s=budget_seconds(budget))
    plan = replace(plan, seed=seed, loops=loops)
    if dry_run:
        _print_dry_run(plan, gpu)
        return
    if out is None:
        raise InvalidInput("--out is missing; give a folder for the rows, or --dry-run")
    _measure(plan, out, started_s)
    click.echo(f"rows are in {out}; next: specdec calibrate report {out}")


@command.command("fit")
@click.argument("folder", type=FOLDER)
def fit_command(folder: Path) -> None:
    """Rows -> calibration.json; can be redone from the raw rows at any time."""
    from calibrate.calibrating import calibrate_folder, write_calibration

    calibration = calibrate_folder(folder)
    path = write_calibration(calibration, folder)
    click.echo(f"{path}: {calibration.name}, {'stable' if calibration.verdict.stable else 'NOT STABLE'}")
    for reason in calibration.verdict.reasons:
        click.echo(f"  {reason}")


@command.command("report")
@click.argument("folder", type=FOLDER)
def report_command(folder: Path) -> None:
    """Predicted beside measured: table, figures, report.json; fits first where that was not done."""
    from calibrate.calibrating import CALIBRATION_FILE, calibrate_folder, write_calibration
    from calibrate.measurements import read_rows, read_run_record, rows_hash
    from calibrate.plot import write_figures
    from calibrate.report import report_on, write_report
    from roofline.calibration import load_calibration

    rows = read_rows(folder)
    path = folder / CALIBRATION_FILE
    calibration = load_calibration(path) if path.exists() else None
    if calibration is None or calibration.rows_sha256 != rows_hash(rows):
        calibration = calibrate_folder(folder)
        write_calibration(calibration, folder)
    report = report_on(rows, read_run_record(folder), calibration=calibration)
    write_report(report, folder)
    write_figures(report, folder)
    _print_report(report)
    click.echo(f"report.json, calibration.json and figures are in {folder}")


def budget_seconds(text: str) -> float:
    """Seconds of `90s`, `6min`, `1h` or a bare number of seconds."""
    found = _TIME_TEXT.match(text.strip())
    if not found or float(found[1]) <= 0:
        raise InvalidInput(f"--budget must be a time like 90s, 6min or 1h, got {text!r}; give one")
    return float(found[1]) * _SECONDS_PER[found[2]]


def _plan(device: str | None, preset: str, *, dtype: str, context: int | None, budget_s: float) -> RunPlan:
    from calibrate.presets import PRESETS
    from calibrate.run import RunPlan

    if preset not in PRESETS:
        raise InvalidInput(f"--preset must be one of {', '.join(PRESETS)}, got {preset!r}; choose one")
    chosen = device or _present_device()
    if chosen == "cuda" and dtype == "int8":
        raise InvalidInput("--dtype int8 is measured on CPUs only, got it with cuda; use --dtype bf16")
    return RunPlan(
        preset=PRESETS[preset],
        dtype=dtype,  # type: ignore[arg-type] # click has checked the choice
        device=chosen,
        context_tokens=context or PRESETS[preset].context_tokens,
        budget_s=budget_s,
    )


def _torch_is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None


def _present_device() -> str:
    if not _torch_is_there():
        return "cpu"
    import calibrate.engine.device as present

    return present.best_device()


def _measure(plan: RunPlan, out: Path, started_s: float) -> None:
    from calibrate.environment import record, restart_with_settings
    from calibrate.run import run

    if not _torch_is_there():
        raise InvalidInput(
            "measuring needs torch, which is not installed; install specdec-sim[calibrate] (fit and report do without)"
        )
    if plan.device == "cpu":
        restart_with_settings()
    from calibrate.engine.bench import Bench
    from calibrate.engine.device import describe, require

    require(plan.device)

    def make_bench() -> Bench:
        return Bench(plan.preset, plan.dtype, device=plan.device, context_tokens=plan.context_tokens, seed=plan.seed)

    with _progress() as show:
        run(
            plan, out, make_measurer=make_bench, environment={**record(), **describe(plan.device)},
            started_s=started_s, show=show,
        )  # fmt: skip


@contextmanager
def _progress() -> Generator[Callable[[Progress], None]]:
    """A bar over the budget with the time left; silent where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        BarColumn(), TextColumn("{task.fields[left]}"), TimeElapsedColumn(), TextColumn("{task.description}"),
        console=Console(stderr=True),
    )  # fmt: skip
    with bar:
        task = bar.add_task("building models", total=1.0, left="")

        def show(state: Progress) -> None:
            left_s = max(0.0, state.budget_s - state.spent_s)
            bar.update(
                task, completed=state.spent_s, total=state.budget_s, left=f"{left_s:.0f} s left",
                description=f"repetition {state.repetition + 1}, {state.what}",
            )  # fmt: skip

        yield show


def _print_dry_run(plan: RunPlan, gpu_name: str) -> None:
    from calibrate.dry_run import dry_run
    from calibrate.dry_run_text import dry_run_lines
    from roofline.catalog import gpu

    result = dry_run(plan, gpu(gpu_name))
    for line in dry_run_lines(plan, result, gpu_name=gpu_name):
        click.echo(line)
    if not (result.fits_memory and result.fits_budget):
        limit = "the budget" if result.fits_memory else f"the memory of {gpu_name}"
        raise InvalidInput(f"preset {plan.preset.name} does not fit {limit}; choose a smaller preset or raise --budget")


def _print_report(report: Report) -> None:
    from rich.console import Console

    from calibrate.tables import report_tables

    console = Console()
    for part in report_tables(report):
        console.print(part)
