"""No step beats the machine: bytes over the peak bandwidth, flops over the peak rate; and work costs time."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.account import pass_account
from roofline.calibration import Calibration
from roofline.catalog import engine, gpu, gpu_names
from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration, textbook_calibration
from roofline.errors import OutsideDomain
from roofline.hf_config import load_model
from roofline.specs import Model, Parallelism
from roofline.step_table import StepCostTable
from simulator.acceptance import IidAcceptance
from simulator.replica import simulate
from simulator.rng import Streams
from simulator.workload import poisson_arrivals
from tests.strategies import PLAIN, head, limits, workload

SIZE = TableSize(max_tokens=4096, max_sequences=256, max_draft_tokens=7)
# Llama-3.1-8B by hand, from its config: hidden 4096, 32 layers, 8 KV heads of 128, FFN 14336, vocabulary 128256.
LAYER_WEIGHTS = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
HEAD_WEIGHTS = 128256 * 4096
KV_BYTES_PER_TOKEN = 2 * 32 * 8 * 128 * 2
BYTES_PER_WEIGHT = 2
PAIR_FLOPS = 32 * 2 * 2 * 32 * 128
# Dense and mixture of experts, full attention, MLA and windows, 16 and 8 bits.
MODELS = {
    "meta-llama/Llama-3.1-8B-Instruct": 1,
    "meta-llama/Llama-3.1-70B-Instruct": 4,
    "Qwen/Qwen3-30B-A3B": 1,
    "Qwen/Qwen3-32B-FP8": 2,
    "google/gemma-3-27b-text": 1,
    "deepseek-ai/DeepSeek-V3": 8,
}


@functools.cache
def _model(name: str) -> Model:
    return load_model(name)


def _calibration(gpu_name: str, kind: str) -> Calibration:
    machine = gpu(gpu_name)
    return textbook_calibration(machine) if kind == "textbook" else catalogue_calibration(machine, engine("vllm"))


def _deployment(gpu_name: str, kind: str = "catalogue", *, tensor: int = 1) -> Deployment:
    machine = gpu(gpu_name)
    graphs = engine("vllm").graph_tokens(machine, max_sequences=SIZE.max_sequences, draft_tokens=3)
    return Deployment(
        gpu=machine,
        calibration=_calibration(gpu_name, kind),
        parallel=Parallelism(tensor=tensor, draft_tensor=tensor),
        graph_tokens=() if kind == "textbook" else graphs,
    )


@functools.cache
def _table(name: str, gpu_name: str, kind: str = "catalogue") -> StepCostTable | None:
    """None where the machine has no arithmetic for the model's number format."""
    try:
        return step_cost_table(_model(name), _deployment(gpu_name, kind, tensor=MODELS[name]), size=SIZE)
    except OutsideDomain:
        return None


def _peak_flops_per_s(gpu_name: str) -> float:
    peaks = gpu(gpu_name).peak_flops_per_s
    return peaks["bf16"] if "bf16" in peaks else peaks["fp16"]


@pytest.mark.parametrize("kind", ["catalogue", "textbook"])
@pytest.mark.parametrize("gpu_name", gpu_names())
def test_no_step_of_an_8b_model_beats_the_peaks_of_any_gpu(gpu_name: str, kind: str):
    table = _table("meta-llama/Llama-3.1-8B-Instruct", gpu_name, kind)
    assert table is not None
    machine = gpu(gpu_name)
    for batch in (1, 2, 7, 16, 64, 256):
        for rows_each in (1, 2, 4, 8):
            for context_tokens in (1, 300, 5000, 30_000):
                rows = batch * rows_each
                cost = round_cost(table, batch=batch, context_tokens=context_tokens, draft_tokens=rows_each - 1)
                spent_s = cost.plain_s if rows_each == 1 else cost.verify_s
                moved_bytes = BYTES_PER_WEIGHT * (LAYER_WEIGHTS + HEAD_WEIGHTS)
                moved_bytes += batch * context_tokens * KV_BYTES_PER_TOKEN
                flops = 2.0 * rows * (LAYER_WEIGHTS + HEAD_WEIGHTS) + rows * context_tokens * PAIR_FLOPS
                assert spent_s >= moved_bytes / machine.hbm_bytes_per_s
                assert spent_s >= flops / _peak_flops_per_s(gpu_name)


@pytest.mark.parametrize("gpu_name", gpu_names())
def test_no_prefill_of_an_8b_model_beats_the_peaks_of_any_gpu(gpu_name: str):
    table = _table("meta-llama/Llama-3.1-8B-Instruct", gpu_name)
    assert table is not None
    tokens = np.arange(1, SIZE.max_tokens + 1)
    assert np.all(table.target.trunk_s[1:] >= 2.0 * tokens * LAYER_WEIGHTS / _peak_flops_per_s(gpu_name))
    assert np.all(table.target.trunk_s[1:] >= BYTES_PER_WEIGHT * LAYER_WEIGHTS / gpu(gpu_name).hbm_bytes_per_s)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpu_name", gpu_names())
def test_no_operator_of_any_pass_beats_its_own_floor(gpu_name: str, name: str):
    if _table(name, gpu_name) is None:
        pytest.skip("the GPU has no arithmetic for this format")
    shard = _deployment(gpu_name, tensor=MODELS[name]).shard()
    for batch, rows_each, context_tokens in [(1, 1, 100), (1, 4, 9000), (32, 4, 2000), (256, 1, 500), (200, 8, 40)]:
        rows = pass_account(_model(name), shard, batch=batch, rows_each=rows_each, context_tokens=context_tokens)
        assert [row.name for row in rows if row.seconds < row.floor_s * (1 - 1e-12)] == []


@given(
    name=st.sampled_from(sorted(MODELS)),
    gpu_name=st.sampled_from(["H100-SXM", "A100-SXM-80GB", "L40S", "H20", "B200-SXM"]),
    batch=st.integers(1, 200),
    context_tokens=st.integers(1, 20_000),
    draft_tokens=st.integers(0, 6),
)
@settings(max_examples=200)
def test_a_larger_step_never_takes_less_time(name, gpu_name, batch, context_tokens, draft_tokens):
    table = _table(name, gpu_name)
    if table is None:
        return

    def spent_s(*, more_batch: int = 0, more_context: int = 0, more_drafts: int = 0) -> tuple[float, float]:
        cost = round_cost(
            table,
            batch=batch + more_batch,
            context_tokens=context_tokens + more_context,
            draft_tokens=draft_tokens + more_drafts,
        )
        return cost.plain_s, cost.round_s

    plain_s, round_s = spent_s()
    for change in (
        {"more_batch": 1},
        {"more_batch": 50},
        {"more_context": 1},
        {"more_context": 4000},
        {"more_drafts": 1},
    ):
        larger_plain_s, larger_round_s = spent_s(**change)
        assert larger_plain_s >= plain_s * (1 - 1e-12)
        assert larger_round_s >= round_s * (1 - 1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("gpu_name", gpu_names())
def test_tabulated_times_never_fall_with_tokens(gpu_name: str, name: str):
    table = _table(name, gpu_name)
    if table is None:
        pytest.skip("the GPU has no arithmetic for this format")
    assert np.all(np.diff(table.target.trunk_s) >= -1e-15)
    assert np.all(np.diff(table.target.logits_s) >= -1e-15)


@functools.cache
def _served():
    """Steps of an 8B model with a head on one H100, at a load that fills batches."""
    target = _model("meta-llama/Llama-3.1-8B-Instruct")
    draft = load_model("SafeAILab/EAGLE3-LLaMA3.1-8B", role="head", method="eagle3", target=target)
    table = step_cost_table(target, _deployment("H100-SXM"), size=SIZE, draft=draft, work=DraftWork(kind="chain"))
    requests = 400
    load = workload(
        poisson_arrivals(requests, 25.0, Streams(1).get("arrivals")),
        Streams(1).get("prompt").integers(10, 2000, requests),
        Streams(1).get("output").integers(1, 400, requests),
    )
    arguments = {"costs": table, "limits": limits(max_sequences=256, lookahead_tokens=3), "seed": 1}
    speculations = (PLAIN, head(3, IidAcceptance(0.7)))
    return [simulate(load, speculation=each, trace_steps=True, **arguments) for each in speculations]


@pytest.mark.parametrize("arm", [0, 1], ids=["plain", "speculating"])
def test_no_simulated_step_beats_the_machine(arm: int):
    result = _served()[arm]
    machine, steps = gpu("H100-SXM"), result.steps
    spent_s = steps.verify_s + steps.draft_s + steps.host_s
    rows = steps.decoding + steps.draft_tokens
    moved_bytes = BYTES_PER_WEIGHT * (LAYER_WEIGHTS + HEAD_WEIGHTS * (rows > 0))
    flops = 2.0 * (steps.new_tokens * LAYER_WEIGHTS + rows * HEAD_WEIGHTS)
    assert len(spent_s) > 500
    assert np.all(spent_s >= moved_bytes / machine.hbm_bytes_per_s)
    assert np.all(spent_s >= flops / machine.peak_flops_per_s["bf16"])


@pytest.mark.parametrize("arm", [0, 1], ids=["plain", "speculating"])
def test_utilisation_is_the_work_done_over_the_time_it_took(arm: int):
    """Bytes and flops that the run reports are at least those counted by hand, and fit under the ceilings."""
    result = _served()[arm]
    steps, totals = result.steps, result.totals
    weights_bytes = BYTES_PER_WEIGHT * LAYER_WEIGHTS * totals.steps
    assert totals.hbm_bytes >= weights_bytes
    assert totals.flops >= 2.0 * LAYER_WEIGHTS * steps.new_tokens.sum()
    assert 0.0 < result.memory_utilisation_fraction < 1.0
    assert 0.0 < result.compute_utilisation_fraction < 1.0
