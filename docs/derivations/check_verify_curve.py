"""Hold whole verification steps against published curves, the rows that may be fitted and those that check apart.

Fitted rows: DeepSeek-V4-Flash under vLLM over four B300 by tokens in the step. Its compressed attention is not
computed from a config here, but the package of kernel tables has it, measured by layer, for one row a sequence. Each
row of a verification picks its own compressed entries, so K + 1 rows of a sequence are priced as K + 1 sequences. The
rest is put together as everywhere: streams of its residual, experts, shared expert and router, all-reduces, LM head,
host; above the largest captured size a step takes at least its launches. Which experts the profiled steps touched is
not published: `spread` has them as a batch of requests would, `alike` as when all tokens of a made-up step are the
same one and go to the same six experts: vLLM draws random tokens for a profiled step only where data is parallel and
VLLM_RANDOMIZE_DP_DUMMY_INPUTS is set ("to help balance expert-selection"). Nothing is fitted here.

Check rows: Qwen3-8B in fp8 with an EAGLE-3 head under SGLang on one H100, chains and trees at small batches, from the
shipped calibration.

Usage: python docs/derivations/check_verify_curve.py UNPACKED_WHEEL COST_CURVES.csv
"""

import argparse
import csv
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.package import Package, open_package
from calibrate.kernel_tables.reading import Rows, chosen, read_rows
from roofline.calibration import Calibration
from roofline.catalog import engine, gpu, shipped_calibration
from roofline.collectives import all_reduce_s
from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
from roofline.hf_config import load_model
from roofline.operators import matrix_s

FloatArray = NDArray[np.float64]
GPUS, HIDDEN, VOCABULARY, LAYERS = 4, 4096, 129280, 43
HEADS, EXPERTS, PER_TOKEN, EXPERT_WIDTH = 64, 256, 6, 2048
"""Of the config of deepseek-ai/DeepSeek-V4-Flash."""
SPARSE_LAYERS = 21
"""Layers that keep one entry for 4 tokens and pick 512 of them; the others keep one for 128, or only a window."""
SHORT_CONTEXT = 128
GRAPH_TOKENS = 1024
OPERATORS_PER_LAYER = 13
SGLANG_CONTEXT = 1000
"""Tokens of the chat requests of that measurement, about."""


def curve(rows: Rows, axis: str) -> Callable[[FloatArray], FloatArray]:
    """Seconds over a column, in logarithms; the first before it, in proportion beyond the last."""
    places = np.unique(rows[axis])
    seconds = np.array([float(np.median(rows["seconds"][rows[axis] == place])) for place in places])

    def read(asked: FloatArray) -> FloatArray:
        within = np.exp(np.interp(np.log(asked), np.log(places.astype(float)), np.log(seconds)))
        return within * np.maximum(asked / places[-1], 1.0)

    return read


def table(package: Package, name: str, kind: str, **where: object) -> Rows:
    """Rows of a B300 table of vLLM with these values."""
    file = package.table("b300_sxm", "vllm", name)
    assert file is not None, f"the package has {name}"
    rows = read_rows(file, kind)
    keep = np.ones(len(rows["seconds"]), bool)
    for column, value in where.items():
        keep &= rows[column] == value
    return chosen(rows, keep)


def attention_s(package: Package, tokens: FloatArray) -> FloatArray:
    """All layers' attention with its matrices, one row a sequence, at a short context."""
    total_s = np.zeros(len(tokens))
    for kind, layers in (("csa", SPARSE_LAYERS), ("hca", LAYERS - SPARSE_LAYERS)):
        rows = table(
            package, f"sparse_attention/dsv4_{kind}_generation_module", "compressed_attention",
            model="sgl-project/DeepSeek-V4-Flash-FP8", num_heads=HEADS // GPUS, step=SHORT_CONTEXT,
        )  # fmt: skip
        total_s += layers * curve(rows, "batch_size")(tokens)
    return total_s


def residual_s(package: Package, tokens: FloatArray) -> FloatArray:
    """Mixing the streams of the residual before and after both parts of each layer."""
    parts = (
        table(package, "mhc/mhc_module", "hyper_connections", hidden_size=HIDDEN, op_name=name)
        for name in ("pre", "post")
    )
    return LAYERS * sum((curve(rows, "num_tokens")(tokens) for rows in parts), np.zeros(len(tokens)))


def experts_s(package: Package, tokens: FloatArray, *, alike: bool) -> FloatArray:
    """Routed experts in 4 bits, cut over the GPUs, as measured; alike tokens read six and add their arithmetic."""
    rows = table(
        package, "moe/moe", "moe", moe_dtype="w4a8_mxfp4_mxfp8", hidden_size=HIDDEN, inter_size=EXPERT_WIDTH,
        topk=PER_TOKEN, num_experts=EXPERTS, moe_tp_size=GPUS, moe_ep_size=1, distribution="balanced",
    )  # fmt: skip
    read = curve(rows, "num_tokens")
    if not alike:
        return LAYERS * read(tokens)
    flops = 2.0 * 3.0 * tokens * PER_TOKEN * HIDDEN * EXPERT_WIDTH / GPUS
    return LAYERS * (read(np.ones(1)) + flops / gpu("B300-SXM").peak_flops_per_s["fp8"])


def matrices_s(calibration: Calibration, tokens: FloatArray) -> FloatArray:
    """Shared expert and router of each layer, LM head."""
    fit = calibration.operator("gemm", "bf16")
    shapes = [(HIDDEN, 2 * EXPERT_WIDTH // GPUS), (EXPERT_WIDTH // GPUS, HIDDEN), (HIDDEN, EXPERTS)]
    counted = [(LAYERS, shape) for shape in shapes] + [(1, (HIDDEN, VOCABULARY // GPUS))]
    total_s = np.zeros(len(tokens))
    for count, (inner, columns) in counted:
        moved_bytes = 2.0 * (inner * columns + tokens * (inner + columns))
        flops = 2.0 * tokens * inner * columns
        total_s += count * matrix_s(fit, moved_bytes, flops, rows=tokens, shape=(float(inner), float(columns)))
    return total_s


def step_s(package: Package, tokens: FloatArray, *, alike: bool) -> FloatArray:
    """Whole steps; above the captured sizes at least their launches."""
    calibration = shipped_calibration("B300-SXM", "vllm")
    assert calibration is not None
    reduced_s = 2 * LAYERS * all_reduce_s(calibration.collective(GPUS), 2.0 * tokens * HIDDEN)
    device_s = attention_s(package, tokens) + residual_s(package, tokens) + experts_s(package, tokens, alike=alike)
    device_s = device_s + matrices_s(calibration, tokens) + reduced_s
    launched_s = LAYERS * OPERATORS_PER_LAYER * calibration.host.launch_s
    return calibration.host.step_s + np.where(tokens > GRAPH_TOKENS, np.maximum(device_s, launched_s), device_s)


def print_curve(package: Package, rows: list[dict[str, str]]) -> None:
    """Measured and both predictions, then errors by range of tokens."""
    tokens = np.array([float(row["x"]) for row in rows])
    real_s = np.array([float(row["time_ms"]) * 1e-3 for row in rows])
    both = {name: step_s(package, tokens, alike=alike) for name, alike in (("spread", False), ("alike", True))}
    shown = [int(place) for place in np.flatnonzero(np.isin(tokens, [1, 8, 32, 64, 128, 256, 512, 1024, 1536, 16384]))]
    for place in shown:
        texts = [
            f"{name} {both[name][place] * 1e3:6.1f} ({both[name][place] / real_s[place] - 1:+.0%})" for name in both
        ]
        print(f"  {tokens[place]:6.0f} tokens: measured {real_s[place] * 1e3:6.1f} ms, {', '.join(texts)}")
    for first, last in ((1, 56), (64, GRAPH_TOKENS), (GRAPH_TOKENS + 1, 16384)):
        inside = (tokens >= first) & (tokens <= last)
        for name, predicted_s in both.items():
            error = predicted_s[inside] / real_s[inside] - 1.0
            print(
                f"  {first} to {last} tokens, {name}: median {np.median(np.abs(error)):.1%}, "
                f"mean {error.mean():+.1%}, {inside.sum()} rows"
            )


def sglang_step_s(text: str, batch: int) -> float:
    """A round of Qwen3-8B in fp8 with `steps`, `topk` and `draft` tokens to verify; a plain step without them."""
    spec, profile = gpu("H100-SXM"), engine("sglang")
    calibration = shipped_calibration(spec.name, profile.name)
    assert calibration is not None
    target = load_model("Qwen/Qwen3-8B", quantization="fp8")
    head = load_model("SpecForge/EAGLE3-qwen3-8B", role="head", method="eagle3", target=target)
    numbers = [int(number) for number in re.findall(r"(?:steps|topk|draft|\(|,)(\d+)", text)]
    steps, wide, verified = numbers if numbers else (0, 1, 1)
    drafts = verified - 1 if wide > 1 else steps
    passes = ((1, *(wide,) * (steps - 1)),) * drafts
    work = DraftWork(kind="chain", pass_rows=passes) if drafts else None
    place = Deployment(
        gpu=spec,
        calibration=calibration,
        graph_tokens=profile.graph_tokens(spec, max_sequences=64, draft_tokens=drafts),
        draft_graph_tokens=profile.draft_graph_tokens(spec, max_sequences=64, draft_tokens=drafts),
    )
    size = TableSize(max_tokens=1024, max_sequences=16, max_draft_tokens=drafts)
    costs = step_cost_table(target, place, size=size, draft=head if drafts else None, work=work)
    cost = round_cost(costs, batch=batch, context_tokens=SGLANG_CONTEXT, draft_tokens=drafts)
    return cost.round_s if drafts else cost.plain_s


def print_steps(rows: list[dict[str, str]]) -> None:
    """Each step of the check rows, and the errors together."""
    errors: list[float] = []
    for row in rows:
        shape = row["target_model"] if "(" in row["target_model"] else row["x_name"]
        predicted_s = sglang_step_s(shape, int(row["x"]))
        errors.append(predicted_s / (float(row["time_ms"]) * 1e-3) - 1.0)
        print(f"  {shape}, batch {row['x']}: {row['time_ms']} ms, {predicted_s * 1e3:.2f} ms ({errors[-1]:+.0%})")
    print(f"  median {np.median(np.abs(errors)):.1%}, mean {np.mean(errors):+.1%}, {len(errors)} rows")


def main() -> None:
    """Print both parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("cost_curves", type=Path)
    arguments = parser.parse_args()
    with arguments.cost_curves.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    print("use = fit (nothing fitted here): verification of DeepSeek-V4-Flash, vLLM over 4 B300")
    own = [
        row for row in rows if row["phase"] == "verify" and "V4-Flash" in row["target_model"] and row["use"] == "fit"
    ]
    print_curve(open_package(arguments.package), own)
    print("use = check: steps of Qwen3-8B in fp8 with an EAGLE-3 head, SGLang on one H100")
    print_steps([row for row in rows if row["phase"] == "step_time" and row["use"] == "check"])


if __name__ == "__main__":
    main()
