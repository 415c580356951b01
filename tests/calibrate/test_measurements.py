"""Rows survive kills and corruption; a run continues where it ended; budgets hold."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from calibrate.calibrating import calibrate_rows
from calibrate.jobs import Job
from calibrate.measurements import (
    ROWS_FILE,
    RUN_FILE,
    RowWriter,
    read_rows,
    read_run_record,
    rows_hash,
    write_run_record,
)
from calibrate.presets import PRESETS
from calibrate.run import Measurer, Progress, RunPlan, order_of, run
from calibrate.timing import Sample
from roofline.errors import InvalidInput
from tests.calibrate.synthetic import RECORD, rows_of


@dataclass
class ConstantMachine:
    """Every job takes the same time; stops the run by an interrupt after some samples."""

    stop_after: int = 10**9
    measured: list[Job] = field(default_factory=list)
    sample_s: float = 0.0

    def measure(self, job: Job) -> tuple[Sample, float, int]:
        if len(self.measured) >= self.stop_after:
            raise KeyboardInterrupt
        self.measured.append(job)
        time.sleep(self.sample_s)
        return Sample(1e-3, 1.1e-3, 0, 0, 0.0), 1e-4, 0

    def warm_up(self, job: Job) -> None:
        pass


def silent(_: Progress) -> None:
    return None


def plan_of(budget_s: float) -> RunPlan:
    return RunPlan(PRESETS["tiny"], "fp32", "cpu", 32, budget_s)


def run_into(folder: Path, machine: Measurer, *, budget_s: float) -> None:
    run(
        plan_of(budget_s),
        folder,
        make_measurer=lambda: machine,
        environment={"cpu": "constant"},
        started_s=time.monotonic(),
        show=silent,
    )


def test_every_repetition_holds_every_job_once_in_another_order():
    jobs = plan_of(1.0).jobs()
    first, second = order_of(jobs, 0, seed=0), order_of(jobs, 1, seed=0)
    assert sorted(first, key=lambda job: job.key) == sorted(jobs, key=lambda job: job.key)
    assert first != second
    assert first == order_of(jobs, 0, seed=0)


def test_the_budget_is_kept_within_a_tenth(tmp_path: Path):
    began_s = time.monotonic()
    run_into(tmp_path, ConstantMachine(sample_s=0.005), budget_s=1.0)
    assert time.monotonic() - began_s == pytest.approx(1.0, rel=0.1)


def test_an_interrupted_run_continues_and_measures_nothing_twice(tmp_path: Path):
    jobs = plan_of(1.0).jobs()
    with pytest.raises(KeyboardInterrupt):
        run_into(tmp_path, ConstantMachine(stop_after=len(jobs) + 5), budget_s=60.0)
    before = read_rows(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_into(tmp_path, ConstantMachine(stop_after=len(jobs)), budget_s=60.0)
    rows = read_rows(tmp_path)
    assert rows[: len(before)] == before
    assert len(rows) == 2 * len(jobs) + 5
    assert len({(row.job, row.repetition) for row in rows}) == len(rows)
    assert [row.job for row in rows[: len(jobs)]] == order_of(jobs, 0, seed=0)


def test_time_spent_before_an_interruption_counts(tmp_path: Path):
    run_into(tmp_path, ConstantMachine(sample_s=0.005), budget_s=0.5)
    machine = ConstantMachine()
    run_into(tmp_path, machine, budget_s=0.5)
    assert machine.measured == []


def test_another_run_in_the_same_folder_is_refused(tmp_path: Path):
    run_into(tmp_path, ConstantMachine(sample_s=0.005), budget_s=0.1)
    with pytest.raises(InvalidInput, match="context_tokens = 32, asked for 64"):
        run(
            replace(plan_of(1.0), context_tokens=64),
            tmp_path,
            make_measurer=ConstantMachine,
            environment={},
            started_s=time.monotonic(),
            show=silent,
        )


KILLED = """
import sys, time
from pathlib import Path
from tests.calibrate.test_measurements import ConstantMachine, run_into
run_into(Path(sys.argv[1]), ConstantMachine(sample_s=0.002), budget_s=60.0)
"""


def test_rows_survive_kill_9(tmp_path: Path):
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    deadline_s = time.monotonic() + 30.0
    path = tmp_path / ROWS_FILE
    while time.monotonic() < deadline_s and (not path.exists() or path.read_bytes().count(b"\n") < 20):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL
    survived = len(read_rows(tmp_path))
    assert survived >= 20
    with pytest.raises(KeyboardInterrupt):
        run_into(tmp_path, ConstantMachine(stop_after=7), budget_s=60.0)
    assert len(read_rows(tmp_path)) == survived + 7


def test_the_fit_of_a_resumed_file_equals_that_of_an_uninterrupted_one(tmp_path: Path):
    rows = rows_of(repetitions=4, noise=0.03)
    (tmp_path / "whole").mkdir()
    (tmp_path / "resumed").mkdir()
    whole = RowWriter(tmp_path / "whole")
    for row in rows:
        whole.append(row)
    whole.close()
    first = RowWriter(tmp_path / "resumed")
    for row in rows[:100]:
        first.append(row)
    first.close()
    with (tmp_path / "resumed" / ROWS_FILE).open("a", encoding="utf-8") as file:
        file.write('{"job": {"kind": "rou')
    second = RowWriter(tmp_path / "resumed")
    for row in rows[100:]:
        second.append(row)
    second.close()
    with pytest.warns(UserWarning, match="line 101 is not a whole row"):
        resumed = read_rows(tmp_path / "resumed")
    assert resumed == read_rows(tmp_path / "whole")
    assert rows_hash(resumed) == rows_hash(rows)


@pytest.mark.slow
def test_equal_rows_give_equal_calibrations(tmp_path: Path):
    from datetime import date

    rows = rows_of(repetitions=4, noise=0.03)
    today = date(2026, 11, 29)
    assert calibrate_rows(rows, RECORD, today=today) == calibrate_rows(rows[::-1], RECORD, today=today)


@pytest.mark.parametrize("garbage", ['{"job": {"kind": "round"', "[1, 2]", '{"a": 1}', "\x00\x00"])
def test_a_corrupt_last_line_is_dropped_with_a_warning(tmp_path: Path, garbage: str):
    writer = RowWriter(tmp_path)
    for row in rows_of(repetitions=1)[:3]:
        writer.append(row)
    writer.close()
    with (tmp_path / ROWS_FILE).open("a", encoding="utf-8") as file:
        file.write(garbage)
    with pytest.warns(UserWarning, match="line 4 is not a whole row and was dropped"):
        assert len(read_rows(tmp_path)) == 3


def test_a_row_with_a_negative_or_missing_number_is_no_row(tmp_path: Path):
    writer = RowWriter(tmp_path)
    for row in rows_of(repetitions=1)[:2]:
        writer.append(row)
    writer.close()
    path = tmp_path / ROWS_FILE
    lines = path.read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[0])
    broken["busy_s"] = -1.0
    path.write_text("\n".join([json.dumps(broken), lines[1]]) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="line 1"):
        assert len(read_rows(tmp_path)) == 1


def test_missing_and_empty_folders_are_one_sentence(tmp_path: Path):
    with pytest.raises(InvalidInput, match="measure first"):
        read_rows(tmp_path)
    with pytest.raises(InvalidInput, match="folder of a calibration run"):
        read_run_record(tmp_path)
    (tmp_path / ROWS_FILE).write_text("", encoding="utf-8")
    with pytest.raises(InvalidInput, match="no whole row"):
        read_rows(tmp_path)


@pytest.mark.parametrize("content", ["[1, 2]", '"text"', "null"])
def test_a_run_record_that_is_no_object_is_one_sentence(tmp_path: Path, content: str):
    (tmp_path / RUN_FILE).write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match="must hold a JSON object"):
        read_run_record(tmp_path)


def test_a_folder_under_a_file_is_refused_before_anything_is_measured(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    machine = ConstantMachine()
    with pytest.raises(InvalidInput, match="the folder cannot be made"):
        run_into(tmp_path / "file" / "x", machine, budget_s=1.0)
    assert machine.measured == []


def test_files_that_cannot_be_written_are_one_sentence_and_leave_nothing(tmp_path: Path):
    blocked = tmp_path / "blocked"
    for name in (RUN_FILE, ROWS_FILE):
        (blocked / name / "inside").mkdir(parents=True)
    with pytest.raises(InvalidInput, match=r"run\.json cannot be written"):
        write_run_record(blocked, RECORD)
    with pytest.raises(InvalidInput, match=r"rows\.jsonl cannot be written"):
        RowWriter(blocked)
    with pytest.raises(InvalidInput, match=r"run\.json cannot be written"):
        write_run_record(tmp_path / "none", RECORD)
    assert sorted(file.name for file in blocked.iterdir()) == [ROWS_FILE, RUN_FILE]
