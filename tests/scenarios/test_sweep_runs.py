import errno
import json
import math
import os
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

import scenarios
from roofline.errors import InvalidInput, UnknownName
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.report.sweep_text import sweep_lines
from scenarios.sweeps.cells import run_chunk, scenario_rows
from scenarios.sweeps.dispatch import MOST_ATTEMPTS, computed
from scenarios.sweeps.keys import cell_key
from scenarios.sweeps.store import Store, row_schema
from scenarios.sweeps.summary import summarised
from scenarios.sweeps.sweeping import Settings, sweep
from scenarios.sweeps.workers import DaskCluster, InProcess

ALONE = InProcess()


def small(**changes):
    """An 8B model on one H100 and few short requests: a cell takes milliseconds."""
    content = {
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"length": "2.5@3"},
        "workload": {
            "kind": "poisson", "rate_per_s": 5.0, "requests": 40, "input_tokens": 200,
            "output_tokens": {"mean_tokens": 60, "sigma": 0.5},
        },
        "run": {"seeds": 2},
    }  # fmt: skip
    return scenario_from_dict({**content, **changes})


AXES = {"workload.rate_per_s": [2.0, 20.0], "acceptance.alpha": [0.4, 0.7, 0.9]}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished sweep, and what somebody who watched it was told."""
    told = []
    done = sweep(small(), AXES, out=tmp_path_factory.mktemp("sweep") / "out", executor=ALONE, watch=told.append)
    return done, told


def test_a_sweep_gives_one_row_a_scenario_and_seed_in_order(finished):
    done, told = finished
    cells = done.cells
    assert list(zip(cells["scenario"], cells["seed"], strict=True)) == [(i, s) for i in range(6) for s in range(2)]
    assert set(cells["status"]) == {"answered"}
    assert cells["key"].is_unique
    assert (done.scenarios, done.seeds, done.restored) == (6, 2, 0)
    assert told[-1].done == told[-1].total == 6
    assert "tpot_speedup" in told[-1].best
    assert "alpha 0.9" in told[-1].best


def test_a_cell_is_what_simulating_it_alone_gives(finished):
    done, _ = finished
    cell = done.cells.query("`acceptance.alpha` == 0.7 and `workload.rate_per_s` == 20.0 and seed == 1").iloc[0]
    alone = scenario_rows(small(acceptance={"alpha": 0.7}, workload={**workload(), "rate_per_s": 20.0}).model_dump(), 2)
    for name in ("off_tpot_p50_s", "on_ttft_p95_s", "tpot_speedup", "on_acceptance_length", "round_draft"):
        assert cell[name] == alone[1][name]


def workload():
    return small().workload.model_dump()


def test_seeds_are_paired_over_scenarios(finished):
    """Plain decoding does not know the acceptance, and every scenario serves the same requests."""
    done, _ = finished
    for _, same in done.cells.groupby(["workload.rate_per_s", "seed"]):
        assert same["off_tpot_p50_s"].nunique() == 1


def test_the_table_ranks_scenarios_with_student_t_intervals_over_seeds(finished):
    done, _ = finished
    table = done.table
    assert list(table["tpot_speedup"]) == sorted(table["tpot_speedup"], reverse=True)
    first = table.iloc[0]
    logs = np.log(done.cells.query(f"scenario == {first['scenario']}")["tpot_speedup"].to_numpy())
    half = 12.7062 * logs.std(ddof=1) / math.sqrt(2)  # Student's t, 97.5 %, one degree of freedom
    assert first["tpot_speedup"] == pytest.approx(math.exp(logs.mean()))
    assert first["tpot_speedup_high"] == pytest.approx(math.exp(logs.mean() + half), rel=1e-4)


def test_what_the_interval_cannot_tell_from_the_best_is_a_tie(finished):
    done, _ = finished
    cells = done.cells.query("seed < 2").copy()
    rng_free = {0: (1.50, 1.70), 1: (1.49, 1.71), 2: (1.40, 1.5867), 3: (1.0, 1.1), 4: (1.0, 1.0), 5: (0.9, 0.9)}
    cells["tpot_speedup"] = [rng_free[i][s] for i, s in zip(cells["scenario"], cells["seed"], strict=True)]
    table = summarised(cells, axes=done.axes, metric="tpot_speedup").set_index("scenario")
    assert table.index[0] == 0
    assert bool(table.loc[1, "tie"])  # 0.7 % worse with one seed and 0.6 % better with the other
    assert not bool(table.loc[2, "tie"])  # its own interval is as wide, but every pair says 7 % worse


def test_scenarios_whose_arm_does_not_keep_up_come_last(finished):
    done, _ = finished
    cells = done.cells.copy()
    cells.loc[cells["scenario"] == done.table.iloc[0]["scenario"], "on_saturated"] = True
    assert summarised(cells, axes=done.axes, metric="tpot_speedup").iloc[-1]["on_saturated"] == 1
    assert not summarised(cells, axes=done.axes, metric="off_tpot_p95_s").iloc[0]["off_saturated"]


def test_the_report_names_the_best_its_interval_and_the_labels(finished):
    done, _ = finished
    text = "\n".join(sweep_lines(done))
    assert text.startswith("6 scenarios x 2 seeds: 6 answered; 0 saturated (on arm)")
    assert "acceptance.alpha = 0.9" in text
    assert "calibrated step times" in text


def test_a_finished_sweep_is_read_and_not_computed_again(finished, tmp_path):
    done, _ = finished
    before = done.results.read_bytes()
    again = sweep(small(), AXES, out=done.folder, executor=Refusing())
    assert again.restored == 6
    assert again.results.read_bytes() == before


class Refusing(Executor):
    """Nobody may ask it for anything."""

    def submit(self, fn, /, *args, **kwargs):
        raise AssertionError("nothing was missing")


def test_missing_and_broken_chunks_alone_are_computed_again(tmp_path):
    done = sweep(small(), AXES, out=tmp_path / "a", executor=ALONE)
    before = done.results.read_bytes()
    (done.folder / "chunks" / "00000001.parquet").unlink()
    (done.folder / "chunks" / "00000004.parquet").write_bytes(b"PAR1 cut off")
    (done.folder / "chunks" / "00000005.part").write_bytes(b"never renamed")
    done.results.unlink()
    again = sweep(small(), AXES, out=done.folder, executor=ALONE)
    assert again.restored == 4
    assert again.results.read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"axes": {"workload.rate_per_s": [2.0]}}, "its axes differ"),
        ({"seeds": 3}, "its seeds is 2, now 3"),
        ({"settings": Settings("random", 4)}, "its design differs"),
        ({"gpu": "H200-SXM"}, "its base differs"),
    ],
)
def test_a_folder_with_another_sweep_is_refused_and_left_alone(finished, changes, words):
    done, _ = finished
    before = {file: file.stat().st_mtime_ns for file in done.folder.rglob("*")}
    scenario = small(run={"seeds": changes.get("seeds", 2)}, hardware={"gpu": changes.get("gpu", "H100-SXM")})
    with pytest.raises(InvalidInput, match=f"holds another sweep.*{words}"):
        sweep(scenario, changes.get("axes", AXES), out=done.folder, settings=changes.get("settings"), executor=ALONE)
    assert {file: file.stat().st_mtime_ns for file in done.folder.rglob("*")} == before


def test_a_sweep_of_another_version_is_another_sweep(finished):
    done, _ = finished
    description = json.loads((done.folder / "sweep.json").read_text())
    old = {**description, "version": "0.0.1+abc"}
    (done.folder / "sweep.json").write_text(json.dumps(old))
    with pytest.raises(InvalidInput, match=r"its version is 0\.0\.1\+abc, now"):
        sweep(small(), AXES, out=done.folder, executor=ALONE)
    (done.folder / "sweep.json").write_text(json.dumps(description))


def test_a_folder_that_holds_other_files_or_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"holds other files and no sweep\.json"):
        sweep(small(), AXES, out=tmp_path / "mine", executor=ALONE)
    with pytest.raises(InvalidInput, match="no folder you may write to"):
        sweep(small(), AXES, out=tmp_path / "mine" / "notes.txt" / "below", executor=ALONE)


def test_scenarios_that_cannot_be_answered_keep_their_rows_with_the_reason(tmp_path):
    axes = {"hardware.gpu": ["H100-SXM", "RTX-4090"], "target.model": ["meta-llama/Llama-3.1-70B-Instruct"]}
    plain = small(speculation={}, acceptance=None, hardware={"gpu": "H100-SXM", "tensor_parallel": 2})
    done = sweep(plain, axes, out=tmp_path / "a", executor=ALONE)
    by_gpu = done.cells.set_index("hardware.gpu")
    assert set(by_gpu.loc["RTX-4090", "status"]) == {"infeasible"}
    assert "RTX-4090" in by_gpu.loc["RTX-4090", "reason"].iloc[0]
    assert by_gpu.loc["RTX-4090", "off_tpot_p50_s"].isna().all()


def test_an_axis_of_which_every_value_is_wrong_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(InvalidInput, match=r"axis acceptance\.alpha: .*less than or equal to 1"):
        sweep(small(), {"acceptance.alpha": [1.5, 2.0]}, out=tmp_path / "a", executor=ALONE)
    assert not (tmp_path / "a").exists()


def test_several_loads_of_the_scenario_are_an_axis_of_the_sweep(tmp_path):
    scenario = small(loads={"factors": [0.5, 2.0]})
    done = sweep(scenario, {"acceptance.alpha": [0.7]}, out=tmp_path / "a", executor=ALONE)
    assert done.axes == ("acceptance.alpha", "loads.factors")
    assert sorted(set(done.cells["load"])) == [2.5, 10.0]


def test_without_acceptance_plain_decoding_is_simulated_and_nothing_is_invented():
    [row] = scenario_rows(small(acceptance=None).model_dump(), 1)
    assert row["off_tpot_p50_s"] > 0
    assert "on_tpot_p50_s" not in row
    assert "acceptance is not given" in row["reason"]


def test_the_key_depends_on_scenario_seed_version_and_files_but_not_on_names():
    table = small().model_dump(mode="json")
    key = cell_key(table, 0, version="1", files={})
    assert cell_key({**table, "name": "other"}, 0, version="1", files={}) == key
    others = [
        cell_key({**table, "slo": ["tpot=1ms"]}, 0, version="1", files={}),
        cell_key(table, 1, version="1", files={}),
        cell_key(table, 0, version="2", files={}),
        cell_key(table, 0, version="1", files={"trace.csv": "abc"}),
    ]
    assert len({key, *others}) == 5


def test_a_trace_whose_content_changed_is_another_sweep(tmp_path):
    trace = tmp_path / "trace.csv"
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{second},100,20" for second in range(30))]
    trace.write_text("\n".join(lines))
    scenario = small(workload={"kind": "trace", "path": str(trace)}, run={"seeds": 1})
    assert sweep(scenario, {"acceptance.alpha": [0.7]}, out=tmp_path / "a", executor=ALONE).cells["load"][0] == 1.0
    trace.write_text("\n".join([*lines, "31,100,20"]))
    from scenarios.sweeps import keys

    keys._file_digest.cache_clear()  # a new process would read the file again
    with pytest.raises(InvalidInput, match="its files differs"):
        sweep(scenario, {"acceptance.alpha": [0.7]}, out=tmp_path / "a", executor=ALONE)


@dataclass
class Dying:
    """Workers that die with the chunks they hold, the first `deaths` times that a chunk of `victims` is handed out."""

    victims: set[int]
    deaths: int
    opened: int = 0
    killed: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def open(self):
        self.opened += 1
        yield _DyingPool(self), 2


class _DyingPool(Executor):
    def __init__(self, workers):
        self.workers, self.broken = workers, False

    def submit(self, fn, /, *args, **kwargs):
        [chunk] = args
        future = Future()
        count = self.workers.killed.get(chunk.index, 0)
        if chunk.index in self.workers.victims and count < self.workers.deaths:
            self.workers.killed[chunk.index] = count + 1
            self.broken = True
        if self.broken:
            future.set_exception(BrokenExecutor("a worker was killed"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_chunks_of_dead_workers_are_computed_again_with_the_same_results(finished, tmp_path):
    done, _ = finished
    dying = Dying(victims={0, 3, 5}, deaths=2)
    again = sweep(small(), AXES, out=tmp_path / "a", executor=dying)
    assert dying.opened > 3
    assert again.results.read_bytes() == done.results.read_bytes()


def test_a_chunk_that_always_kills_its_worker_is_given_up_and_the_rest_is_kept(tmp_path):
    with pytest.raises(InvalidInput, match=f"scenarios 4 to 4 died {MOST_ATTEMPTS} times.*is kept"):
        sweep(small(), AXES, out=tmp_path / "a", executor=Dying(victims={4}, deaths=99))
    kept = len(list((tmp_path / "a" / "chunks").glob("*.parquet")))
    assert kept >= 3
    assert sweep(small(), AXES, out=tmp_path / "a", executor=ALONE).restored == kept


def test_chunks_are_drawn_only_as_workers_come_free():
    drawn = []

    def chunks():
        for index in range(1000):
            drawn.append(index)
            yield index

    for place, (chunk, _) in enumerate(computed((_Numbered(i) for i in chunks()), lambda chunk: [], ALONE)):
        assert chunk.index == place
        assert len(drawn) <= place + 3


@dataclass(frozen=True)
class _Numbered:
    index: int


@dataclass(frozen=True, slots=True)
class FullDisk(Store):
    """A disk with room for so many chunks."""

    room: int = 0

    def save(self, file, rows, keys):
        if len(list(file.parent.glob("*.parquet"))) >= self.room:
            file.write_bytes(b"half of")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        Store.save(self, file, rows, keys)


def test_a_disk_that_fills_up_loses_no_finished_chunk(finished, tmp_path):
    done, _ = finished
    (tmp_path / "chunks").mkdir()
    rows = done.cells.query("scenario == 0").to_dict(orient="records")
    store = FullDisk(tmp_path, row_schema([]), room=2)
    for index in (0, 1):
        store.write(index, rows, f"keys {index}")
    with pytest.raises(InvalidInput, match=r"the disk is full\); the 2 chunks that were finished are kept"):
        store.write(2, rows, "keys 2")
    assert store.has(0, "keys 0")
    assert store.has(1, "keys 1")
    assert not store.has(2, "keys 2")
    assert not list(tmp_path.rglob("*.part"))


def test_a_worker_of_another_version_or_without_the_files_is_refused(finished):
    from scenarios.sweeps.cells import Chunk
    from scenarios.sweeps.keys import code_version

    table = small().model_dump(mode="json")
    with pytest.raises(InvalidInput, match=r"a worker runs specdec-sim .* but the sweep is made by 9\.9"):
        run_chunk(Chunk(0, 0, (table,), 1, version="9.9", files={}))
    with pytest.raises(InvalidInput, match=r"does not see elsewhere\.csv"):
        run_chunk(Chunk(0, 0, (table,), 1, version=code_version(), files={"elsewhere.csv": "abc"}))


def test_a_scheduler_that_nobody_answers_at_is_one_sentence_and_keeps_what_is_there(finished):
    pytest.importorskip("distributed")
    done, _ = finished
    (done.folder / "chunks" / "00000005.parquet").unlink()
    with pytest.raises(InvalidInput, match=r"--scheduler tcp://127\.0\.0\.1:9: nobody answers there.*is kept"):
        sweep(small(), AXES, out=done.folder, executor=DaskCluster("tcp://127.0.0.1:9", connect_s=0.5))
    assert sweep(small(), AXES, out=done.folder, executor=ALONE).restored == 5


def test_scenarios_sweep_is_the_function():
    assert scenarios.sweep is sweep


def test_the_command_sweeps_goes_on_and_writes_a_table(capsys, tmp_path):
    out = tmp_path / "out"
    line = [
        "sweep", "llama8b_h100_chat", "--requests", "40", "--seeds", "2", "--workers", "1", "--out", str(out),
        "--zip", "acceptance.alpha=0.5,0.8", "--zip", "speculation.draft_tokens=1,3", "--axis", "workload.rate_per_s=4",
    ]  # fmt: skip
    assert run(line) == 0
    assert "2 scenarios x 2 seeds: 2 answered" in capsys.readouterr().out
    assert run([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["restored"] == 2
    assert (out / "table.csv").read_text().startswith("scenario,load,")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--axis", "workload.rate=1"], "names no field"),
        (["--random", "3", "--sobol", "3"], "keep one"),
        (["--random", "0"], "--random must be a whole number"),
        (["--workers", "2", "--scheduler", "tcp://x:1"], "keep one"),
        (["--best", "speed"], "is no column"),
    ],
)
def test_bad_options_are_one_sentence_and_leave_nothing(capsys, tmp_path, options, words):
    assert run(["sweep", "llama8b_h100_chat", "--out", str(tmp_path / "a"), *options]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "a").exists()


def test_an_unknown_column_names_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match="tpot_speedup"):
        sweep(small(), AXES, out=tmp_path / "a", executor=ALONE, settings=Settings(rank_by="tpot_speed"))
