"""The cost table: rounds by hand, monotone in everything, equal to the account of the pass."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.account import pass_account
from roofline.calibration import HostFit, SamplerFit
from roofline.catalog import gpu
from roofline.catalog.shipped import shipped_calibration, shipped_names
from roofline.cost import (
    Deployment,
    DraftWork,
    TableSize,
    decode_attention_s,
    round_cost,
    step_cost_table,
    trunk_s,
)
from roofline.errors import InvalidInput, OutsideDomain
from roofline.hf_config import load_model
from roofline.specs import Parallelism
from tests.roofline.small_models import deployment, model

SIZE = TableSize(max_tokens=256, max_sequences=16, max_draft_tokens=4)
CHAIN = DraftWork(kind="chain")


def _table(*, work: DraftWork = CHAIN, with_draft: bool = True, **fit):
    draft = model(hidden=32) if with_draft else None
    return step_cost_table(model(layers=4), deployment(**fit), size=SIZE, draft=draft, work=work)


def test_a_round_by_hand():
    # Every term is recomputed here from its definition.
    host = HostFit(step_s=1e-3, round_s=2e-3, draft_pass_s=3e-3, cold_draft_s=4e-3)
    sampler = SamplerFit(verify_base_s=5e-3, verify_per_logit_s=1e-6, draft_base_s=6e-3, plain_base_s=7e-3)
    table = _table(host=host, sampler=sampler)
    cost = round_cost(table, batch=2, context_tokens=10, draft_tokens=3)

    target, draft = table.target, table.draft
    rows, seen, pairs = 2 * 4, 2 * 14, 2 * (4 * 10 + 4 * 5 // 2)
    kv_bytes, flops = 4 * 64 * 2, 4 * 2 * 4 * 32
    verify = target.trunk_s[rows] + target.logits_s[rows] + seen * kv_bytes / 1e9 + pairs * flops / 1e12
    assert cost.verify_s == pytest.approx(verify + 5e-3 + rows * 100 * 1e-6, rel=1e-12)
    draft_attention = seen * 64 * 2 / 1e9 + pairs * 256 / 1e12
    later = draft.trunk_s[2] + seen * 64 * 2 / 1e9 + seen * 256 / 1e12
    chain = 4e-3 + 3 * (3e-3 + draft.logits_s[2] + 6e-3)
    assert cost.draft_s == pytest.approx(draft.trunk_s[rows] + draft_attention + 2 * later + chain, rel=1e-12)
    assert cost.host_s == pytest.approx(3e-3)
    plain = target.trunk_s[2] + target.logits_s[2] + 2 * 11 * (kv_bytes / 1e9 + flops / 1e12) + 7e-3 + 1e-3
    assert cost.plain_s == pytest.approx(plain, rel=1e-12)
    assert cost.ratio == pytest.approx((cost.verify_s + cost.draft_s + cost.host_s) / cost.plain_s)


def test_no_drafts_cost_the_plain_step():
    cost = round_cost(_table(host=HostFit(step_s=1e-3)), batch=3, context_tokens=7, draft_tokens=0)
    assert cost.round_s == pytest.approx(cost.plain_s, rel=1e-15)


def test_sending_inputs_to_several_gpus_is_paid_by_every_pass_that_is_sharded():
    machine, split = deployment(host=HostFit(sharded_pass_s=1.0)), Parallelism(tensor=2, draft_tensor=1)
    alone = step_cost_table(model(layers=4), machine, size=SIZE, draft=model(), work=CHAIN)
    target_only = step_cost_table(
        model(layers=4), machine.model_copy(update={"parallel": split}), size=SIZE, draft=model(), work=CHAIN
    )
    both = machine.model_copy(update={"parallel": Parallelism(tensor=2, draft_tensor=2)})
    sharded = step_cost_table(model(layers=4), both, size=SIZE, draft=model(), work=CHAIN)
    assert (alone.step_host_s, target_only.step_host_s) == (0.0, 1.0)
    assert target_only.draft_chain_s[3, 1] < 1.0
    assert sharded.draft_chain_s[3, 1] == pytest.approx(target_only.draft_chain_s[3, 1] + 3.0, abs=0.01)


def test_a_parallel_drafter_runs_one_pass_over_its_mask_tokens():
    chain, parallel = (
        _table(host=HostFit(draft_pass_s=1.0)),
        _table(host=HostFit(draft_pass_s=1.0), work=DraftWork(kind="parallel")),
    )
    assert chain.draft_passes.tolist() == [0, 1, 2, 3, 4]
    assert parallel.draft_passes.tolist() == [0, 1, 1, 1, 1]
    assert parallel.first_pass_extra_tokens.tolist() == [0, 1, 2, 3, 4]
    costs = [round_cost(table, batch=1, context_tokens=5, draft_tokens=4).draft_s for table in (chain, parallel)]
    assert costs[0] - costs[1] == pytest.approx(3.0, rel=1e-3)


def test_matching_costs_only_the_host():
    host = HostFit(proposal_s=1e-3, proposal_per_sequence_s=1e-4)
    table = _table(host=host, work=DraftWork(kind="matching"), with_draft=False)
    assert round_cost(table, batch=5, context_tokens=9, draft_tokens=4).draft_s == pytest.approx(1.5e-3)


@given(
    batch=st.integers(1, 15),
    context=st.integers(0, 500),
    drafts=st.integers(0, 3),
    p_norm=st.one_of(st.none(), st.floats(1.0, 8.0)),
    tensor=st.sampled_from([1, 2]),
)
@settings(max_examples=50)
def test_more_work_never_takes_less_time(batch, context, drafts, p_norm, tensor):
    table = _table(p_norm=p_norm, tensor=tensor, overhead_s=1e-6)

    def round_s(batch, context, drafts):
        return round_cost(table, batch=batch, context_tokens=context, draft_tokens=drafts).round_s

    base_s = round_s(batch, context, drafts)
    assert round_s(batch + 1, context, drafts) >= base_s
    assert round_s(batch, context + 1, drafts) >= base_s
    assert round_s(batch, context, drafts + 1) >= base_s


@pytest.mark.parametrize("graph_tokens", [(), (1, 2, 4, 8, 16), (1, 8, 64, 512)])
def test_padding_and_eager_steps_keep_time_monotone_in_tokens(graph_tokens):
    shard = deployment(graph_tokens=graph_tokens, host=HostFit(launch_s=1e-5)).shard()
    seconds = trunk_s(model(layers=4), np.arange(100), shard)
    assert seconds[0] == 0.0
    assert np.all(np.diff(seconds) >= 0)


def test_an_eager_pass_is_bound_by_its_launches():
    launch_s = 1.0
    eager = trunk_s(model(layers=4), 1, deployment(host=HostFit(launch_s=launch_s)).shard())[0]
    graph = trunk_s(model(layers=4), 1, deployment(host=HostFit(launch_s=launch_s), graph_tokens=(1,)).shard())[0]
    assert graph < 1e-3
    assert eager >= 4 * launch_s


@pytest.mark.parametrize("rows_each", [1, 4])
def test_the_account_adds_up_to_the_table(rows_each):
    place = deployment(tensor=2, overhead_s=1e-6, p_norm=2.0, graph_tokens=(1, 2, 4, 8, 16, 32))
    table = step_cost_table(model(layers=4), place, size=SIZE)
    account = pass_account(model(layers=4), place.shard(), batch=3, rows_each=rows_each, context_tokens=50)
    if rows_each == 1:
        expected = round_cost(table, batch=3, context_tokens=50, draft_tokens=0).verify_s
        assert sum(row.seconds for row in account) == pytest.approx(expected, rel=1e-12)
    assert all(row.seconds >= row.floor_s * (1 - 1e-12) for row in account)


def test_a_draft_is_asked_for_exactly_where_one_runs():
    with pytest.raises(InvalidInput, match="needs a draft model"):
        step_cost_table(model(), deployment(), size=SIZE, work=CHAIN)
    with pytest.raises(InvalidInput, match="runs no draft model"):
        step_cost_table(model(), deployment(), size=SIZE, draft=model())


def test_a_group_size_nobody_measured_is_refused():
    with pytest.raises(OutsideDomain, match="over 8 GPUs"):
        step_cost_table(model(), deployment(tensor=8), size=SIZE)


def test_rounds_beyond_the_table_are_refused():
    table = _table()
    with pytest.raises(InvalidInput, match=r"batch must be in 1\.\.16, got 17"):
        round_cost(table, batch=17, context_tokens=1, draft_tokens=1)
    with pytest.raises(InvalidInput, match=r"draft_tokens must be in 0\.\.4, got 5"):
        round_cost(table, batch=1, context_tokens=1, draft_tokens=5)


@pytest.mark.parametrize("name", shipped_names(), ids="--".join)
@pytest.mark.parametrize("rows_each", [1, 4])
def test_the_account_adds_up_under_every_shipped_calibration(name, rows_each):
    target = load_model("meta-llama/Llama-3.1-8B-Instruct")
    place = Deployment(gpu=gpu(name[0]), calibration=shipped_calibration(*name))
    table = step_cost_table(target, place, size=TableSize(max_tokens=256, max_sequences=64, max_draft_tokens=3))
    account = pass_account(target, place.shard(), batch=64, rows_each=rows_each, context_tokens=4000)
    charged_s = (
        decode_attention_s(table.target, 64, rows_each=rows_each, context_tokens=4000)
        + table.target.state_s_per_sequence * 64
    )
    charged_s += float(table.target.trunk_s[64 * rows_each] + table.target.logits_s[64 * rows_each])
    assert sum(row.seconds for row in account) == pytest.approx(charged_s, rel=1e-12)
    if rows_each == 1:
        plain_s = round_cost(table, batch=64, context_tokens=4000, draft_tokens=0).verify_s
        assert charged_s == pytest.approx(plain_s - float(table.sample_plain_s[64]), rel=1e-9)
