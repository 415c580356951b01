"""Laws of any queue: nothing is lost, Little's law, M/D/1, and no time is gained by adding work."""

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from simulator.replica import Replica, simulate
from simulator.rng import Streams
from simulator.workload import poisson_arrivals
from tests.strategies import LONG_S, PLAIN, Case, affine_costs, cases, limits, workload


@given(case=cases(), stop_s=st.one_of(st.floats(0.0, 5.0, exclude_min=True), st.just(LONG_S)))
@settings(max_examples=300)
def test_requests_are_conserved_at_any_stop(case: Case, stop_s: float):
    result = case.run(until_s=stop_s, trace_steps=True)
    counts = result.counts

    assert counts.arrived == counts.finished + counts.running + counts.waiting + counts.refused
    assert min(counts.finished, counts.running, counts.waiting, counts.refused) >= 0
    assert counts.finished == np.sum(~np.isnan(result.finished_s))
    if stop_s == LONG_S:
        assert counts.finished + counts.refused == len(case.workload)
    if case.workload.concurrency is None and stop_s < LONG_S:
        assert counts.arrived == np.sum(case.workload.arrival_s <= result.end_s)
        assert np.sum(case.workload.arrival_s < stop_s) <= counts.arrived


@given(case=cases(), stop_s=st.floats(0.0, 5.0))
@settings(max_examples=200)
def test_tokens_are_conserved_at_any_stop(case: Case, stop_s: float):
    result = case.run(until_s=stop_s, trace_steps=True)
    finished = ~np.isnan(result.finished_s)

    assert np.array_equal(result.emitted_tokens[finished], result.output_tokens[finished])
    assert np.all(result.emitted_tokens <= result.output_tokens)
    assert np.all(result.emitted_tokens[~finished] < result.output_tokens[~finished])
    assert result.emitted_tokens.sum() == result.steps.emitted_tokens.sum()
    assert result.drafted_tokens.sum() == result.steps.draft_tokens.sum()
    assert result.totals.step_tokens == result.steps.new_tokens.sum()
    assert np.all(result.accepted_tokens <= result.drafted_tokens)
    assert np.all(np.isnan(result.first_token_s) == (result.emitted_tokens == 0))
    assert np.all(result.emitted_tokens[result.refused] == 0)


@given(case=cases())
@settings(max_examples=200)
def test_cache_blocks_are_all_returned(case: Case):
    replica = Replica(case.workload, **case.arguments())
    for stop_s in (0.05, 0.5, LONG_S):
        finished = replica.advance(stop_s)
        held = int(replica._batch.capacity[: replica.running].sum()) // case.limits.block_tokens
        assert held + int(replica._state.free_blocks) == case.limits.kv_blocks
        assert int(replica._state.free_blocks) >= 0
    assert finished
    assert int(replica._state.free_blocks) == case.limits.kv_blocks


@given(case=cases(), stops_s=st.lists(st.floats(0.0, 3.0), max_size=4))
@settings(max_examples=150)
def test_stopping_and_going_on_changes_nothing(case: Case, stops_s: list[float]):
    straight = case.run()
    replica = Replica(case.workload, **case.arguments())
    for stop_s in sorted(stops_s):
        replica.advance(stop_s)
    replica.advance(LONG_S)
    stopped = replica.result()

    assert np.array_equal(straight.finished_s, stopped.finished_s, equal_nan=True)
    assert np.array_equal(straight.first_token_s, stopped.first_token_s, equal_nan=True)
    assert straight.totals.busy_s == stopped.totals.busy_s
    assert straight.totals.steps == stopped.totals.steps


@given(case=cases(open_loop_only=True))
@settings(max_examples=300)
def test_littles_law_is_exact_from_empty_to_empty(case: Case):
    """Time integral of the requests in the system = sum of the times they spent in it."""
    result = case.run()
    served = ~result.refused
    spent_s = float((result.finished_s - result.arrival_s)[served].sum())

    assert result.totals.system_request_s == pytest.approx(spent_s, rel=1e-9, abs=1e-9)


@given(case=cases())
@settings(max_examples=150)
def test_time_runs_forward_for_every_request(case: Case):
    result = case.run()
    served = ~result.refused
    assert np.all(result.arrival_s[served] <= result.admitted_s[served])
    assert np.all(result.admitted_s[served] < result.first_token_s[served])
    assert np.all(result.first_token_s[served] <= result.finished_s[served])
    assert result.totals.busy_s <= result.end_s * (1 + 1e-12)
    parts_s = result.totals.verify_s + result.totals.draft_s + result.totals.host_s
    assert parts_s == pytest.approx(result.totals.busy_s, rel=1e-9)


def test_prompts_alternating_with_decodes_make_progress_when_the_cache_is_full():
    """A prompt that preempts itself must leave the next step to the decodes that will free its blocks."""
    tight = limits(
        max_batched_tokens=8,
        max_sequences=2,
        kv_blocks=60,
        block_tokens=1,
        reserve_full_prompt=False,
        alternate_prefill=True,
    )
    case = Case(workload(np.zeros(2), [2, 21], [21, 20]), tight, PLAIN, seed=0)
    result = case.run()
    assert result.counts.finished == 2
    assert result.preemptions.sum() > 0


def _single_server(arrival_s: np.ndarray, service_s: float):
    return simulate(
        workload(arrival_s, 1, 1),
        costs=affine_costs(step_s=service_s),
        limits=limits(max_sequences=1),
        speculation=PLAIN,
        seed=0,
    )


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60), st.integers(1, 9))
@settings(max_examples=100)
def test_batch_one_with_constant_service_follows_lindleys_recursion(gaps_s: list[float], output_tokens: int):
    arrival_s = np.cumsum(gaps_s)
    result = simulate(
        workload(arrival_s, 7, output_tokens),
        costs=affine_costs(step_s=0.1),
        limits=limits(max_sequences=1),
        speculation=PLAIN,
        seed=0,
    )
    free_s = 0.0
    for index, arrived_s in enumerate(arrival_s):
        free_s = max(free_s, arrived_s) + 0.1 * output_tokens
        assert result.finished_s[index] == pytest.approx(free_s, rel=1e-9)


@pytest.mark.parametrize("load_fraction", [0.3, 0.7, 0.9])
def test_batch_one_with_constant_service_is_m_d_1(load_fraction: float):
    """Pollaczek-Khinchine: mean wait = rho * D / (2 (1 - rho))."""
    service_s, requests, groups = 0.05, 400_000, 40
    arrival_s = poisson_arrivals(requests, load_fraction / service_s, Streams(5).get("arrivals"))
    result = _single_server(arrival_s, service_s)
    waits_s = result.admitted_s - result.arrival_s
    means_s = waits_s.reshape(groups, -1).mean(axis=1)
    standard_error_s = means_s.std(ddof=1) / np.sqrt(groups)
    expected_s = load_fraction * service_s / (2.0 * (1.0 - load_fraction))

    assert abs(waits_s.mean() - expected_s) < 3.5 * standard_error_s
    assert standard_error_s < 0.06 * expected_s
    rho = result.totals.busy_s / result.end_s
    assert rho == pytest.approx(load_fraction, rel=0.01)


_WORKLOADS = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 25)), min_size=1, max_size=14)


def _makespan_s(lengths: list[tuple[int, int]], *, max_sequences: int, max_batched_tokens: int) -> float:
    prompts, outputs = zip(*lengths, strict=True)
    result = simulate(
        workload(np.zeros(len(lengths)), prompts, outputs),
        costs=affine_costs(step_s=0.01, per_token_s=2e-5, kv_s_per_token=1e-6, pair_s=1e-8),
        limits=limits(max_sequences=max_sequences, max_batched_tokens=max_batched_tokens),
        speculation=PLAIN,
        seed=0,
    )
    return result.end_s


@given(_WORKLOADS, st.data(), st.integers(1, 6))
@settings(max_examples=200)
def test_more_work_never_takes_less_time(lengths: list[tuple[int, int]], data: st.DataObject, max_sequences: int):
    room = {"max_sequences": max_sequences, "max_batched_tokens": 4096}
    before_s = _makespan_s(lengths, **room)
    index = data.draw(st.integers(0, len(lengths) - 1))
    prompt, output = lengths[index]
    longer = list(lengths)
    longer[index] = (prompt + data.draw(st.integers(0, 50)), output + data.draw(st.integers(0, 20)))

    assert _makespan_s(longer, **room) >= before_s * (1 - 1e-12)
    assert _makespan_s([*lengths, (prompt, output)], **room) >= before_s * (1 - 1e-12)


@given(case=cases(open_loop_only=True), extra_tokens=st.integers(1, 40))
@settings(max_examples=150)
def test_a_request_that_comes_last_never_speeds_up_the_others(case: Case, extra_tokens: int):
    roomy = limits(max_batched_tokens=1000, max_sequences=case.limits.max_sequences, lookahead_tokens=8)
    arguments = case.arguments() | {"limits": roomy}
    old = case.workload
    more = workload(
        np.append(old.arrival_s, old.arrival_s[-1]),
        np.append(old.prompt_tokens, 30),
        np.append(old.output_tokens, extra_tokens),
        prefix_hit_tokens=np.append(old.prefix_hit_tokens, 0),
    )
    before, after = simulate(old, **arguments), simulate(more, **arguments)

    assert np.all(after.finished_s[:-1] >= before.finished_s * (1 - 1e-12))


def _served(case: Case):
    return case.run(trace_steps=True)


@pytest.mark.parametrize(
    "reached",
    [
        lambda result: result.preemptions.sum() > 0,
        lambda result: result.refused.any() and not result.refused.all(),
        lambda result: 0 < result.accepted_tokens.sum() < result.drafted_tokens.sum(),
        lambda result: np.any((result.steps.decoding > 0) & (result.steps.prefilling > 0)),
        lambda result: result.steps.waiting.max(initial=0) > 3,
        lambda result: not result.open_loop,
    ],
    ids=["preemption", "refusal", "rejection", "mixed step", "queue", "closed loop"],
)
def test_the_cases_of_these_laws_reach(reached):
    """The laws above mean little where the scheduler is never under pressure."""
    quick = settings(phases=[Phase.generate], max_examples=300)
    assert find(cases(), lambda case: reached(_served(case)), settings=quick) is not None
