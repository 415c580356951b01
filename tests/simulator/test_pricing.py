"""The compiled loop charges what the table says: its steps against `roofline.cost.round_cost`."""

import numpy as np
import pytest

from roofline.calibration import HostFit, SamplerFit
from roofline.cost import DraftWork, TableSize, round_cost, step_cost_table
from simulator.acceptance import IidAcceptance
from simulator.policy import FixedDraft
from simulator.proposers import DraftModelProposer, HeadProposer, NgramProposer, NoProposer
from simulator.replica import Speculation, simulate
from tests.roofline.small_models import deployment, model
from tests.strategies import limits, workload

SIZE = TableSize(max_tokens=256, max_sequences=16, max_draft_tokens=4)
HOST = HostFit(step_s=1e-3, step_per_sequence_s=1e-5, round_s=2e-3, draft_pass_s=3e-4, proposal_s=1e-4)
SAMPLER = SamplerFit(plain_base_s=1e-4, verify_base_s=2e-4, verify_per_sequence_s=3e-6, verify_per_logit_s=1e-9)


@pytest.mark.parametrize("window_tokens", [None, 24])
@pytest.mark.parametrize("p_norm", [None, 1.0, 2.5])
@pytest.mark.parametrize(
    ("proposer", "work"),
    [
        (NoProposer(), DraftWork(kind="none")),
        (HeadProposer(), DraftWork(kind="chain")),
        (DraftModelProposer(), DraftWork(kind="chain", first_pass_extra_tokens=1)),
        (NgramProposer(1.0), DraftWork(kind="matching")),
    ],
    ids=["none", "head", "draft model", "n-gram"],
)
def test_every_steady_step_costs_what_the_closed_form_says(proposer, work, p_norm, window_tokens):
    batch, prompt, drafts = 3, 20, 0 if work.kind == "none" else 2
    draft = model(hidden=32, window_tokens=window_tokens) if work.kind == "chain" else None
    place = deployment(p_norm=p_norm, overhead_s=1e-6, host=HOST, sampler=SAMPLER)
    table = step_cost_table(model(layers=4, window_tokens=window_tokens), place, size=SIZE, draft=draft, work=work)
    acceptance = (IidAcceptance(0.0),)
    result = simulate(
        workload(np.zeros(batch), prompt, 10),
        costs=table,
        limits=limits(max_batched_tokens=256, max_sequences=16),
        speculation=Speculation(proposer, FixedDraft(drafts), acceptance),
        seed=0,
        trace_steps=True,
    )
    steps = result.steps
    for step in range(1, len(steps.start_s)):
        # With nothing accepted every sequence grows by one token a step.
        context_tokens = prompt + step - 1
        expected = round_cost(table, batch=batch, context_tokens=context_tokens, draft_tokens=drafts)
        assert steps.verify_s[step] == pytest.approx(expected.verify_s, rel=1e-12)
        assert steps.draft_s[step] == pytest.approx(expected.draft_s, rel=1e-12)
        assert steps.host_s[step] == pytest.approx(expected.host_s, rel=1e-12)


def test_totals_add_up_the_steps():
    table = step_cost_table(model(layers=2), deployment(host=HOST), size=SIZE)
    result = simulate(
        workload(np.linspace(0, 0.1, 20), 12, 6),
        costs=table,
        limits=limits(max_batched_tokens=32, max_sequences=4),
        speculation=Speculation(NoProposer(), FixedDraft(0)),
        seed=0,
        trace_steps=True,
    )
    steps, totals = result.steps, result.totals
    assert totals.steps == len(steps.start_s)
    assert totals.verify_s == pytest.approx(steps.verify_s.sum())
    assert totals.host_s == pytest.approx(steps.host_s.sum())
    assert totals.busy_s == pytest.approx((steps.verify_s + steps.draft_s + steps.host_s).sum())
    assert 0.0 < result.memory_utilisation_fraction <= 1.0
    assert 0.0 < result.compute_utilisation_fraction <= 1.0


def test_speculation_loaded_but_off_pays_its_tax():
    def finished_s(proposer, tax_s):
        place = deployment(host=HostFit(step_s=1e-3, idle_speculation_s=tax_s))
        draft, work = (model(), DraftWork(kind="chain")) if isinstance(proposer, HeadProposer) else (None, None)
        table = step_cost_table(model(), place, size=SIZE, draft=draft, work=work)
        speculation = Speculation(proposer, FixedDraft(0))
        room = limits(max_batched_tokens=256, max_sequences=16)
        return simulate(workload([0.0], 4, 11), costs=table, limits=room, speculation=speculation, seed=0).finished_s[0]

    assert finished_s(HeadProposer(), 0.5) - finished_s(NoProposer(), 0.5) == pytest.approx(11 * 0.5, rel=1e-9)
    assert finished_s(HeadProposer(), 0.0) == pytest.approx(finished_s(NoProposer(), 0.0), rel=1e-12)
