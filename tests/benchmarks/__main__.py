"""`make bench`: prints `name=value` lines, asserts nothing. docs/benchmarks.md says how to read them."""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import yardstick
from tests.source_tree import ROOT

REPEATS_OF_HELP = 7


def _case(name: str, **environment: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.cases", name],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _process_s(command: list[str], **environment: str) -> tuple[float, float]:
    """Seconds on the clock and seconds of processor time of a command."""
    start_s, used_s = time.perf_counter(), _children_s()
    subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start_s, _children_s() - used_s


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def reference_load() -> Iterator[tuple[str, float]]:
    """Speed and memory on the reference load."""
    found = _case("reference_load")
    yardstick_s = found.pop("yardstick_compiled_s")
    yield from found.items()
    yield "simulated_requests_per_reference", found["simulated_requests_per_s"] * yardstick_s
    yield "reference_load_yardstick_compiled_s", yardstick_s


def load_points() -> Iterator[tuple[str, float]]:
    """A sweep of 32 loads, both arms."""
    found = _case("load_points")
    yardstick_s = found.pop("yardstick_compiled_s")
    for name, spent_s in found.items():
        yield name, spent_s
        yield f"{name.removesuffix('_s')}_per_reference", spent_s / yardstick_s
    yield "load_points_yardstick_compiled_s", yardstick_s


def replay() -> Iterator[tuple[str, float]]:
    """Token logs through the matchers, reading included."""
    found = _case("replay")
    yardstick_s = found.pop("yardstick_compiled_s")
    yield from found.items()
    for name in ("suffix", "ngram"):
        yield f"{name}_replayed_tokens_per_reference", found[f"{name}_replayed_tokens_per_cpu_s"] * yardstick_s
    yield "replay_yardstick_compiled_s", yardstick_s


def help_text() -> Iterator[tuple[str, float]]:
    """Start-up of the command line."""
    script = Path(sys.executable).parent / "specdec"
    command = [str(script)] if script.exists() else [sys.executable, "-m", "scenarios"]
    before_s = yardstick.python_s()
    spent_s = statistics.median(_process_s([*command, "--help"])[0] for _ in range(REPEATS_OF_HELP))
    yardstick_s = min(before_s, yardstick.python_s())
    yield "help_s", spent_s
    yield "help_per_reference", spent_s / yardstick_s
    yield "help_yardstick_python_s", yardstick_s


def first_simulation() -> Iterator[tuple[str, float]]:
    """A new process with nothing compiled yet, and the next one."""
    command = [sys.executable, "-m", "tests.benchmarks.cases", "small_simulation"]
    before_s = yardstick.python_s()
    with tempfile.TemporaryDirectory() as folder:
        first_s, first_cpu_s = _process_s(command, NUMBA_CACHE_DIR=folder)
        second_s, second_cpu_s = _process_s(command, NUMBA_CACHE_DIR=folder)
    yardstick_s = min(before_s, yardstick.python_s())
    yield "first_simulation_s", first_s
    yield "first_simulation_cpu_s", first_cpu_s
    yield "first_simulation_per_reference", first_cpu_s / yardstick_s
    yield "second_simulation_s", second_s
    yield "second_simulation_cpu_s", second_cpu_s
    yield "second_simulation_per_reference", second_cpu_s / yardstick_s
    yield "simulation_yardstick_python_s", yardstick_s


BENCHMARKS = {each.__name__: each for each in (reference_load, load_points, replay, help_text, first_simulation)}


def main() -> None:
    """Run the benchmarks named on the command line, or all; the first line is `simulated_requests_per_s`."""
    for name in sys.argv[1:] or BENCHMARKS:
        for line, value in BENCHMARKS[name]():
            print(f"{line}={value:.6g}", flush=True)


if __name__ == "__main__":
    main()
