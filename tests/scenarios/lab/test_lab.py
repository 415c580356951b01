"""`specdec acceptance lab`: texts, resuming, files it leaves, and what it refuses."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from roofline.errors import InvalidInput  # noqa: E402
from scenarios.cli.main import run as specdec  # noqa: E402
from scenarios.lab.texts import SMALL_TEXTS, TASKS, Stretch, chosen_slices, passages  # noqa: E402
from tests.calibrate.lab.folders import LLAMA, write_folder  # noqa: E402

QUICK = ("--prompts", "4", "--prompt-tokens", "24", "--answer-tokens", "8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_folder(tmp_path_factory.mktemp("lab") / "bytes", LLAMA)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text("".join(f"{line}: the quick brown fox jumps over the lazy dog\n" for line in range(60)))
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = specdec(["acceptance", "lab", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("proposer", ["layer-skip", "ngram", "suffix"])
def test_a_run_leaves_json_table_fragment_and_figures(capsys, tmp_path, model, text, proposer):
    out = tmp_path / "out"
    code, printed, _ = run(capsys, "--model", model, "--tasks", text, "--proposer", proposer, *QUICK, "--out", out)
    assert code == 0
    assert "measured" in printed
    content = json.loads((out / "acceptance.json").read_text())
    rounds = content["cells"][0]["rounds_by_drafted_accepted"]
    assert sum(map(sum, rounds)) > 0
    assert (out / "acceptance.csv").read_text().count("\n") == 2
    proposed = sum(map(sum, rounds[1:])) > 0
    assert (out / "fragment-notes-0.8.toml").exists() is proposed
    assert (out / "acceptance_by_position-0.8.png").exists() is proposed


def test_an_interrupted_run_goes_on_with_the_cells_it_has(capsys, tmp_path, model, text):
    words = ("--model", model, "--tasks", text, "--proposer", "layer-skip", *QUICK, "--temperature", "0.5")
    words = (*words, "--temperature", "1")
    whole, part = tmp_path / "whole", tmp_path / "part"
    run(capsys, *words, "--out", whole)
    run(capsys, *words, "--out", part)
    kept = part / "cells" / "notes.txt-0.5.json"
    (part / "cells" / "notes.txt-1.json").unlink()
    (part / "acceptance.json").unlink()
    before = kept.stat().st_mtime_ns
    run(capsys, *words, "--out", part)
    assert kept.stat().st_mtime_ns == before
    assert (part / "acceptance.json").read_bytes() == (whole / "acceptance.json").read_bytes()


def test_a_folder_of_another_plan_is_left_alone(capsys, tmp_path, model, text):
    words = ("--model", model, "--tasks", text, "--proposer", "layer-skip", *QUICK, "--out", tmp_path / "out")
    run(capsys, *words)
    code, _, error = run(capsys, *words, "-k", "2")
    assert code == 2
    assert "holds a lab run with another loop" in error


def test_speed_is_timed_once_and_kept(capsys, tmp_path, model, text):
    out = tmp_path / "out"
    words = ("--model", model, "--tasks", text, "--proposer", "layer-skip", *QUICK, "--speed", "--out", out)
    code, first, _ = run(capsys, *words)
    assert code == 0
    assert "median |error|" in first
    (timed,) = json.loads((out / "acceptance.json").read_text())["speed"]
    assert timed["predicted_speedup"] == pytest.approx(timed["acceptance_length"] * timed["plain_s"] / timed["round_s"])
    assert "notes.txt" in first.split("S measured")[1]
    before = (out / "acceptance.json").read_bytes()
    run(capsys, *words)
    assert (out / "acceptance.json").read_bytes() == before
    (out / "cells" / "notes.txt-0.8.speed.json").write_text("{")
    code, _, error = run(capsys, *words)
    assert code == 2
    assert "cannot be read" in error


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--tasks", "poetry"), "'poetry' is neither a task (code, json, prose, chat, agent) nor a file"),
        (("--proposer", "oracle"), "--proposer 'oracle' is not known; give ngram, suffix, head, layer-skip or draft:"),
        (("--model", "missing"), "neither 'gemma' nor a folder"),
        (("--proposer", "ngram", "--head", "x"), "--head goes with --proposer head"),
    ],
)
def test_what_is_not_known_is_refused(capsys, tmp_path, model, words, sentence):
    asked = ("--model", model, "--proposer", "layer-skip", "--out", tmp_path / "out", *words)
    code, _, error = run(capsys, *asked)
    assert code == 2
    assert sentence in error


def test_an_empty_file_and_one_that_is_no_text_are_refused(capsys, tmp_path, model):
    empty, binary = tmp_path / "empty.txt", tmp_path / "binary.txt"
    empty.write_text("")
    binary.write_bytes(bytes(range(128, 256)) * 64)
    asked = ("--model", model, "--proposer", "layer-skip", *QUICK, "--out", tmp_path / "out", "--tasks")
    assert "is empty" in run(capsys, *asked, empty)[2]
    assert "is not text in UTF-8" in run(capsys, *asked, binary)[2]


def test_a_text_too_short_for_a_passage_is_refused(capsys, tmp_path, model):
    short = tmp_path / "short.txt"
    short.write_text("only a few words")
    asked = ("--model", model, "--proposer", "layer-skip", *QUICK, "--out", tmp_path / "out", "--tasks", short)
    assert "no passage has 24 tokens to start from" in run(capsys, *asked)[2]


def test_a_huge_file_is_not_read_whole(tmp_path):
    huge = tmp_path / "huge.txt"
    with huge.open("wb") as stream:
        for place in range(8):
            stream.seek(place * (1 << 27))
            stream.write(b"words and words again " * 400)
    os.truncate(huge, 1 << 30)
    whole = Stretch(huge, 0, 8800)
    assert all(len(each) == 100 for each in passages((whole,), count=5, length_bytes=100, seed=1))
    with pytest.raises(InvalidInput, match="is not text in UTF-8 near byte"):
        passages((Stretch(huge, 0, 1 << 30),), count=5, length_bytes=100, seed=1)


def test_training_and_measuring_share_no_byte():
    for text_slice in chosen_slices(None):
        assert text_slice.for_measuring()
        assert text_slice.for_training()
        for shown in text_slice.for_measuring():
            for learnt in text_slice.for_training():
                apart = shown.end <= learnt.first or learnt.end <= shown.first
                assert shown.file != learnt.file or apart


def seen_fraction(text_slice) -> float:
    """Of the stretches of 80 characters in the measuring part, those that stand in the training part too."""

    def stretches(parts: tuple[Stretch, ...]) -> set[str]:
        texts = (" ".join(part.text(part.first, part.end - part.first).split()) for part in parts)
        return {text[at : at + 80] for text in texts for at in range(len(text) - 80)}

    measured = stretches(text_slice.for_measuring())
    return len(measured & stretches(text_slice.for_training())) / len(measured)


def test_what_is_measured_hardly_stands_in_what_is_learnt_from():
    # Configs and tables of one kind share their keys; prose, chat and logs share nothing.
    limits = {"json": 0.4, "code": 0.1, "prose": 0.15}
    for text_slice in chosen_slices(None):
        if text_slice.name != "python-library":  # 4 MB, and slow
            assert seen_fraction(text_slice) <= limits.get(text_slice.task, 0.0), text_slice.name


def test_every_task_has_text_here_and_the_shipped_texts_hold_whole_passages():
    assert {each.task for each in chosen_slices(None)} == set(TASKS)
    assert all(path.stat().st_size > 1000 for path in SMALL_TEXTS.glob("*/*.txt"))
    assert len(chosen_slices(None)) >= 8


def test_passages_are_the_same_for_the_same_seed_and_cover_the_files():
    stretches = chosen_slices("chat")[0].for_training()
    first = passages(stretches, count=8, length_bytes=200, seed=3)
    assert first == passages(stretches, count=8, length_bytes=200, seed=3)
    assert len(set(first)) == 8
