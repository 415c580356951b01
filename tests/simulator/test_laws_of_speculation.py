"""Laws of speculation: what must hold whatever the hardware, with costs that are known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.acceptance import IidAcceptance, PerPositionAcceptance
from simulator.policy import FixedDraft
from simulator.proposers import HeadProposer, NgramProposer
from simulator.replica import Speculation, simulate
from simulator.rng import luck, luck_keys, threshold
from tests.strategies import PLAIN, Case, affine_costs, cases, head, limits, workload

PER_REQUEST = ("arrival_s", "admitted_s", "first_token_s", "finished_s", "emitted_tokens", "preemptions", "refused")
PER_STEP = ("start_s", "verify_s", "draft_s", "host_s", "new_tokens", "decoding", "prefilling", "emitted_tokens")


def _events_differ(one, other) -> list[str]:
    fields = [name for name in PER_REQUEST if not np.array_equal(getattr(one, name), getattr(other, name), True)]
    steps = [name for name in PER_STEP if not np.array_equal(getattr(one.steps, name), getattr(other.steps, name))]
    return fields + steps


@given(case=cases())
@settings(max_examples=150)
def test_k_zero_without_a_tax_is_plain_decoding_event_for_event(case: Case):
    plain = case.arguments() | {"speculation": PLAIN}
    off = case.arguments() | {"speculation": Speculation(HeadProposer(), FixedDraft(0))}
    one = case.run(trace_steps=True, **plain)
    other = case.run(trace_steps=True, **off)

    assert _events_differ(one, other) == []
    assert one.totals == other.totals


@given(case=cases())
@settings(max_examples=60)
def test_drafts_that_are_never_proposed_are_plain_decoding(case: Case):
    """An n-gram proposer that never matches, with free matching, changes no event."""
    free = affine_costs(step_s=0.01, per_token_s=1e-4, kv_s_per_token=1e-6, round_extra_s=0.002)
    loose = case.limits.model_copy(update={"kv_blocks": 10_000, "lookahead_tokens": 0})
    common = case.arguments() | {"costs": free, "limits": loose}
    never = Speculation(NgramProposer(0.0), FixedDraft(4), (IidAcceptance(0.9),))
    one = case.run(trace_steps=True, **(common | {"speculation": PLAIN}))
    other = case.run(trace_steps=True, **(common | {"speculation": never}))

    assert _events_differ(one, other) == []


def test_loaded_and_idle_speculation_pays_exactly_its_tax_per_step():
    costs = affine_costs(step_s=0.01, idle_speculation_s=0.003)
    arguments = {"costs": costs, "limits": limits(), "seed": 0}
    load = workload(np.zeros(4), 10, 20)
    plain = simulate(load, speculation=PLAIN, **arguments)
    idle = simulate(load, speculation=Speculation(HeadProposer(), FixedDraft(0)), **arguments)

    assert plain.end_s == pytest.approx(20 * 0.010, rel=1e-12)
    assert idle.end_s == pytest.approx(20 * 0.013, rel=1e-12)


@given(
    draft_tokens=st.integers(1, 6),
    data=st.data(),
    batch=st.integers(1, 32),
    rounds=st.integers(1, 30),
    cost_ratio=st.floats(1.0, 4.0),
)
@settings(max_examples=200)
def test_a_synchronous_batch_speeds_up_by_exactly_al_over_r(draft_tokens, data, batch, rounds, cost_ratio):
    """Integer AL m + 1 by accepting the first m drafts always; output - 1 is a multiple of it."""
    accepted = data.draw(st.integers(0, draft_tokens))
    shares = (1.0,) * accepted + (0.0,) * (draft_tokens - accepted)
    length = accepted + 1
    plain_s = 0.0125
    costs = affine_costs(step_s=plain_s, round_extra_s=(cost_ratio - 1.0) * plain_s)
    load = workload(np.zeros(batch), 5, 1 + length * rounds)
    arguments = {"costs": costs, "limits": limits(), "seed": 1}
    off = simulate(load, speculation=PLAIN, **arguments)
    on = simulate(load, speculation=head(draft_tokens, PerPositionAcceptance(shares)), **arguments)

    assert on.acceptance_length == length
    speedups = off.tpot_s / on.tpot_s
    assert speedups == pytest.approx(np.full(batch, length / cost_ratio), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.35, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("draft_tokens", [1, 3, 7])
def test_at_a_fixed_batch_the_speedup_agrees_with_al_over_r_inside_its_interval(alpha, draft_tokens):
    """S from simulated time per token of independent requests against the closed form, at 3.5 standard errors."""
    plain_s, cost_ratio, batch, requests = 0.02, 1.4, 16, 160
    costs = affine_costs(step_s=plain_s, round_extra_s=(cost_ratio - 1.0) * plain_s)
    load = workload(np.zeros(requests), 3, 3001, concurrency=batch)
    arguments = {"costs": costs, "limits": limits(max_sequences=batch), "seed": 11}
    off = simulate(load, speculation=PLAIN, **arguments)
    on = simulate(load, speculation=head(draft_tokens, IidAcceptance(alpha)), **arguments)
    length = 1.0 + sum(alpha**position for position in range(1, draft_tokens + 1))

    assert off.tpot_s == pytest.approx(np.full(requests, plain_s), rel=1e-9)
    inverse_speedups = on.tpot_s / plain_s
    standard_error = inverse_speedups.std(ddof=1) / np.sqrt(requests)
    assert abs(inverse_speedups.mean() - cost_ratio / length) < 3.5 * standard_error
    assert standard_error < 0.005 * inverse_speedups.mean()
    assert on.acceptance_length == pytest.approx(length, rel=0.01)


def _expected_rounds(tokens: int, alpha: float, draft_tokens: int) -> float:
    """Mean number of rounds until `tokens` are emitted, by recursion over the first round."""
    shares = [alpha**n * (1.0 - alpha) for n in range(draft_tokens)] + [alpha**draft_tokens]
    expected = [0.0]
    for remaining in range(1, tokens + 1):
        later = sum(share * expected[max(0, remaining - n - 1)] for n, share in enumerate(shares))
        expected.append(1.0 + later)
    return expected[tokens]


@pytest.mark.parametrize(("alpha", "draft_tokens", "output_tokens"), [(0.7, 3, 9), (0.9, 5, 4), (0.5, 2, 30)])
def test_short_outputs_take_the_rounds_of_the_renewal_equation(alpha, draft_tokens, output_tokens):
    """The last round of a short output wastes drafts, which AL / R does not know and the recursion does."""
    requests = 20_000
    result = simulate(
        workload(np.zeros(requests), 1, output_tokens),
        costs=affine_costs(step_s=0.01),
        limits=limits(),
        speculation=head(draft_tokens, IidAcceptance(alpha)),
        seed=2,
    )
    standard_error = result.rounds.std(ddof=1) / np.sqrt(requests)
    assert abs(result.rounds.mean() - _expected_rounds(output_tokens - 1, alpha, draft_tokens)) < 3.5 * standard_error


@given(
    alphas=st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
    draft_tokens=st.integers(1, 6),
    batch=st.integers(1, 8),
    seed=st.integers(0, 100),
)
@settings(max_examples=150)
def test_at_a_fixed_batch_a_higher_alpha_never_slows_any_request(alphas, draft_tokens, batch, seed):
    low, high = sorted(alphas)
    arguments = {"costs": affine_costs(step_s=0.01, round_extra_s=0.004), "limits": limits(), "seed": seed}
    load = workload(np.zeros(batch), 4, 60)
    slower = simulate(load, speculation=head(draft_tokens, IidAcceptance(low)), **arguments)
    faster = simulate(load, speculation=head(draft_tokens, IidAcceptance(high)), **arguments)

    assert np.all(faster.finished_s <= slower.finished_s * (1 + 1e-12))


def test_mean_speedup_rises_with_alpha_at_a_fixed_batch():
    arguments = {"costs": affine_costs(step_s=0.01, round_extra_s=0.004), "limits": limits(), "seed": 0}
    load = workload(np.zeros(200), 4, 120, concurrency=8)
    tpots_s = [
        simulate(load, speculation=head(4, IidAcceptance(alpha)), **arguments).mean("tpot")
        for alpha in np.linspace(0.0, 1.0, 11)
    ]
    assert np.all(np.diff(tpots_s) < 0)


def _rounds_by_hand(key: np.uint64, *, alpha: float, draft_tokens: int, output_tokens: int) -> int:
    """Rounds of one request from its luck alone, without any scheduler."""
    below = threshold(np.array([alpha]))[0]
    emitted, rounds = 1, 0
    while emitted < output_tokens:
        accepted = 0
        while accepted < draft_tokens and luck(key, emitted + accepted) < below:
            accepted += 1
        emitted += 1 + accepted
        rounds += 1
    return rounds


@pytest.mark.parametrize("draft_tokens", [1, 3, 6])
@pytest.mark.parametrize("max_sequences", [1, 7, 64])
def test_luck_depends_on_seed_request_and_position_alone(draft_tokens, max_sequences):
    """Whatever the batch, load and K, each request takes the rounds that its own luck says."""
    requests, alpha, seed = 60, 0.65, 9
    generator = np.random.default_rng(0)
    outputs = generator.integers(1, 80, requests)
    result = simulate(
        workload(np.sort(generator.uniform(0, 1.0, requests)), generator.integers(1, 300, requests), outputs),
        costs=affine_costs(step_s=0.01, per_token_s=1e-4, round_extra_s=0.003),
        limits=limits(max_sequences=max_sequences),
        speculation=head(draft_tokens, IidAcceptance(alpha)),
        seed=seed,
    )
    keys = luck_keys(seed, "acceptance", requests)
    expected = [
        _rounds_by_hand(keys[index], alpha=alpha, draft_tokens=draft_tokens, output_tokens=int(outputs[index]))
        for index in range(requests)
    ]
    assert result.rounds.tolist() == expected


@given(case=cases(open_loop_only=True))
@settings(max_examples=60)
def test_changing_k_leaves_arrivals_and_requests_untouched(case: Case):
    results = [
        case.run(speculation=speculation)
        for speculation in (PLAIN, head(1, IidAcceptance(0.7)), head(5, IidAcceptance(0.7)))
    ]
    for result in results[1:]:
        assert np.array_equal(result.arrival_s, results[0].arrival_s)
        assert np.array_equal(result.prompt_tokens, results[0].prompt_tokens)
        assert np.array_equal(result.output_tokens, results[0].output_tokens)


def test_longer_drafts_accept_everything_shorter_ones_did():
    """With the same luck, a request never takes more rounds at a larger K."""
    requests = 300
    rounds = [
        simulate(
            workload(np.zeros(requests), 2, 90),
            costs=affine_costs(step_s=0.01),
            limits=limits(),
            speculation=head(draft_tokens, IidAcceptance(0.8)),
            seed=4,
        ).rounds
        for draft_tokens in range(1, 8)
    ]
    assert all(np.all(longer <= shorter) for shorter, longer in itertools.pairwise(rounds))


def test_luck_is_uniform_and_independent_along_each_argument():
    keys = luck_keys(3, "acceptance", 2000)
    values = np.array([[float(luck(key, position)) for position in range(40)] for key in keys]) / 2.0**53
    assert abs(values.mean() - 0.5) < 4 * np.sqrt(1 / 12 / values.size)
    counts, _ = np.histogram(values, bins=64, range=(0.0, 1.0))
    chi_square = ((counts - values.size / 64) ** 2 / (values.size / 64)).sum()
    assert chi_square < 63 + 4 * np.sqrt(2 * 63)
    centred = values - 0.5
    for shifted in (centred[1:] * centred[:-1], centred[:, 1:] * centred[:, :-1]):
        assert abs(shifted.mean()) < 4 / 12 / np.sqrt(shifted.size)
    assert not np.array_equal(keys, luck_keys(4, "acceptance", 2000))
    assert not np.array_equal(keys, luck_keys(3, "proposal", 2000))
    assert np.array_equal(keys[:100], luck_keys(3, "acceptance", 100))
