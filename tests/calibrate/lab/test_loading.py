"""Unpacked models: a folder is there whole or not at all."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.lab.loading import UNPACKED, put_in_place


def whole(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True)
    for name in UNPACKED:
        (folder / name).write_text(content)
    return folder


def test_of_two_runs_that_unpack_at_once_the_first_stays(tmp_path):
    place = tmp_path / "model"
    put_in_place(whole(tmp_path / "one", "first"), place)
    put_in_place(whole(tmp_path / "two", "second"), place)
    assert {(place / name).read_text() for name in UNPACKED} == {"first"}


def test_a_folder_that_an_interrupted_run_left_is_replaced(tmp_path):
    place = whole(tmp_path / "model", "half")
    (place / UNPACKED[-1]).unlink()
    put_in_place(whole(tmp_path / "new", "new"), place)
    assert {(place / name).read_text() for name in UNPACKED} == {"new"}
