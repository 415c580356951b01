"""`specdec acceptance lab | train-head`: acceptance measured on real text with a real model, offline."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrate.lab.plans import GEMMA, LoopPlan, ProposerKind, TrainingPlan
from roofline.errors import InvalidInput
from scenarios.cli.progress import work_progress
from scenarios.lab.plan import LabPlan

if TYPE_CHECKING:
    from scenarios.lab.run import LabRun

FOLDER = click.Path(path_type=Path, file_okay=False)
PROPOSERS = ("ngram", "suffix", "head", "layer-skip")
LAB, TRAINING = LabPlan(), TrainingPlan()
"""What is done unless options say otherwise."""


@click.command()
@click.option("--model", default=GEMMA, show_default=True, help="gemma, or a Hugging Face folder.")
@click.option("--proposer", default="head", show_default=True, help="ngram, suffix, head, layer-skip or draft:FOLDER.")
@click.option("--head", "head_folder", type=FOLDER, help="Folder of a trained head. Default: train one into --out.")
@click.option("--tasks", help="Of code, json, prose, chat, agent, or files of your own, by comma. Default: all five.")
@click.option("--temperature", "temperatures", type=click.FloatRange(0.0, 4.0), multiple=True, help="Default: 0.8.")
@click.option(
    "--draft-tokens", "-k", type=click.IntRange(1, 16), default=LAB.loop.draft_tokens, show_default=True, help="K."
)
@click.option(
    "--prompts", type=click.IntRange(2, 256), default=LAB.prompts, show_default=True, help="Passages of a slice."
)
@click.option(
    "--prompt-tokens",
    type=click.IntRange(8, 8192),
    default=LAB.prompt_tokens,
    show_default=True,
    help="Real tokens each.",
)
@click.option(
    "--answer-tokens",
    type=click.IntRange(4, 4096),
    default=LAB.loop.answer_tokens,
    show_default=True,
    help="Tokens generated.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of passages, training, sampling.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Cores used.")
@click.option("--speed", is_flag=True, help="Also time the loop: measured against predicted speed-up.")
@click.option("--out", type=FOLDER, required=True, help="Folder of the results; an interrupted run goes on there.")
def lab_command(**options: Any) -> int:
    """Measure acceptance and target entropy on real text with the real accept and reject loop."""
    plan = _plan(options)
    out: Path = options["out"]
    _use(plan.model, options["threads"])
    from scenarios.lab.run import run_lab
    from scenarios.lab.text import run_lines
    from scenarios.lab.writing import write_run

    began_s = time.monotonic()
    with work_progress() as told:
        run = run_lab(plan, out, told=told)
    click.echo("\n".join(run_lines(run)))
    speed = _timed(run, out) if options["speed"] else []
    written = write_run(run, speed, out)
    click.echo(f"\nwrote {', '.join(path.name for path in written)} to {out} ({time.monotonic() - began_s:.0f} s)")
    return 0


@click.command()
@click.argument("folder", metavar="DIR", type=FOLDER)
@click.option("--model", default=GEMMA, show_default=True, help="gemma, or a Hugging Face folder.")
@click.option("--tasks", help="As for lab: what the head learns from.")
@click.option(
    "--windows",
    type=click.IntRange(8, 100_000),
    default=TRAINING.window_count,
    show_default=True,
    help="Stretches of text.",
)
@click.option(
    "--first-layers",
    "first_layers_fraction",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=TRAINING.first_layers_fraction,
    show_default=True,
    help="Share of the target's layers under the head.",
)
@click.option(
    "--epochs", type=click.IntRange(1, 100), default=TRAINING.epochs, show_default=True, help="Times over them."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of text and training.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Cores used.")
def train_head_command(folder: Path, **options: Any) -> int:
    """Distil a small EAGLE-like head from the model on local text into DIR, in minutes on one core."""
    _use(options["model"], options["threads"])
    from calibrate.lab.train_head import save_head
    from calibrate.writing import make_folder
    from scenarios.lab.run import load, trained_head
    from scenarios.lab.texts import chosen_slices

    make_folder(folder)
    plan = TrainingPlan(
        window_count=options["windows"],
        epochs=options["epochs"],
        first_layers_fraction=options["first_layers_fraction"],
        seed=options["seed"],
    )
    with work_progress() as told:
        head = trained_head(load(options["model"], told), chosen_slices(options["tasks"]), plan, told=told)
    save_head(head, folder / "head.safetensors")
    click.echo(f"wrote head.safetensors to {folder}; specdec acceptance lab --head {folder} measures it")
    return 0


def _plan(options: dict[str, Any]) -> LabPlan:
    kind, draft = _proposer(options["proposer"])
    head: Path | None = options["head_folder"]
    if head is not None and kind != "head":
        raise InvalidInput(f"--head goes with --proposer head, not {kind}; remove one of them")
    loop = LoopPlan(options["draft_tokens"], options["answer_tokens"], 0.0, options["seed"])
    return LabPlan(
        model=options["model"],
        proposer=kind,
        draft_model=draft,
        head=None if head is None else str(head),
        tasks=options["tasks"],
        temperatures=options["temperatures"] or LAB.temperatures,
        prompts=options["prompts"],
        prompt_tokens=options["prompt_tokens"],
        loop=loop,
        training=TrainingPlan(seed=options["seed"]),
    )


def _proposer(given: str) -> tuple[ProposerKind, str | None]:
    if given.startswith("draft:") and len(given) > len("draft:"):
        return "draft", given.removeprefix("draft:")
    for kind in PROPOSERS:
        if given == kind:
            return kind, None
    raise InvalidInput(f"--proposer {given!r} is not known; give {', '.join(PROPOSERS)} or draft:FOLDER")


def _use(model: str, threads: int) -> None:
    """State the licence before anything is read, then bind torch to its cores."""
    missing = [name for name in ("torch", "tokenizers", "safetensors") if find_spec(name) is None]
    if missing:
        raise InvalidInput(
            f"the lab needs {', '.join(missing)} of the extra [lab], not installed here; pip install 'specdec-sim[lab]'"
        )
    from calibrate.lab.loading import GEMMA_NOTICE, use_threads

    if model == GEMMA:
        click.echo(GEMMA_NOTICE, err=True)
    use_threads(threads)


def _timed(run: LabRun, out: Path) -> list[Any]:
    from scenarios.lab.speed import time_cells
    from scenarios.lab.text import speed_lines

    with work_progress() as told:
        cells = time_cells(run, out, told=told)
    click.echo("\n".join(speed_lines(cells)))
    return cells
