"""Rows that a parallel drafter adds attend to the whole cache: in closed form and in the step loop alike."""

import numpy as np
import pytest

from roofline.catalog import engine, gpu
from roofline.cost import Deployment, TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from simulator.acceptance import IidAcceptance
from simulator.policy import FixedDraft
from simulator.proposers import ParallelProposer
from simulator.replica import Speculation, simulate
from tests.strategies import limits, workload

CONTEXT, DRAFTS = 8000, 4


def _table(method):
    machine = gpu("H100-SXM")
    return step_cost_table(
        load_model("meta-llama/Llama-3.1-8B-Instruct"),
        Deployment(gpu=machine, calibration=catalogue_calibration(machine, engine("vllm"))),
        size=TableSize(max_tokens=9000, max_sequences=4, max_draft_tokens=DRAFTS),
        draft=load_model("meta-llama/Llama-3.2-1B-Instruct", role="draft_model"),
        work=ParallelProposer(method).work,
    )


@pytest.mark.parametrize("method", ["pard", "p_eagle", "dflash", "dspark"])
def test_a_parallel_pass_takes_what_the_closed_form_says(method):
    table = _table(method)
    result = simulate(
        workload(np.zeros(1), CONTEXT, 8),
        costs=table,
        limits=limits(max_batched_tokens=9000, max_sequences=4, kv_blocks=4000),
        speculation=Speculation(ParallelProposer(method), FixedDraft(DRAFTS), (IidAcceptance(0.0),)),
        seed=0,
        trace_steps=True,
    )
    assert result.steps is not None
    expected = round_cost(table, batch=1, context_tokens=CONTEXT + 1, draft_tokens=DRAFTS)
    assert float(result.steps.draft_s[2]) == pytest.approx(expected.draft_s, rel=1e-3)


def test_more_mask_rows_take_longer_over_a_long_cache_by_their_pairs():
    table = _table("pard")
    assert table.draft is not None
    cost = [round_cost(table, batch=1, context_tokens=CONTEXT, draft_tokens=drafts) for drafts in (1, 4)]
    pairs_s = float(table.draft.decode_s_per_pair.sum()) * 3 * CONTEXT
    assert cost[1].draft_s - cost[0].draft_s > 0.9 * pairs_s
