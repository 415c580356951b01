"""`specdec chapter` at the command line: what it prints and writes, and what it refuses."""

import json

import pytest

from scenarios.cli.main import run


def test_rows_are_printed_with_verdict_numbers_and_labels(capsys):
    assert run(["chapter", "L10"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("row")
    assert "IN PART" in printed
    assert "20.3 tok/s" in printed or "tok/s  plain, bf16, vLLM kernels [calibrated]" in printed
    assert "(Q016)" in printed


def test_a_page_json_or_a_folder_with_both_is_written(tmp_path, capsys):
    assert run(["chapter", "L6", "--out", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text().startswith("# The chapter")
    assert run(["chapter", "L6", "--out", str(tmp_path / "rows.json")]) == 0
    [row] = json.loads((tmp_path / "rows.json").read_text())
    assert (row["id"], row["verdict"]) == ("L6", "in part")
    assert run(["chapter", "L6", "--out", str(tmp_path / "both")]) == 0
    assert sorted(file.name for file in (tmp_path / "both").iterdir()) == ["chapter.json", "chapter.md"]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["L17"], "row must be one of L1"),
        (["L6", "--out", "page.pdf"], "must end in .md or .json"),
        (["L6", "--seed", "-1"], "--seed"),
        (["L6", "--out", "/proc/none/page.md"], "write"),
    ],
)
def test_wrong_input_is_one_sentence(arguments, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["chapter", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
