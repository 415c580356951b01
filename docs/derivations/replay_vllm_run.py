"""Replay measured runs of vLLM without speculation and compare per-request times.

A run is a folder with `meta.json` (engine arguments) and `requests.jsonl` (one request a line: `input_toks`,
`output_toks`, `queued_ts`, `first_token_ts`, `last_token_ts`, seconds). Nothing is fitted here. With the package of
kernel tables a run over several GPUs takes the all-reduce measured under its own engine version (`vllm_version`), where
there is one: over PCIe it differs from version to version more than any other kernel.

Usage: python docs/derivations/replay_vllm_run.py GPU RUN_FOLDER... [--package UNPACKED_WHEEL]
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from calibrate.kernel_tables.collective import fit_all_reduce
from calibrate.kernel_tables.package import open_package
from calibrate.kernel_tables.reading import read_rows
from roofline.calibration import Calibration
from roofline.catalog import engine, gpu, shipped_calibration
from roofline.cost import Deployment, TableSize, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from roofline.memory import memory_account
from roofline.specs import Parallelism
from roofline.step_table import StepCostTable
from simulator.limits import EngineLimits
from simulator.policy import FixedDraft
from simulator.proposers import NoProposer
from simulator.replica import Speculation, simulate
from simulator.result import Result
from simulator.workload import Workload

NAMES = {"Qwen/Qwen3-32B": "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B"}


def measured(folder: Path) -> tuple[Workload, dict[str, np.ndarray]]:
    """The workload of a run, and its times per request in seconds."""
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["queued_ts"])
    column = {name: np.array([row[name] for row in rows]) for name in rows[0] if name != "request_id"}
    arrival_s = column["queued_ts"] - column["queued_ts"][0]
    size = np.zeros(len(rows), dtype=np.int64)
    workload = Workload(arrival_s, column["input_toks"], column["output_toks"], size, size)
    end_s, first_s = column["last_token_ts"], column["first_token_ts"]
    tokens = column["output_toks"]
    return workload, {
        "ttft": first_s - column["queued_ts"],
        "tpot": (end_s - first_s)[tokens > 1] / (tokens[tokens > 1] - 1),
        "latency": end_s - column["queued_ts"],
    }


def replay(folder: Path, gpu_name: str, calibration: Calibration) -> tuple[Result, float]:
    """The simulated run and the wall time of simulating it."""
    workload, _ = measured(folder)
    costs, limits = deployment(folder, gpu_name, calibration)
    off = Speculation(proposer=NoProposer(), policy=FixedDraft(0), acceptance=())
    simulate(workload, costs=costs, limits=limits, speculation=off, seed=0)
    started = time.perf_counter()
    result = simulate(workload, costs=costs, limits=limits, speculation=off, seed=0)
    return result, time.perf_counter() - started


def constants(folder: Path, gpu_name: str, *, catalogue: bool, package: Path | None) -> Calibration:
    """The shipped constants, or the catalogue's; with a package the all-reduce of the run's engine version."""
    shipped = None if catalogue else shipped_calibration(gpu_name, "vllm")
    calibration = shipped or catalogue_calibration(gpu(gpu_name), engine("vllm"))
    if package is None:
        return calibration
    tables, version = open_package(package), json.loads((folder / "meta.json").read_text())["vllm_version"]
    table = tables.table(tables.system(gpu_name).name, "vllm", "comm/custom_allreduce", version=version)
    fits = fit_all_reduce(read_rows(table, "custom_allreduce"))[0] if table is not None else []
    measured_groups = {fit.gpus for fit in fits}
    others = [fit for fit in calibration.collectives if fit.gpus not in measured_groups]
    return calibration.model_copy(update={"collectives": tuple(fits + others)})


def deployment(folder: Path, gpu_name: str, calibration: Calibration) -> tuple[StepCostTable, EngineLimits]:
    """Cost table and limits of a run's engine arguments."""
    arguments = json.loads((folder / "meta.json").read_text())["engine_kwargs"]
    model, profile, spec = load_model(NAMES[arguments["model"]]), engine("vllm"), gpu(gpu_name)
    parallel = Parallelism(tensor=arguments["tensor_parallel_size"])
    budget, sequences = arguments["max_num_batched_tokens"], arguments["max_num_seqs"]
    place = Deployment(
        gpu=spec,
        calibration=calibration,
        parallel=parallel,
        graph_tokens=profile.graph_tokens(spec, max_sequences=sequences),
    )
    memory = memory_account(
        model,
        gpu=spec,
        parallel=parallel,
        draft=None,
        utilization_fraction=0.9,
        max_step_tokens=budget,
        max_logit_rows=sequences,
    )
    costs = step_cost_table(model, place, size=TableSize(max_tokens=budget, max_sequences=sequences))
    limits = EngineLimits(
        max_batched_tokens=budget, max_sequences=sequences, kv_blocks=memory.kv_tokens // 16, lookahead_tokens=0
    )
    return costs, limits


def main() -> None:
    """Print measured, simulated and their difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpu")
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--catalogue", action="store_true", help="with catalogue efficiencies")
    parser.add_argument("--package", type=Path, help="unpacked wheel of the kernel tables")
    arguments = parser.parse_args()
    for folder in arguments.folders:
        used = constants(folder, arguments.gpu, catalogue=arguments.catalogue, package=arguments.package)
        result, wall_s = replay(folder, arguments.gpu, used)
        _, real = measured(folder)
        print(f"{folder.name}: simulated in {wall_s:.3f} s")
        simulated = {"tpot": result.tpot_s, "latency": result.latency_s, "ttft": result.ttft_s}
        for metric, statistic in (("tpot", "mean"), ("latency", "mean"), ("latency", "p95"), ("ttft", "mean")):
            read = np.nanmean if statistic == "mean" else lambda values: np.nanquantile(values, 0.95)
            one, other = float(read(real[metric])), float(read(simulated[metric]))
            print(f"  {metric:<8} {statistic:<5} {one:9.4f} s  {other:9.4f} s  {other / one - 1:+.1%}")


if __name__ == "__main__":
    main()
