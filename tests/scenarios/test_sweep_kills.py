"""Sweeps that are killed, and clusters that lose a worker: what comes out is what an undisturbed sweep gives."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofline.errors import InvalidInput
from scenarios import load_scenario
from scenarios.sweeps.sweeping import sweep
from scenarios.sweeps.workers import DaskCluster, InProcess, Processes
from tests.source_tree import ROOT

LINE = [sys.executable, "-m", "scenarios", "sweep", "llama8b_h100_chat", "--seeds", "2"]
PATIENCE_S = 600.0


def scenario(requests):
    """The scenario of `LINE`."""
    table = load_scenario("llama8b_h100_chat").model_dump(exclude_unset=True)
    table["workload"]["requests"] = requests
    return type(load_scenario("llama8b_h100_chat")).model_validate({**table, "run": {"seeds": 2}})


def options(axes, requests):
    listed = [f"--axis={field}={','.join(str(value) for value in values)}" for field, values in axes.items()]
    return [*listed, "--requests", str(requests)]


def chunks(out: Path) -> int:
    return len(list((out / "chunks").glob("*.parquet")))


def kill_when(line: list[str], out: Path, *, finished: int, later_s: float) -> bool:
    """Kill -9 a sweep and its workers once so many chunks are there; False where it ended before."""
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    stop = time.monotonic() + PATIENCE_S
    while process.poll() is None and chunks(out) < finished and time.monotonic() < stop:
        time.sleep(0.005)
    time.sleep(later_s)
    ended = process.poll() is not None
    if not ended:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return not ended


def test_a_killed_sweep_goes_on_where_it_stopped_and_gives_the_same_bytes(tmp_path):
    axes = {"workload.rate_per_s": [5.0, 10.0, 20.0], "acceptance.alpha": [0.3, 0.5, 0.7, 0.9]}
    out = tmp_path / "killed"
    line = [*LINE, *options(axes, 300), "--workers", "1", "--out", str(out)]
    assert kill_when(line, out, finished=3, later_s=0.02)
    kept = chunks(out)
    assert 3 <= kept < 12
    resumed = sweep(scenario(300), axes, out=out, executor=InProcess())
    assert resumed.restored == kept
    undisturbed = sweep(scenario(300), axes, out=tmp_path / "whole", executor=InProcess())
    assert resumed.results.read_bytes() == undisturbed.results.read_bytes()


@pytest.mark.slow
def test_a_sweep_killed_at_twenty_moments_gives_the_same_bytes(tmp_path):
    axes = {
        "workload.rate_per_s": [5.0 + step for step in range(20)],
        "acceptance.alpha": [0.3 + 0.05 * step for step in range(12)],
    }
    undisturbed = sweep(scenario(300), axes, out=tmp_path / "whole", executor=Processes(2))
    out = tmp_path / "killed"
    line = [*LINE, *options(axes, 300), "--workers", "2", "--out", str(out)]
    moments = random.Random(8)
    kills = 0
    for kill in range(20):
        before = chunks(out) if out.exists() else 0
        finished = min(before + moments.randrange(0, 12), 230)
        kills += kill_when(line, out, finished=finished, later_s=moments.random() * 0.5)
        after = chunks(out) if out.exists() else 0
        assert after >= before, f"kill {kill} lost chunks"
    assert kills == 20
    kept = chunks(out)
    resumed = sweep(scenario(300), axes, out=out, executor=Processes(2))
    assert resumed.restored == kept
    assert resumed.results.read_bytes() == undisturbed.results.read_bytes()


@pytest.mark.slow
def test_a_parent_that_is_killed_alone_takes_its_workers_along(tmp_path):
    axes = {"workload.rate_per_s": [5.0 + step for step in range(40)]}
    out = tmp_path / "a"
    line = [*LINE, *options(axes, 300), "--workers", "2", "--out", str(out)]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    stop = time.monotonic() + PATIENCE_S
    while process.poll() is None and chunks(out) < 2 and time.monotonic() < stop:
        time.sleep(0.01)
    process.kill()
    process.wait()
    while time.monotonic() < stop and _alive_in_group(process.pid):
        time.sleep(0.1)
    assert not _alive_in_group(process.pid)


def _alive_in_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own, when its worker is killed
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_bytes(tmp_path):
    distributed = pytest.importorskip("distributed")
    axes = {"workload.rate_per_s": [5.0 + step for step in range(12)], "acceptance.alpha": [0.3, 0.5, 0.7, 0.9]}
    undisturbed = sweep(scenario(300), axes, out=tmp_path / "whole", executor=InProcess())
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        killed = []

        def kill_one(now):
            if now.done >= 10 and not killed:
                worker = next(iter(cluster.workers.values()))
                killed.append(worker.pid)
                os.kill(worker.pid, signal.SIGKILL)

        address = cluster.scheduler_address
        done = sweep(scenario(300), axes, out=tmp_path / "a", executor=DaskCluster(address), watch=kill_one)
        assert killed
        assert done.results.read_bytes() == undisturbed.results.read_bytes()
    more = {**axes, "speculation.draft_tokens": [1]}
    with pytest.raises(InvalidInput, match="nobody answers there"):
        sweep(scenario(300), more, out=tmp_path / "b", executor=DaskCluster(address, connect_s=2.0))


MANY = """
import resource, sys
from concurrent.futures import Executor, Future
from scenarios import load_scenario, sweep
from scenarios.sweeps.sweeping import Settings

class Told(Executor):
    '''Answers without simulating.'''
    def submit(self, fn, /, chunk):
        row = {"status": "answered", "reason": "", "tpot_speedup": 1.5, "on_saturated": False}
        places = [(chunk.first + offset, seed) for offset in range(len(chunk.tables)) for seed in range(chunk.seeds)]
        future = Future()
        future.set_result([{**row, "scenario": scenario, "seed": seed} for scenario, seed in places])
        return future

axes = {"workload.rate_per_s": "2..40 log", "acceptance.alpha": "0.3..0.9"}
settings = Settings("sobol", int(sys.argv[2]))
sweep(load_scenario("llama8b_h100_chat"), axes, out=sys.argv[1], settings=settings, executor=Told())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_ten_times_as_many_scenarios_take_hardly_more_memory(tmp_path):
    used_kibibytes = []
    for count in (2_000, 20_000):
        line = [sys.executable, "-c", MANY, str(tmp_path / str(count)), str(count)]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        used_kibibytes.append(int(done.stdout))
    assert used_kibibytes[1] - used_kibibytes[0] < 100 * 1024
