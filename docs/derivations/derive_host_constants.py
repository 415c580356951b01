"""Derive the calibrated constants of roofline/catalog/engines.toml from published measurements.

Two kinds of published numbers are used and nothing else: the plain-decoding side (`baseline_value`) of a table of
speed-ups, and rows of a table of cost curves whose column `use` is `fit`. Nothing speculative is read.

- host time per step: measured plain step at batch 1 minus the kernels of the catalogue, by engine
- host time per draft pass: fixed part of a profiled drafting round minus the kernels of the head, over K passes
- n-gram proposal: share of a verification step
- launch time: a step just above the graph limit over the operators it launches
- host time of a round without overlap: plain decoding with and without it, and the overhead of a synchronous step

Usage: python docs/derivations/derive_host_constants.py COST_CURVES.csv SPEEDUPS.csv
"""

import argparse
import csv
import re
import statistics
from collections import defaultdict
from pathlib import Path

from roofline.calibration import HostFit
from roofline.catalog import engine, gpu
from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from roofline.specs import Model

CONTEXT_TOKENS = 600
"""Mean context of the short-prompt benchmarks the plain rows come from."""
GPUS = {
    "H100": "H100-SXM",
    "H100 SXM": "H100-SXM",
    "H100 80GB HBM3": "H100-SXM",
    "H200": "H200-SXM",
    "B200": "B200-SXM",
}
MODELS = {
    "Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama-2-7b-chat": "meta-llama/Llama-2-7b-hf",
    "Qwen3-8B": "Qwen/Qwen3-8B",
    "Qwen3-Coder-30B-A3B": "Qwen/Qwen3-30B-A3B",
    "gpt-oss-20b": "openai/gpt-oss-20b",
}
ENGINES = {"vLLM": "vllm", "SGLang": "sglang"}
PASSES_OF_THE_DRAFT_FIT = (2, 3, 5)


GRAPH_LIMIT_TOKENS = 1024
COUNTED_OPERATORS = 560
"""Of the 43 layers whose steps were profiled: 13 a layer, as `roofline.operators` counts a layer with experts."""
ONE_LAUNCH_S = 2e-5
"""One operator launched from Python, the least a counted operator takes."""


def plain_step_s(model: Model, *, gpu_name: str, engine_name: str) -> float:
    """Seconds the catalogue charges a plain step at batch 1, host time left out."""
    spec, profile = gpu(gpu_name), engine(engine_name)
    calibration = catalogue_calibration(spec, profile).model_copy(update={"host": HostFit()})
    graphs = profile.graph_tokens(spec, max_sequences=256)
    deployment = Deployment(gpu=spec, calibration=calibration, graph_tokens=graphs)
    table = step_cost_table(model, deployment, size=TableSize(max_tokens=64, max_sequences=8))
    return round_cost(table, batch=1, context_tokens=CONTEXT_TOKENS, draft_tokens=0).plain_s


def draft_pass_kernels_s(gpu_name: str) -> float:
    """Seconds the catalogue charges one pass of the EAGLE-3 head of Llama-3.1-8B over one token, host left out."""
    spec, profile = gpu(gpu_name), engine("vllm")
    target = load_model("meta-llama/Llama-3.1-8B-Instruct")
    head = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=target)
    calibration = catalogue_calibration(spec, profile).model_copy(update={"host": HostFit()})
    graphs = profile.graph_tokens(spec, max_sequences=256)
    deployment = Deployment(gpu=spec, calibration=calibration, graph_tokens=graphs, draft_graph_tokens=graphs)
    size = TableSize(max_tokens=64, max_sequences=8, max_draft_tokens=2)
    table = step_cost_table(target, deployment, size=size, draft=head, work=DraftWork(kind="chain"))
    drafts = [round_cost(table, batch=1, context_tokens=CONTEXT_TOKENS, draft_tokens=count).draft_s for count in (1, 2)]
    return drafts[1] - drafts[0]


def plain_residuals(path: Path) -> dict[str, list[tuple[float, str]]]:
    """Measured plain step minus kernels, seconds, by engine, with a description of the row."""
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    seen: set[tuple[str, ...]] = set()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["source"], row["hardware"], row["engine"], row["target_model"], row["baseline_value"])
            prefix = next((name for name in ENGINES if row["engine"].startswith(name)), None)
            measured_s = _measured_s(row)
            known = row["hardware"] in GPUS and row["target_model"] in MODELS and prefix is not None
            if not known or measured_s is None or key in seen or row["n_gpus"] not in ("", "1"):
                continue
            seen.add(key)
            quantization = "fp8" if row["target_dtype"].startswith("fp8") else None
            model = load_model(MODELS[row["target_model"]], quantization=quantization)
            name = ENGINES[str(prefix)]
            kernels_s = plain_step_s(model, gpu_name=GPUS[row["hardware"]], engine_name=name)
            text = f"{row['engine']}, {row['hardware']}, {row['target_model']}: {measured_s:.5f} - {kernels_s:.5f}"
            found[name].append((measured_s - kernels_s, text))
    return found


def _measured_s(row: dict[str, str]) -> float | None:
    """Seconds of a plain step of a batch-1 row."""
    if row["load_value"] != "1" or not row["baseline_value"]:
        return None
    value = float(row["baseline_value"])
    if row["metric"] in ("tokens_per_s", "output_tokens_per_s"):
        return 1.0 / value
    return value * 1e-3 if row["metric"] == "tpot_ms" else None


def without_overlap_s(speedups: Path, curves: Path) -> tuple[float, float]:
    """Host seconds of a step that is not overlapped: SGLang's plain decoding, vLLM's published overhead."""
    with speedups.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            overlapped = re.search(r"overlap-only baseline = (\d+\.?\d*)", row["notes"])
            if overlapped and row["baseline_value"]:
                exposed_s = 1.0 / float(row["baseline_value"]) - 1.0 / float(overlapped[1])
                break
        else:
            raise SystemExit(f"{speedups} has no plain decoding with and without overlap")
    with curves.open(encoding="utf-8", newline="") as file:
        overhead = next(row for row in csv.DictReader(file) if row["phase"] == "per_step_overhead")
    return exposed_s, float(overhead["time_ms"]) * 1e-3


def _last_number(path: Path, phase: str) -> float:
    """Constant of a fitted row: the intercept of a line, or the single number it states."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["use"] == "fit" and row["phase"] == phase:
                numbers = re.findall(r"\d+\.\d+(?:e-?\d+)?", row["x"])
                return float(numbers[-1])
    raise SystemExit(f"{path} has no row of phase {phase!r} with use = fit")


def launch_s(path: Path) -> float:
    """Seconds a counted operator takes to launch: the first step above the graph limit, bound by them."""
    with path.open(encoding="utf-8", newline="") as file:
        steps = [row for row in csv.DictReader(file) if row["use"] == "fit" and row["phase"] == "verify"]
    above = min((row for row in steps if float(row["x"]) > GRAPH_LIMIT_TOKENS), key=lambda row: float(row["x"]))
    return float(above["time_ms"]) * 1e-3 / COUNTED_OPERATORS


def main() -> None:
    """Print the derivations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cost_curves", type=Path)
    parser.add_argument("speedups", type=Path)
    arguments = parser.parse_args()
    for name, rows in sorted(plain_residuals(arguments.speedups).items()):
        by_setting: dict[str, list[float]] = defaultdict(list)
        for residual_s, text in rows:
            by_setting[text.split(":")[0]].append(residual_s)
        middles = [statistics.median(values) for values in by_setting.values()]
        for setting, values in by_setting.items():
            print(f"  {setting}: {statistics.median(values):+.5f} s ({len(values)} rows)")
        print(f"{name}.host.step_s: median {statistics.median(middles):.2e}, {min(middles):.1e} .. {max(middles):.1e}")
    exposed_s, overhead_s = without_overlap_s(arguments.speedups, arguments.cost_curves)
    middle_s = (exposed_s * overhead_s) ** 0.5
    print(f"sglang.host.round_s: {middle_s:.2e}, the mean of {exposed_s:.2e} and {overhead_s:.2e} in ratio")
    step_s = _last_number(arguments.cost_curves, "target_step_fit")
    kernels_s = plain_step_s(load_model(MODELS["Llama-3.1-8B-Instruct"]), gpu_name="H100-SXM", engine_name="vllm")
    print(f"profiled forward of Llama-3.1-8B on H100: {step_s:.5f} s, catalogue {kernels_s:.5f} s")
    round_s, pass_s = _last_number(arguments.cost_curves, "eagle3_draft_fit"), draft_pass_kernels_s("H100-SXM")
    for passes in PASSES_OF_THE_DRAFT_FIT:
        print(f"vllm.host.draft_pass_s for K = {passes}: {round_s / passes - pass_s:.2e} (kernels {pass_s:.2e})")
    slow_s = launch_s(arguments.cost_curves)
    middle_s = (slow_s * ONE_LAUNCH_S) ** 0.5
    print(f"vllm.host.launch_s: {middle_s:.1e}, the mean of {ONE_LAUNCH_S:.0e} and {slow_s:.2e} in ratio")
    print(f"vllm.host.proposal_s: {_last_number(arguments.cost_curves, 'ngram_draft') * step_s:.2e}")


if __name__ == "__main__":
    main()
