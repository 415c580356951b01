"""Predict the Llama-2-70B rows of Splitwise's measurements on A100 and H100 from kernel tables.

The engine of those rows (vLLM of 2023) launches every kernel from Python, so a step is the longer of its kernels and
their launches, plus host time between steps. Declared from the rows of two GPUs: host time of a token step (median),
host time of a prompt and how much slower the prompt kernels of that engine are (a line through relative errors).
Rows of four and eight GPUs are predicted. Rows of one setting are repetitions.

Usage: python docs/derivations/check_splitwise.py PERF_MODEL.csv CALIBRATIONS
"""

import argparse
import csv
import statistics
from collections import defaultdict
from pathlib import Path

import numpy as np

from roofline.attention import attention_coefficients, seen_pairs
from roofline.calibration import HostFit, load_calibration
from roofline.catalog import gpu
from roofline.cost import Deployment, TableSize, round_cost, step_cost_table, trunk_s
from roofline.hf_config import load_model
from roofline.operators import Shard, joined_s, logits_operators
from roofline.specs import Parallelism

GPUS = {"a100-80gb": "A100-SXM-80GB", "h100-80gb": "H100-SXM"}
MODEL = "meta-llama/Llama-2-70b-chat-hf"
DECLARED, PREDICTED = (2,), (4, 8)
LAUNCH_S = 2e-5
"""Lower reading of `vllm.host.launch_s`: one kernel launched from Python."""
CONTRADICTED = {("a100-80gb", 2, 64, 512), ("h100-80gb", 2, 64, 512)}
"""Prompts that take an eighth of the time of half as many: they did not run as stated."""
Setting = tuple[str, int, int, int]
"""GPU, GPUs, sequences, prompt tokens."""


def measured(path: Path) -> dict[Setting, tuple[float, float, int]]:
    """Median seconds of the prompt and of a token, by setting, and the tokens generated."""
    rows: dict[Setting, list[tuple[float, float, int]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["model"] == "llama2-70b":
                key = (row["hardware"], int(row["tensor_parallel"]), int(row["batch_size"]), int(row["prompt_size"]))
                times = float(row["prompt_time"]) * 1e-3, float(row["token_time"]) * 1e-3
                rows[key].append((*times, int(row["token_size"])))
    return {
        key: (statistics.median(row[0] for row in found), statistics.median(row[1] for row in found), found[0][2])
        for key, found in rows.items()
    }


def kernels_s(setting: Setting, generated: int, folder: Path) -> tuple[float, float]:
    """Seconds of a prompt's and of a mean token's kernels or launches, whichever is longer; host left out."""
    name, tensor, sequences, prompt = setting
    calibration = load_calibration(folder / f"{GPUS[name]}--vllm.json")
    calibration = calibration.model_copy(update={"host": HostFit(launch_s=LAUNCH_S)})
    model, spec = load_model(MODEL), gpu(GPUS[name])
    shard = Shard(spec, calibration, tensor=tensor)
    tokens = np.array([sequences * prompt])
    costs = attention_coefficients(model, shard)
    read_s = float(costs["prefill_kv_s_per_token"][0]) * float(tokens[0])
    pairs_s = float(costs["prefill_s_per_pair"][0]) * sequences * float(seen_pairs(0, prompt, 0))
    attention_s = float(joined_s(read_s, pairs_s, costs["prefill_p"] or None)) + float(costs["prefill_base_s"])
    head_s = sum(float(one.seconds[0]) for one in logits_operators(model, np.array([sequences]), shard))
    prompt_s = float(trunk_s(model, tokens, shard)[0]) + attention_s + head_s
    place = Deployment(gpu=spec, calibration=calibration, parallel=Parallelism(tensor=tensor, draft_tensor=tensor))
    table = step_cost_table(model, place, size=TableSize(max_tokens=sequences, max_sequences=sequences))
    token = round_cost(table, batch=sequences, context_tokens=prompt + generated // 2, draft_tokens=0)
    return prompt_s, token.plain_s


def declare(kernels: np.ndarray, times: np.ndarray, *, stretch: bool) -> tuple[float, float]:
    """Host seconds a step, and by how much the kernels of that engine are slower (1 where not asked for)."""
    if not stretch:
        return max(0.0, float(np.median(times - kernels))), 1.0
    design = np.stack([np.ones_like(kernels), kernels], axis=1) / times[:, None]
    (host_s, slower), *_ = np.linalg.lstsq(design, np.ones_like(times), rcond=None)
    return max(0.0, float(host_s)), float(slower)


def main() -> None:
    """Print declared host times, errors by GPU and group size, and every prediction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("perf_model", type=Path)
    parser.add_argument("calibrations", type=Path)
    arguments = parser.parse_args()
    rows = measured(arguments.perf_model)
    priced = {key: kernels_s(key, row[2], arguments.calibrations) for key, row in rows.items()}
    errors: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for name in GPUS:
        for place, phase in ((0, "prompt"), (1, "token")):
            own = [key for key in rows if key[0] == name]
            declared = [key for key in own if key[1] in DECLARED and key not in CONTRADICTED]
            host_s, slower = declare(
                np.array([priced[key][place] for key in declared]),
                np.array([rows[key][place] for key in declared]),
                stretch=phase == "prompt",
            )
            print(f"{name} {phase}: host {host_s * 1e3:.1f} ms, kernels x {slower:.2f}, {len(declared)} rows of 2 GPUs")
            for key in sorted(key for key in own if key[1] in PREDICTED):
                error = (slower * priced[key][place] + host_s) / rows[key][place] - 1.0
                errors[phase, name, key[1]].append(error)
                print(f"    {key[1:]} measured {rows[key][place] * 1e3:.1f} ms, predicted {error:+.1%}")
    for (phase, name, tensor), found in errors.items():
        middle = statistics.median(abs(error) for error in found)
        print(f"{phase} {name} over {tensor}: median {middle:.1%}, mean {statistics.mean(found):+.1%}")
    for phase in ("prompt", "token"):
        found = [abs(error) for key, each in errors.items() if key[0] == phase for error in each]
        print(f"{phase}: median {statistics.median(found):.1%} over {len(found)} settings of 4 and 8 GPUs")


if __name__ == "__main__":
    main()
