"""Scheduling decisions step by step, against schedules worked out by hand from vLLM V1's rules."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.acceptance import IidAcceptance, PerPositionAcceptance
from simulator.compare import paired_speedup
from simulator.policy import DraftByBatch
from simulator.proposers import HeadProposer, NgramProposer
from simulator.replica import Speculation, simulate
from simulator.result import Slo
from simulator.workload import make_workload
from tests.strategies import PLAIN, affine_costs, head, limits, workload


def _run(load, speculation=PLAIN, **room):
    return simulate(
        load,
        costs=affine_costs(step_s=1.0, max_tokens=64, max_sequences=8),
        limits=limits(**{"max_batched_tokens": 64, "max_sequences": 8, **room}),
        speculation=speculation,
        seed=0,
        trace_steps=True,
    )


def test_prompts_share_a_step_and_decodes_follow():
    result = _run(workload([0.0, 0.0], [10, 20], [2, 3]))

    assert result.steps.new_tokens.tolist() == [30, 2, 1]
    assert result.steps.prefilling.tolist() == [2, 0, 0]
    assert result.first_token_s.tolist() == [1.0, 1.0]
    assert result.finished_s.tolist() == [2.0, 3.0]


def test_a_long_prompt_is_cut_at_the_budget_and_decodes_go_first():
    result = _run(workload([0.0, 0.5], [4, 20], [4, 1]), max_batched_tokens=8)

    # Step 2: one decode and 7 prompt tokens; step 3: the same; step 4: one decode and the last 6.
    assert result.steps.new_tokens.tolist() == [4, 8, 8, 7]
    assert result.first_token_s[1] == 4.0


def test_without_chunks_a_prompt_waits_for_a_budget_that_holds_it():
    result = _run(workload([0.0, 0.5], [4, 7], [3, 1]), max_batched_tokens=8, chunked_prefill=False)
    assert result.steps.new_tokens.tolist() == [4, 8, 1]

    tight = _run(workload([0.0, 0.5], [4, 7], [3, 1]), max_batched_tokens=8, chunked_prefill=True)
    assert tight.steps.new_tokens.tolist() == [4, 8, 1]


def test_a_decode_costs_one_plus_k_tokens_and_drafts_are_cut_at_the_budget():
    result = _run(workload([0.0, 0.0], [2, 2], [4, 4]), head(3, IidAcceptance(0.0)), max_batched_tokens=6)

    # 4 + 2 tokens: the second sequence keeps one draft of its three.
    assert result.steps.new_tokens.tolist() == [4, 6, 6, 6]
    assert result.steps.draft_tokens.tolist() == [0, 4, 4, 4]


def test_the_head_of_the_queue_blocks_those_behind_it():
    # 4 blocks of 4 tokens. The second request needs 3 blocks, the third 1: it would fit, but waits its turn.
    load = workload([0.0, 0.1, 0.2], [7, 9, 2], [2, 2, 2])
    result = _run(load, kv_blocks=4, block_tokens=4)
    assert result.admitted_s[2] >= result.admitted_s[1] > 0.0


def test_the_last_running_request_is_preempted_and_recomputed():
    # Two requests of 3 prompt tokens grow to 8 tokens each; 3 blocks of 4 hold only one of them to the end.
    result = _run(workload([0.0, 0.0], [3, 3], [5, 5]), kv_blocks=3, block_tokens=4)

    assert result.preemptions.tolist() == [0, 1]
    assert result.finished_s[0] < result.finished_s[1]
    assert np.all(result.emitted_tokens == 5)
    # When the first leaves, the second computes its prompt and what it had emitted again.
    assert result.steps.prefilling.tolist().count(1) == 1
    again = int(np.flatnonzero(result.steps.prefilling == 1)[0])
    assert result.steps.new_tokens[again] > 3


def test_a_prefix_hit_is_not_computed_again():
    result = _run(workload([0.0], [20], [1], prefix_hit_tokens=[16]))
    assert result.steps.new_tokens.tolist() == [4]


def test_a_request_that_can_never_fit_is_refused_at_once():
    result = _run(workload([0.0, 0.0], [100, 3], [1, 1]), kv_blocks=4, block_tokens=4)
    assert result.refused.tolist() == [True, False]
    assert result.counts.refused == 1
    assert result.counts.finished == 1
    assert result.saturation.saturated is False


def test_a_closed_loop_keeps_its_concurrency():
    result = _run(workload(np.zeros(9), 2, 3, concurrency=3))
    assert result.steps.decoding.max() == 3
    assert result.arrival_s.tolist() == [0.0] * 3 + [3.0] * 3 + [6.0] * 3


def test_k_follows_the_number_of_requests_of_the_step_before():
    policy = DraftByBatch(((1, 1, 3), (2, 8, 1)))
    speculation = Speculation(HeadProposer(), policy, (PerPositionAcceptance((0.0, 0.0, 0.0)),))
    result = _run(workload([0.0, 1.5], [2, 2], [6, 2]), speculation)

    # Alone: 3 drafts. The step that admits the second still verifies 3, and proposes 1 for each; alone again, 3.
    assert result.steps.draft_tokens.tolist() == [0, 3, 3, 2, 1, 3]


def test_a_matching_proposer_drafts_only_where_it_finds_a_match():
    def drafted_share(match_fraction):
        speculation = Speculation(
            NgramProposer(match_fraction), head(2, IidAcceptance(0.0)).policy, (IidAcceptance(0.0),)
        )
        result = _run(workload(np.zeros(200), 1, 20, concurrency=4), speculation)
        return result.rounds.sum() / (result.emitted_tokens - 1).sum()

    assert drafted_share(0.0) == 0.0
    assert drafted_share(1.0) == 1.0
    assert drafted_share(0.3) == pytest.approx(0.3, abs=0.03)


def test_beyond_the_drafters_window_nothing_is_accepted_but_drafts_are_paid():
    result = _run(workload([0.0], [4], [20]), head(1, IidAcceptance(1.0)), draft_window_tokens=10)

    # Context 5 and 7 and 9 accept; from 11 on each round emits one token.
    assert result.accepted_tokens[0] == 3
    assert result.rounds[0] == 3 + (20 - 1 - 6)


def test_a_sequence_left_out_of_a_step_keeps_its_drafts():
    # Budget 5: one sequence verifies 1 + 3, the other gets 1 token and loses its drafts for this step only.
    result = _run(workload([0.0, 0.0], [2, 2], [3, 3]), head(3, IidAcceptance(1.0)), max_batched_tokens=4)
    assert result.steps.draft_tokens.tolist() == [0, 3, 3]


def test_alternating_engines_never_mix_prompts_and_decodes():
    load = workload([0.0, 0.5, 3.5], [4, 6, 2], [5, 3, 2])
    result = _run(load, alternate_prefill=True)
    steps = result.steps

    assert np.all((steps.decoding == 0) | (steps.prefilling == 0))
    # The second prompt interrupts the first request's decoding, the third both.
    assert steps.new_tokens.tolist() == [4, 6, 2, 2, 2, 2, 1]
    assert steps.prefilling.tolist() == [1, 1, 0, 0, 1, 0, 0]
    assert result.counts.finished == 3


def test_an_alternating_engine_finishes_a_cut_prompt_before_it_decodes():
    result = _run(workload([0.0, 0.5], [4, 20], [3, 1]), max_batched_tokens=8, alternate_prefill=True)
    assert result.steps.new_tokens.tolist() == [4, 8, 8, 4, 1, 1]


def test_an_objective_may_bind_one_class_alone():
    load = make_workload([0.0, 0.0], prompt_tokens=[4, 4], output_tokens=[2, 9])
    load = replace(load, class_id=np.array([0, 1]), class_names=("short", "long"))
    result = _run(load)
    limit = Slo("latency", quantile=1.0, limit_s=3.0)

    assert result.goodput((limit,)).fraction == 0.5
    assert not result.meets((limit,))
    assert result.goodput((replace(limit, class_id=0),)).fraction == 1.0
    assert result.meets((replace(limit, class_id=0),))
    assert not result.meets((replace(limit, class_id=1),))


def test_a_worst_case_reservation_admits_fewer_and_preempts_nobody():
    """10 blocks of 16: three requests of 20 + 40 tokens want 4 blocks each at the end, 2 at the start."""
    load = workload(np.zeros(3), 20, 40)
    tight = {"kv_blocks": 10, "reserve_full_prompt": True}
    costs = affine_costs(step_s=0.01)
    eager = simulate(load, costs=costs, limits=limits(**tight), speculation=PLAIN, seed=0)
    careful = simulate(
        load, costs=costs, limits=limits(**tight, reserve_full_output=True), speculation=PLAIN, seed=0, trace_steps=True
    )
    assert eager.preemptions.sum() > 0
    assert careful.preemptions.sum() == 0
    assert careful.steps is not None
    assert (careful.steps.decoding + careful.steps.prefilling).max() == 2
    assert careful.counts.finished == 3


def test_alternating_steps_go_on_when_a_prompt_preempts_itself():
    """A chunk that finds no blocks gives way to the decodes, instead of being admitted and preempted for ever."""
    result = simulate(
        workload(np.zeros(2), [1, 30], [17, 16]),
        costs=affine_costs(step_s=0.01),
        limits=limits(
            max_sequences=2,
            kv_blocks=60,
            block_tokens=1,
            long_prefill_tokens=20,
            chunked_prefill=False,
            reserve_full_prompt=False,
            alternate_prefill=True,
        ),
        speculation=PLAIN,
        seed=0,
        until_s=60.0,
    )
    assert result.counts.finished == 2


def test_a_run_that_refuses_everything_has_no_rates_instead_of_an_error():
    for concurrency in (None, 1):
        result = _run(workload([0.0, 0.0], [100, 100], [1, 1], concurrency=concurrency), kv_blocks=4, block_tokens=4)

        assert result.counts.refused == 2
        assert np.isnan(result.memory_utilisation_fraction)
        assert np.isnan(result.compute_utilisation_fraction)
        assert np.isnan(result.throughput_tokens_per_s)
        assert result.goodput(()).fraction == 0.0
        assert np.isnan(paired_speedup([result], [result], metric="throughput").estimate)
        assert not result.saturation.saturated
