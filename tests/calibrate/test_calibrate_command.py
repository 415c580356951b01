"""The command: fit and report without torch, errors in one sentence, durations, the dry run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from calibrate.calibrating import CALIBRATION_FILE
from calibrate.measurements import RowWriter, write_run_record
from roofline.calibration import load_calibration
from roofline.errors import InvalidInput
from scenarios.cli.calibrate import budget_seconds, command
from tests.calibrate.synthetic import RECORD, rows_of

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import roofline, simulator, calibrate, scenarios
from scenarios.cli.main import run
assert run(["calibrate", "report", sys.argv[1]]) == 0
assert run(["calibrate", "run", "--device", "cuda", "--preset", "8b", "--dry-run"]) == 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run")
    writer = RowWriter(path)
    for row in rows_of(repetitions=9, noise=0.02):
        writer.append(row)
    writer.close()
    write_run_record(path, RECORD)
    return path


def test_fit_and_report_work_without_torch_and_leave_all_files(folder: Path):
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder)], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "stable" in done.stdout
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    wanted = {
        "cells", "median_abs_error", "p90_abs_error", "max_abs_error", "noise_floor", "regret_mean",
        "right_side_share", "textbook_median_abs_error",
    }  # fmt: skip
    assert wanted <= set(content)
    assert len(content["cells"]) == 48
    calibration = load_calibration(folder / CALIBRATION_FILE)
    assert calibration.label == "calibrated"
    assert calibration.domain.batch == (1, 32)
    for name in ("predicted_vs_measured", "speedup_over_draft_tokens", "round_cost_by_term", "error_by_batch"):
        assert (folder / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("6min", 360.0), ("1h", 3600.0), ("45", 45.0)])
def test_budgets_are_read_with_their_unit(text: str, seconds: float):
    assert budget_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "six", "-5s", "0", "6 minutes"])
def test_a_budget_that_is_no_time_is_refused(text: str):
    with pytest.raises(InvalidInput, match="--budget must be a time"):
        budget_seconds(text)


def test_an_unknown_preset_is_refused_with_the_known_ones():
    result = CliRunner().invoke(command, ["run", "--preset", "huge", "--dry-run", "--device", "cpu"])
    assert isinstance(result.exception, InvalidInput)
    assert "tiny, 8b" in str(result.exception) or "small" in str(result.exception)


def test_a_run_needs_a_folder():
    result = CliRunner().invoke(command, ["run", "--preset", "tiny", "--device", "cpu"])
    assert isinstance(result.exception, InvalidInput)
    assert "--out is missing" in str(result.exception)


def test_a_plan_that_does_not_fit_is_refused_after_its_table():
    result = CliRunner().invoke(command, ["run", "--device", "cuda", "--preset", "8b", "--dry-run", "--budget", "30s"])
    assert isinstance(result.exception, InvalidInput)
    assert "does not fit the budget" in str(result.exception)
    assert "round target B128 q9" in result.output
