"""A day of a 64-replica service: `python -m tests.benchmarks.cluster [REQUESTS …]` prints its numbers as JSON lines."""

import json
import resource
import sys
import time

import numpy as np

from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from simulator.autoscaler import Autoscaler
from simulator.cluster import ClusterResult, ClusterShape, Engine, serve_cluster
from simulator.replica import Speculation
from simulator.rng import Streams
from simulator.workload import Workload, diurnal_phases, lognormal_lengths, swinging_arrivals
from tests.benchmarks import yardstick

REPLICAS, DAY_S, DAY_REQUESTS = 64, 86_400.0, 5_000_000
# Mean and spread of the Mooncake conversation trace: 12,035 tokens in (median 6,909), 343 out (median 350).
PROMPT_TOKENS, PROMPT_SIGMA, OUTPUT_TOKENS, OUTPUT_SIGMA = 12_035, 1.05, 343, 0.8
SWING_FRACTION = 0.5
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SCENARIO = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "workload": {"kind": "poisson", "rate_per_s": 1.0, "input_tokens": 12_035, "output_tokens": 343},
}


def part_of_a_day(requests: int) -> Workload:
    """So many requests at the day's mean rate, through one swing of a sine."""
    streams, rate_per_s = Streams(0), DAY_REQUESTS / DAY_S
    phases = diurnal_phases(rate_per_s, period_s=requests / rate_per_s, swing_fraction=SWING_FRACTION)
    prompts = lognormal_lengths(requests, PROMPT_TOKENS, streams.get("prompts"), sigma=PROMPT_SIGMA, max_tokens=126_195)
    return Workload(
        arrival_s=swinging_arrivals(requests, phases, streams.get("arrivals")),
        prompt_tokens=prompts,
        output_tokens=lognormal_lengths(
            requests, OUTPUT_TOKENS, streams.get("outputs"), sigma=OUTPUT_SIGMA, max_tokens=2_000
        ),
        prefix_hit_tokens=np.zeros(requests, dtype=np.int64),
        class_id=np.zeros(requests, dtype=np.int64),
    )


def serve(requests: int) -> ClusterResult:
    """Least outstanding, an autoscaler from half the replicas on."""
    arm = build_service(scenario_from_dict(SCENARIO)).off
    engine = Engine(arm.costs, arm.limits, Speculation(arm.proposer, arm.policy))
    scaler = Autoscaler(target_outstanding=6, min_replicas=16, max_replicas=REPLICAS, start_delay_s=120)
    return serve_cluster(part_of_a_day(requests), ClusterShape(REPLICAS, autoscaler=scaler), engine=engine, seed=0)


def measured(requests: int) -> dict[str, float]:
    """Seconds and memory of one size, making the load included."""
    start_s, used_s = time.perf_counter(), time.process_time()
    served = serve(requests)
    spent_s, used_s = time.perf_counter() - start_s, time.process_time() - used_s
    assert served.result.counts.finished + served.result.counts.refused == requests
    return {
        "requests": requests,
        "cluster_s": spent_s,
        "cluster_cpu_s": used_s,
        "cluster_cpu_s_per_million_requests": used_s / requests * 1e6,
        "cluster_steps": served.result.totals.steps,
        "cluster_mean_batch": served.result.mean_batch,
        "cluster_mean_replicas": served.mean_replicas,
        "cluster_ttft_p95_s": served.result.percentile("ttft", 0.95),
        "cluster_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
    }


def main() -> None:
    """Every size after a small warm-up; the yardstick says how fast the machine is."""
    serve(1_000)
    before_s = yardstick.compiled_s()
    for requests in [int(text) for text in sys.argv[1:]] or SIZES:
        sys.stdout.write(json.dumps(measured(requests)) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps({"cluster_yardstick_compiled_s": min(before_s, yardstick.compiled_s())}) + "\n")


if __name__ == "__main__":
    main()
