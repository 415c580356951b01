"""Stages and ranks in the step loop: steps cost what the closed form says, the busiest rank is waited for."""

from dataclasses import replace

import numpy as np
import pytest

from roofline.cost import round_cost
from roofline.errors import InvalidInput
from roofline.stages import cycle_s
from simulator.acceptance import IidAcceptance
from simulator.controllers import ThroughputOptimal
from simulator.limits import EngineLimits
from simulator.proposers import HeadProposer
from simulator.replica import Speculation, simulate
from tests.strategies import PLAIN, affine_costs, head, limits, workload


def _costs(stages=1, ranks=1, between_s=0.0):
    costs = affine_costs(step_s=0.1, per_token_s=1e-2, draft_pass_s=0.01, round_extra_s=0.02, max_tokens=512)
    return replace(costs, stages=stages, ranks=ranks, between_s=np.full(513, between_s))


def _steps(costs, count, prompt=1, output=5, speculation=PLAIN):
    return simulate(
        workload(np.zeros(count), prompt, output),
        costs=costs,
        limits=limits(max_batched_tokens=512, max_sequences=64, kv_blocks=1000),
        speculation=speculation,
        seed=1,
        trace_steps=True,
    )


@pytest.mark.parametrize("count", [1, 3, 4, 8])
@pytest.mark.parametrize("drafts", [0, 3])
def test_a_decode_step_over_stages_takes_what_the_closed_form_says(count, drafts):
    costs = _costs(stages=4, between_s=0.003)
    result = _steps(costs, count, output=12, speculation=head(drafts, IidAcceptance(0.0)) if drafts else PLAIN)
    assert result.steps is not None
    steps = result.steps
    step_s = float((steps.verify_s + steps.draft_s + steps.host_s)[2])
    expected = round_cost(costs, batch=count, context_tokens=3, draft_tokens=drafts)
    assert step_s == pytest.approx(expected.round_s, rel=1e-3)


def test_stages_in_series_move_more_tokens_than_one_batch_in_turn():
    one, four = (_steps(_costs(stages=stages), 32, output=40) for stages in (1, 4))
    assert four.end_s < one.end_s
    lone = [_steps(_costs(stages=stages), 1, output=40).end_s for stages in (1, 4)]
    assert lone[1] == pytest.approx(lone[0])


def test_all_ranks_wait_for_the_one_with_most_tokens():
    shared_s = 0.05
    costs = _costs(ranks=4, between_s=shared_s)
    balanced, uneven = _steps(costs, 8), _steps(costs, 9)
    decode = [float(result.steps.verify_s[2]) for result in (balanced, uneven)]
    alone = [float(_steps(_costs(), count).steps.verify_s[2]) for count in (2, 3)]
    assert decode == pytest.approx([each + shared_s for each in alone])


def test_tokens_of_all_parts_are_counted():
    whole = _steps(_costs(), 7, prompt=9)
    for parted in (_steps(_costs(stages=3), 7, prompt=9), _steps(_costs(ranks=3), 7, prompt=9)):
        assert parted.totals.step_tokens == whole.totals.step_tokens
        assert np.array_equal(parted.emitted_tokens, whole.emitted_tokens)


def test_a_cycle_never_takes_less_than_one_pass_nor_more_than_all_in_turn():
    for parts in range(1, 9):
        total_s = sum(cycle_s((1.0, 0.1, 0.2), (8, parts)))
        assert 1.3 - 1e-12 <= total_s <= 1.3 * parts + 1e-12


def test_controllers_that_read_the_cost_table_are_refused_over_parts():
    speculation = Speculation(HeadProposer(), ThroughputOptimal(3), (IidAcceptance(0.5),))
    with pytest.raises(InvalidInput, match="looks at one batch, not at pipeline stages"):
        simulate(
            workload(np.zeros(2), 1, 4),
            costs=_costs(stages=2),
            limits=EngineLimits(max_batched_tokens=64, max_sequences=8, kv_blocks=100),
            speculation=speculation,
            seed=0,
        )
