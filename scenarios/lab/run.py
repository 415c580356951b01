"""Run the lab: load, train a head where one is asked for, measure cell by cell, keep each as it is finished."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from calibrate.lab.cells import Cell, ProposerAsked, measure_cell, middle_third_skipped
from calibrate.lab.head import Head
from calibrate.lab.loading import Loaded, load_folder, load_gemma
from calibrate.lab.plans import GEMMA, LoopPlan, TrainingPlan
from calibrate.lab.train_head import Told, load_head, save_head, train_from_ids
from calibrate.writing import make_folder, write_text_at_once
from roofline.errors import InvalidInput
from scenarios.lab.plan import LabPlan
from scenarios.lab.results import CellResult, cell_from_json, cell_to_json
from scenarios.lab.texts import TextSlice, chosen_slices, passages

Kept = TypeVar("Kept")
BYTES_PER_TOKEN = 8
"""Read per wanted token; text of the languages a tokenizer knows needs 2 to 5."""
COUNTED = 6
"""Text whose ids are counted for the head's vocabulary, in passages per window trained on."""
BYTE_PIECES_WORTH_A_WORD = 0.2


@dataclass(frozen=True, slots=True)
class LabRun:
    """What a run gives: its cells and what a reader must know of them."""

    plan: LabPlan
    model_name: str
    model_sha256: str
    cells: tuple[CellResult, ...]
    remarks: tuple[str, ...]


def run_lab(plan: LabPlan, out: Path, *, told: Told) -> LabRun:
    """Measure all cells into `out`, those already there left as they are.

    Raises
    ------
    InvalidInput
        The folder holds another plan, a text or a model cannot be used.
    """
    slices = chosen_slices(plan.tasks)
    _claim(out, plan)
    loaded = load(plan.model, told)
    asked = proposer_asked(plan, loaded, out=out, told=told)
    cells: list[CellResult] = []
    remarks: list[str] = []
    total = len(slices) * len(plan.temperatures)
    for index, text in enumerate(slices):
        prompts, share = prompts_of(text, loaded, plan)
        if share > BYTE_PIECES_WORTH_A_WORD:
            remarks.append(
                f"{text.name}: {share:.0%} of its tokens are single bytes, so this model's vocabulary does not know "
                "the script; its acceptance says little about a model that does"
            )
        for number, temperature in enumerate(plan.temperatures):
            told(
                f"measuring {text.name} at temperature {temperature:g}", index * len(plan.temperatures) + number, total
            )
            path = out / "cells" / f"{text.name}-{temperature:g}.json"
            loop = replace(plan.loop, temperature=temperature)
            cells.append(
                kept(path, cell_from_json) or _measured(path, (loaded, asked), text, prompts=prompts, loop=loop)
            )
    told("measured", total, total)
    return LabRun(plan, loaded.name, loaded.sha256, tuple(cells), tuple(remarks))


def load(model: str, told: Told) -> Loaded:
    """The model named, in bf16."""
    if model == GEMMA:
        return load_gemma(dtype="bf16", told=lambda text: told(text, 0, 1))
    return load_folder(Path(model), dtype="bf16")


def prompts_of(text: TextSlice, loaded: Loaded, plan: LabPlan) -> tuple[list[list[int]], float]:
    """Prompts of equal length from the measuring part of a slice, and the share of single-byte tokens in them.

    Raises
    ------
    InvalidInput
        There is not one passage long enough.
    """
    first = [] if loaded.first_id is None else [loaded.first_id]
    wanted = plan.prompt_tokens - len(first)
    texts = passages(
        text.for_measuring(), count=plan.prompts, length_bytes=BYTES_PER_TOKEN * wanted, seed=plan.loop.seed
    )
    encoded = [loaded.encode(passage)[:wanted] for passage in texts]
    whole = [first + ids for ids in encoded if len(ids) == wanted]
    if not whole:
        raise InvalidInput(
            f"{text.name}: no passage has {plan.prompt_tokens} tokens to start from; give a longer file, or a smaller "
            "--prompt-tokens"
        )
    pieces = [loaded.tokenizer.id_to_token(token) for ids in encoded for token in ids]
    return whole, sum(piece.startswith("<0x") for piece in pieces) / len(pieces)


def trained_head(loaded: Loaded, slices: tuple[TextSlice, ...], plan: TrainingPlan, *, told: Told) -> Head:
    """A head distilled on the training part of the slices, windows spread evenly over them."""
    first = [] if loaded.first_id is None else [loaded.first_id]
    wanted = plan.window_tokens - len(first)
    windows: list[list[int]] = []
    counted: list[int] = []
    for text in slices:
        count = -(-plan.window_count // len(slices))
        texts = passages(
            text.for_training(), count=COUNTED * count, length_bytes=BYTES_PER_TOKEN * wanted, seed=plan.seed
        )
        encoded = [loaded.encode(passage) for passage in texts]
        counted.extend(token for ids in encoded for token in ids)
        windows.extend(first + ids[:wanted] for ids in encoded[::COUNTED] if len(ids) >= wanted)
    if not windows:
        raise InvalidInput(f"no training text has {plan.window_tokens} tokens in a row; give longer files")
    return train_from_ids(loaded.model, windows, plan, counted=counted, told=told)


def proposer_asked(plan: LabPlan, loaded: Loaded, *, out: Path, told: Told) -> ProposerAsked:
    """The proposer of a plan, a head trained into `out` where none is named and none lies there."""
    if plan.proposer == "head":
        path = out / "head.safetensors" if plan.head is None else Path(plan.head) / "head.safetensors"
        if not path.exists():
            if plan.head is not None:
                raise InvalidInput(f"{plan.head} holds no head.safetensors; make it with specdec acceptance train-head")
            save_head(trained_head(loaded, _training_slices(plan), plan.training, told=told), path)
        return ProposerAsked("head", head=load_head(path, loaded.model))
    if plan.proposer == "draft":
        draft = load(str(plan.draft_model), told)
        if draft.tokenizer.get_vocab() != loaded.tokenizer.get_vocab():
            raise InvalidInput(
                "--proposer draft: the two vocabularies differ, so drafts mean other text; give one with the same"
            )
        return ProposerAsked("draft", draft=draft.model)
    return ProposerAsked(plan.proposer, kept_layers=middle_third_skipped(loaded.model.shape.layers))


def _training_slices(plan: LabPlan) -> tuple[TextSlice, ...]:
    """All shipped kinds, and the user's own files where they are measured on."""
    own = [text for text in chosen_slices(plan.tasks) if text.licence == "your own"]
    return (*chosen_slices(None), *own)


def _measured(
    path: Path, engine: tuple[Loaded, ProposerAsked], text: TextSlice, *, prompts: list[list[int]], loop: LoopPlan
) -> CellResult:
    loaded, asked = engine
    cell: Cell = measure_cell(loaded, asked, prompts=prompts, plan=loop)
    result = CellResult(text.name, text.task, text.licence, loop.temperature, cell)
    write_text_at_once(path, json.dumps(cell_to_json(result), indent=1) + "\n")
    return result


def kept(path: Path, read: Callable[[dict[str, Any]], Kept]) -> Kept | None:
    """What an earlier run has left in a cell's file; None where there is none.

    Raises
    ------
    InvalidInput
        The file is damaged.
    """
    if not path.exists():
        return None
    try:
        return read(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} cannot be read ({error!r}); delete it, and the cell is measured again") from error


def _claim(out: Path, plan: LabPlan) -> None:
    """Make the folder this plan's, or find that it is already."""
    make_folder(out / "cells")
    path = out / "plan.json"
    content: dict[str, Any] = json.loads(json.dumps(asdict(plan)))
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InvalidInput(f"{path} is not JSON ({error}); give another --out, or delete the folder") from error
        if found != content:
            differs = sorted(name for name in content if content[name] != found.get(name))
            raise InvalidInput(f"{out} holds a lab run with another {', '.join(differs)}; give another --out")
    write_text_at_once(path, json.dumps(content, indent=1) + "\n")
