"""`specdec validate` from the command line, on a file of a user's own."""

import json

import pytest

from scenarios.cli.main import run as run_command

HEADER = (
    "id,source_id,hardware,n_gpus,tp,engine,target_model,method,k,load_type,load_value,input_len,output_len,"
    "mean_accept_len_tau,metric,speedup,simulable\n"
)
GOOD = "X1,mine,H100,1,1,vLLM,Llama-3.1-8B-Instruct,eagle3,3,batch_size,1,100,300,2.8,tpot_ms,1.9,full\n"
UNKNOWN = "X2,mine,Cerebras WSE-3,1,1,vLLM,Llama-3.1-8B-Instruct,eagle3,3,batch_size,1,100,300,2.8,tpot_ms,1.9,full\n"
UNREADABLE = "X3,mine,H100,1,one,vLLM,Llama-3.1-8B-Instruct,eagle3,3,batch_size,1,100,300,2.8,tpot_ms,1.7,full\n"


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(HEADER + GOOD + UNKNOWN + UNREADABLE, encoding="utf-8")
    return file


def run(*arguments):
    return run_command(["validate", *map(str, arguments)])


def test_hardware_nobody_knows_and_cells_that_are_no_numbers_stop_nothing(table, tmp_path, capsys):
    assert run("--data", table, "--out", tmp_path / "out", "--workers", 1) == 0
    shown = capsys.readouterr()
    assert "serving engines: 2 rows of 1 sources" in shown.out
    assert "3 rows read, 1 not computed" in shown.out
    assert "mine.csv, line 4 (X3), column 'tp': must be a number above 0, got 'one'" in shown.err
    content = json.loads((tmp_path / "out" / "validation.json").read_text())
    family = next(one for one in content["families"] if one["name"] == "serving engines")
    assert {"name", "n", "sources", "median_abs_error", "p90_abs_error", "bias", "slower_caught"} <= set(family)
    assert (family["n"], content["rows"], content["computed"]) == (2, 3, 2)
    lines = (tmp_path / "out" / "validation.csv").read_text().splitlines()
    assert "Cerebras WSE-3" in lines[2]
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "validation.json", "validation.csv", "validation.md", "result.json", "scatter.png", "residuals.png",
    }  # fmt: skip


def test_strict_says_so_with_its_exit_code(table):
    assert run("--data", table, "--strict", "--workers", 1) == 2


def test_a_missing_column_is_named_once_and_the_rest_runs(tmp_path, capsys):
    file = tmp_path / "short.csv"
    file.write_text((HEADER + GOOD).replace("simulable", "another"), encoding="utf-8")
    assert run("--data", file, "--workers", 1) == 0
    assert capsys.readouterr().err.count("column 'simulable': missing") == 1


def test_a_family_nobody_is_of_is_refused(table, capsys):
    assert run("--data", table, "--family", "quantum", "--workers", 1) == 2
    assert "quantum" in capsys.readouterr().err


def test_the_page_is_written_where_it_is_asked_for(table, tmp_path):
    page = tmp_path / "page.md"
    assert run("--data", table, "--report", page, "--workers", 1) == 0
    text = page.read_text()
    assert text.startswith("# Validation: predicted beside measured")
    assert "constant S/AL" in text
    assert "drafting is free" in text
