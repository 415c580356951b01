"""What is measured in a process of its own: `python -m tests.benchmarks.cases NAME` prints its numbers as JSON."""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from scenarios.build import Arm, Service, build_service
from scenarios.files import TRACE_FOLDER, scenario_from_dict
from scenarios.imports.token_logs import TokenLog
from scenarios.questions.decide import decide_service
from scenarios.questions.replay import replay_log
from simulator.acceptance import LengthAcceptance
from simulator.matchers import NgramMatcher, SuffixMatcher
from simulator.replica import Speculation, simulate
from simulator.rng import Streams
from simulator.workload import Workload, make_workload, poisson_arrivals
from tests.benchmarks import yardstick

PROMPT_TOKENS, OUTPUT_TOKENS = 512, 256
RATE_PER_S, REQUESTS = 40.0, 1_000_000
DRAFT_TOKENS, ACCEPTANCE = 3, LengthAcceptance(2.5, 3)
LOAD_POINTS, POINT_REQUESTS = 32, 2_000
LOG_COPIES = 28  # of the shipped token logs, a million response tokens
SCENARIO = {
    "schema_version": 1,
    "name": "reference load",
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": {
        "method": "eagle3",
        "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B",
        "draft_tokens": DRAFT_TOKENS,
    },
    "acceptance": {"length": "2.5@3"},
    "workload": {
        "kind": "poisson",
        "rate_per_s": RATE_PER_S,
        "requests": POINT_REQUESTS,
        "input_tokens": {"mean_tokens": PROMPT_TOKENS},
        "output_tokens": {"mean_tokens": OUTPUT_TOKENS},
    },
    "loads": {"rates_per_s": [float(rate) for rate in np.geomspace(1.0, 40.0, LOAD_POINTS)]},
    "run": {"seeds": 1},
}


def _load(requests: int, rate_per_s: float) -> Workload:
    arrivals_s = poisson_arrivals(requests, rate_per_s, Streams(0).get("arrivals"))
    return make_workload(
        arrivals_s,
        prompt_tokens=np.full(requests, PROMPT_TOKENS),
        output_tokens=np.full(requests, OUTPUT_TOKENS),
    )


def _run(arm: Arm, load: Workload):
    acceptance = (ACCEPTANCE,) if arm.costs.max_draft_tokens else ()
    speculation = Speculation(arm.proposer, arm.policy, acceptance)
    return simulate(load, costs=arm.costs, limits=arm.limits, speculation=speculation, seed=0)


def _arms() -> tuple[Service, Arm, Arm]:
    service = build_service(scenario_from_dict(SCENARIO))
    assert service.on is not None
    return service, service.off, service.on


def reference_load() -> dict[str, float]:
    """The load of the README's speed claim, speculating arm, compiled code warm."""
    _, _, on = _arms()
    _run(on, _load(2_000, RATE_PER_S))
    load = _load(REQUESTS, RATE_PER_S)
    start_s = time.perf_counter()
    result = _run(on, load)
    spent_s = time.perf_counter() - start_s
    assert result.counts.finished == REQUESTS
    return {
        "simulated_requests_per_s": REQUESTS / spent_s,
        "reference_load_steps_per_s": result.totals.steps / spent_s,
        "reference_load_mean_batch": result.mean_batch,
        "reference_load_acceptance_length": result.acceptance_length,
        "reference_load_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
    }


def load_points() -> dict[str, float]:
    """Both arms over a sweep, simulation alone; then the whole question over the same sweep."""
    service, off, on = _arms()
    for arm in (off, on):
        _run(arm, _load(500, RATE_PER_S))
    start_s = time.perf_counter()
    for rate_per_s in SCENARIO["loads"]["rates_per_s"]:
        load = _load(POINT_REQUESTS, rate_per_s)
        for arm in (off, on):
            _run(arm, load)
    simulated_s = time.perf_counter() - start_s
    start_s = time.perf_counter()
    decide_service(service)
    return {"load_points_s": simulated_s, "decide_load_points_s": time.perf_counter() - start_s}


def small_simulation() -> dict[str, float]:
    """Everything a first simulation needs; its time is that of the process."""
    _, _, on = _arms()
    return {"finished": float(_run(on, _load(100, RATE_PER_S)).counts.finished)}


def replay() -> dict[str, float]:
    """The shipped token logs, copied with other token ids until they hold a million response tokens, from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.jsonl"
        path.write_text("\n".join(_copied_requests()) + "\n", encoding="utf-8")
        small = TRACE_FOLDER / "streams" / "agent_log.jsonl"
        found = {}
        for name, matcher in (("suffix", SuffixMatcher(4)), ("ngram", NgramMatcher(4))):
            replay_log(TokenLog(small), matcher)  # compiled code warm
            used_s = time.process_time()
            report = replay_log(TokenLog(path), matcher)
            used_s = time.process_time() - used_s
            tokens = report.prompt_tokens + report.response_tokens
            found[f"{name}_replayed_tokens_per_s"] = tokens / report.seconds
            found[f"{name}_replayed_tokens_per_cpu_s"] = tokens / used_s
            found[f"{name}_replayed_response_tokens_per_s"] = report.response_tokens / report.seconds
            found[f"{name}_replay_acceptance_length"] = report.best.overall.acceptance_length
    return found


def _copied_requests():
    """Lines of a log: each copy of the shipped requests in ids of its own, so that copies do not match each other."""
    lines = []
    for file in sorted((TRACE_FOLDER / "streams").glob("*.jsonl")):
        lines += file.read_text(encoding="utf-8").splitlines()
    requests = [json.loads(line) for line in lines]
    ids = 1 + max(max(request["prompt"] + request["response"]) for request in requests)
    for copy in range(LOG_COPIES):
        for request in requests:
            moved = {key: [token + copy * ids for token in request[key]] for key in ("prompt", "response")}
            yield json.dumps({**moved, "class": request["class"]})


CASES = {case.__name__: case for case in (reference_load, load_points, small_simulation, replay)}


def main(name: str) -> None:
    """Run one case between two yardsticks (none around `small_simulation`, whose process is timed as a whole)."""
    if name == "small_simulation":
        found = small_simulation()
    else:
        before_s = yardstick.compiled_s()
        found = CASES[name]()
        found["yardstick_compiled_s"] = min(before_s, yardstick.compiled_s())
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
