"""Pipeline stages and attention ranks: cycles by hand, memory per stage, experts over all ranks."""

import numpy as np
import pytest

from roofline.catalog import engine, gpu
from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
from roofline.counts import weight_bytes
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from roofline.memory import memory_account
from roofline.specs import Parallelism
from roofline.stages import cycle_s, exchange_s, hop_s

H100, VLLM = gpu("H100-SXM"), engine("vllm")


def _deployment(**parallel) -> Deployment:
    return Deployment(gpu=H100, calibration=catalogue_calibration(H100, VLLM), parallel=Parallelism(**parallel))


def _table(model, drafts=0, draft=None, **parallel):
    work = DraftWork(kind="chain") if drafts else DraftWork(kind="none")
    size = TableSize(max_tokens=512, max_sequences=64, max_draft_tokens=drafts)
    return step_cost_table(model, _deployment(**parallel), size=size, draft=draft, work=work)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (1, (9.0, 2.0)),  # one micro-batch: 8 s through four stages, 1 s of logits, 2 s of drafting; three stages wait
        (2, (9.0, 2.0)),  # the last stage takes 2 x 5 s, less than the 11 s of a micro-batch
        (4, (4 * (2.0 + 1.0), 8.0)),  # full: the last stage takes 2 + 1 + 2 s for each of four micro-batches
    ],
)
def test_a_cycle_is_the_latency_of_one_micro_batch_or_the_last_stage_in_turn(parts, expected):
    assert cycle_s((8.0, 1.0, 2.0), (4, parts)) == pytest.approx(expected)


def test_a_token_and_its_residual_cross_the_link_between_stages():
    model = load_model("meta-llama/Llama-3.1-8B-Instruct")
    shard = _deployment(pipeline=2).shard()
    few, many = hop_s(model, np.array([1, 1001]), shard)
    assert many - few == pytest.approx(1000 * 2 * 4096 * 2 / H100.link_bytes_per_s)
    assert hop_s(model, 0, shard) == 0.0


def test_stages_leave_one_sequence_as_slow_and_make_drafting_dearer_for_many():
    target = load_model("meta-llama/Llama-3.1-8B-Instruct")
    head = load_model("SafeAILab/EAGLE3-LLaMA3.1-8B", role="head", method="eagle3", target=target)
    one, four = (_table(target, 3, head, pipeline=stages) for stages in (1, 4))
    plain_s = [round_cost(table, batch=1, context_tokens=300, draft_tokens=0).plain_s for table in (one, four)]
    assert plain_s[1] == pytest.approx(plain_s[0], rel=0.01)
    assert plain_s[1] > plain_s[0]
    ratio = [round_cost(table, batch=16, context_tokens=300, draft_tokens=3).ratio for table in (one, four)]
    assert ratio[1] > ratio[0] + 0.1


def test_every_stage_holds_its_layers_and_their_cache_and_the_last_one_the_head():
    target = load_model("meta-llama/Llama-3.1-70B-Instruct")
    asked = {"utilization_fraction": 0.9, "max_step_tokens": 8192, "max_logit_rows": 64}
    accounts = [
        memory_account(target, gpu=H100, parallel=Parallelism(tensor=2, draft_tensor=2, pipeline=stages), **asked)
        for stages in (2, 4)
    ]
    table_bytes = 128256 * 8192 * 2
    body_bytes = weight_bytes(target) - 2 * table_bytes
    assert accounts[1].weights_bytes == pytest.approx((body_bytes / 4 + table_bytes) / 2)
    assert accounts[1].kv_bytes_per_token == pytest.approx(accounts[0].kv_bytes_per_token / 2)
    assert accounts[1].kv_tokens > 2 * accounts[0].kv_tokens


def test_ranks_hold_a_cache_each_and_share_the_experts():
    target = load_model("deepseek-ai/DeepSeek-V3")
    machine = gpu("B200-SXM")
    asked = {"gpu": machine, "utilization_fraction": 0.9, "max_step_tokens": 8192, "max_logit_rows": 64}
    ranks = memory_account(target, parallel=Parallelism(data=8, whole_experts=True), **asked)
    cut = memory_account(target, parallel=Parallelism(tensor=8, draft_tensor=8), **asked)
    assert ranks.kv_bytes_per_token == cut.kv_bytes_per_token  # MLA's cache is copied to every GPU of a tensor group
    assert ranks.weights_bytes > cut.weights_bytes
    assert ranks.kv_tokens > 6 * cut.kv_tokens


def test_experts_are_read_once_for_all_ranks_and_attention_once_a_rank():
    target = load_model("Qwen/Qwen3-30B-A3B")
    table = _table(target, data=4, whole_experts=True)
    alone = _table(target)
    assert table.between_s is not None
    assert table.target.trunk_s[8] < alone.target.trunk_s[8]
    eight = round_cost(table, batch=8, context_tokens=300, draft_tokens=0)
    two = round_cost(alone, batch=2, context_tokens=300, draft_tokens=0)
    dense_s = float(table.target.trunk_s[2])
    assert eight.plain_s - float(table.between_s[8]) - dense_s == pytest.approx(
        two.plain_s - float(alone.target.trunk_s[2]), rel=1e-6
    )
    exchanged = exchange_s(target, np.array([0, 8]), _deployment(data=4).shard())
    assert exchanged[0] == 0.0
    assert exchanged[1] < table.between_s[8]
