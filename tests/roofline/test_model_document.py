"""The worked example of docs/model.md: recomputed by hand arithmetic and by the code."""

import re
from pathlib import Path

import numpy as np
import pytest

from roofline.attention import attention_coefficients
from roofline.calibration import Calibration
from roofline.catalog import engine, gpu
from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration, textbook_calibration
from roofline.hf_config import load_model
from roofline.operators import Shard, forward_operators, joined_s, logits_operators
from roofline.speculation import expected_tokens

TEXT = (Path(__file__).parents[2] / "docs" / "model.md").read_text(encoding="utf-8")
H100 = gpu("H100-SXM")
VLLM = engine("vllm")
TARGET = load_model("meta-llama/Llama-3.1-8B-Instruct")
HEAD = load_model("SpecForge/EAGLE3-llama3-8B", role="head", method="eagle3", target=TARGET)
CONTEXT_TOKENS = 1000
MATRICES = {"qkv": (4096, 6144, 32), "o": (4096, 4096, 32), "gate_up": (4096, 28672, 32), "down": (14336, 4096, 32)}
MATRICES["lm_head"] = (4096, 128256, 1)


def _table(name: str) -> dict[str, list[str]]:
    after = TEXT.split(f"<!-- checked: {name} -->\n")[1]
    lines = after.split("\n\n")[0].splitlines()
    rows: dict[str, list[str]] = {}
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = cells[1:]
    return rows


def _printed(value: float, text: str) -> bool:
    """Whether `value` rounds to the printed text."""
    digits = len(text.split(".")[1]) if "." in text else 0
    return f"{value:.{digits}f}" == text


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_are_as_computed_by_hand(name: str):
    inputs, outputs, layers = MATRICES[name]
    size, flops, memory, compute, textbook, _ = _table("operators")[name]
    moved_bytes = layers * (inputs * outputs * 2 + (inputs + outputs) * 2)
    work_flops = layers * 2 * inputs * outputs
    assert _printed(moved_bytes / 1e6, size)
    assert _printed(work_flops / 1e9, flops)
    assert _printed(moved_bytes / 3350e9 * 1e6, memory)
    assert _printed(work_flops / 989.4e12 * 1e6, compute)
    assert textbook == memory


def test_attention_is_as_computed_by_hand():
    size, flops, memory, compute, textbook, _ = _table("operators")["attention"]
    moved_bytes = 32 * 8 * 128 * 2 * 2 * (CONTEXT_TOKENS + 1)
    work_flops = 4 * 32 * 128 * 32 * (CONTEXT_TOKENS + 1)
    assert _printed(moved_bytes / 1e6, size)
    assert _printed(work_flops / 1e9, flops)
    assert _printed(moved_bytes / 3350e9 * 1e6, memory)
    assert _printed(work_flops / 989.4e12 * 1e6, compute)
    assert textbook == memory


def _attention_s(calibration: Calibration) -> float:
    costs = attention_coefficients(TARGET, Shard(gpu=H100, calibration=calibration))
    read_s = float(np.sum(costs["kv_s_per_token"])) * (CONTEXT_TOKENS + 1)
    pair_s = float(np.sum(costs["decode_s_per_pair"])) * (CONTEXT_TOKENS + 1)
    return float(joined_s(read_s, pair_s, costs["decode_p"] or None)) + costs["decode_base_s"]


@pytest.mark.parametrize("column", [4, 5])
def test_the_code_gives_the_printed_times_of_every_operator(column: int):
    calibration = textbook_calibration(H100) if column == 4 else catalogue_calibration(H100, VLLM)
    shard = Shard(gpu=H100, calibration=calibration)
    operators = [*forward_operators(TARGET, 1, shard), *logits_operators(TARGET, 1, shard)]
    times_s = {operator.name: float(operator.seconds) for operator in operators} | {
        "attention": _attention_s(calibration)
    }
    printed = _table("operators")
    assert set(times_s) == set(printed)
    for name, seconds in times_s.items():
        assert _printed(seconds * 1e6, printed[name][column]), (name, seconds * 1e6)


def test_the_catalogue_time_of_a_matrix_follows_from_the_printed_constants():
    launch, memory, compute, p = map(
        float,
        re.findall(
            r"t_0 = ([\d.]+)\s+us, e_m = ([\d.]+), e_c = ([\d.]+),\s+p = ([\d]+\.[\d]+)", " ".join(TEXT.split())
        )[0],
    )
    joined = ((481.0 / memory) ** p + (1.6 / compute) ** p) ** (1 / p)
    assert 32 * launch + joined == pytest.approx(float(_table("operators")["qkv"][5]), abs=0.2)
    fit = catalogue_calibration(H100, VLLM).operator("gemm", "bf16")
    assert (fit.overhead_s, fit.p_norm) == pytest.approx((launch * 1e-6, p))
    assert fit.bytes_per_s / H100.hbm_bytes_per_s == pytest.approx(memory)


def test_rounds_are_as_printed():
    graphs = VLLM.graph_tokens(H100, max_sequences=256, draft_tokens=3)
    draft_graphs = VLLM.draft_graph_tokens(H100, max_sequences=256, draft_tokens=3)
    deployments = {
        "textbook": Deployment(gpu=H100, calibration=textbook_calibration(H100)),
        "catalogue": Deployment(
            gpu=H100,
            calibration=catalogue_calibration(H100, VLLM),
            graph_tokens=graphs,
            draft_graph_tokens=draft_graphs,
        ),
    }
    size = TableSize(max_tokens=512, max_sequences=128, max_draft_tokens=3)
    for name, deployment in deployments.items():
        table = step_cost_table(TARGET, deployment, size=size, draft=HEAD, work=DraftWork(kind="chain"))
        for batch in (1, 128):
            cost = round_cost(table, batch=batch, context_tokens=CONTEXT_TOKENS, draft_tokens=3)
            gain = float(expected_tokens(0.7, 3)) / cost.ratio
            milliseconds = [part * 1e3 for part in (cost.plain_s, cost.verify_s, cost.draft_s, cost.host_s)]
            printed = _table("rounds")[f"{name}, B = {batch}"]
            for value, text in zip([*milliseconds, cost.ratio, gain], printed, strict=True):
                assert _printed(value, text), (name, batch, value, text)
