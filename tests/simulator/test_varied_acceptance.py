"""Requests and rounds that differ, context that tires the drafter: closed forms and simulation agree."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.acceptance_table import acceptance_table
from simulator.plan import Speculation, expected_length
from simulator.policy import FixedDraft
from simulator.proposers import CrossVocabularyProposer, DraftModelProposer, HeadProposer, MtpProposer, SuffixProposer
from simulator.replica import simulate
from simulator.varied_acceptance import BetaSpread, ContextDecay, VariedAcceptance, beta_levels, with_length
from tests.simulator.fingerprint import digest
from tests.strategies import affine_costs, head, limits, workload


@given(mean=st.floats(0.02, 0.98), concentration=st.floats(0.05, 500.0))
def test_a_beta_law_in_parts_keeps_its_mean_and_nearly_its_variance(mean, concentration):
    parts = beta_levels(mean, concentration, 64)
    variance = mean * (1 - mean) / (concentration + 1)
    assert parts.mean() == pytest.approx(mean, rel=1e-9)
    assert np.all(np.diff(parts) >= 0)
    assert 0.85 * variance <= parts.var() <= variance * (1 + 1e-6)


@pytest.mark.parametrize(("a", "b"), [(1.2, 0.8), (3.0, 1.0), (0.5, 0.5)])
def test_survivors_are_easier_as_the_beta_law_says(a, b):
    """c_i = (a + i - 1) / (a + b + i - 1): moments of the law, where i.i.d. acceptance stays flat."""
    varied = VariedAcceptance(IidAcceptance(a / (a + b)), BetaSpread(a + b))
    expected = [(a + i) / (a + b + i) for i in range(6)]
    assert varied.conditional(6) == pytest.approx(expected, rel=2e-3)


def _run(speculation, requests=3000, output_tokens=101, prompt_tokens=3, seed=6):
    return simulate(
        workload(np.zeros(requests), prompt_tokens, output_tokens),
        costs=affine_costs(step_s=0.01),
        limits=limits(),
        speculation=speculation,
        seed=seed,
    )


def test_requests_keep_their_draw_and_rounds_draw_anew():
    by_request = _run(head(4, VariedAcceptance(IidAcceptance(0.6), BetaSpread(2.0))))
    by_round = _run(head(4, VariedAcceptance(IidAcceptance(0.6), BetaSpread(2.0, "rounds"))))
    spread = {name: (r.accepted_tokens / r.rounds).std() for name, r in (("r", by_request), ("o", by_round))}
    assert spread["r"] > 4 * spread["o"]

    acceptance = VariedAcceptance(IidAcceptance(0.6), BetaSpread(2.0))
    assert by_round.acceptance_length == pytest.approx(expected_length(HeadProposer(), acceptance, 4), rel=0.01)
    reported = expected_length(HeadProposer(), acceptance, 4, by_round=True)
    assert by_request.acceptance_length == pytest.approx(reported, rel=0.02)
    assert reported < 0.85 * expected_length(HeadProposer(), acceptance, 4)


def test_a_narrow_beta_law_is_the_iid_acceptance():
    narrow = _run(head(3, VariedAcceptance(IidAcceptance(0.7), BetaSpread(1e7))), requests=200)
    plain = _run(head(3, IidAcceptance(0.7)), requests=200)
    assert np.mean(narrow.rounds == plain.rounds) > 0.9
    same = _run(head(3, VariedAcceptance(IidAcceptance(0.7))), requests=200)
    assert digest(same) == digest(plain)


def test_the_mixture_keeps_the_length_it_was_given():
    varied = VariedAcceptance(IidAcceptance(0.0), BetaSpread(1.5))
    fitted = dataclasses.replace(varied, mean=IidAcceptance(with_length(varied, 2.4, 3)))
    assert expected_length(HeadProposer(), fitted, 3) == pytest.approx(2.4, abs=1e-6)
    assert expected_length(HeadProposer(), fitted, 8) > expected_length(HeadProposer(), IidAcceptance(0.64), 8)


def test_acceptance_falls_with_context():
    decay = ContextDecay(((0, 1.0), (1000, 0.5)))
    acceptance = VariedAcceptance(IidAcceptance(0.8), decay=decay)
    lengths = [
        _run(head(1, acceptance), requests=2000, output_tokens=3, prompt_tokens=prompt).accepted_tokens.mean()
        for prompt in (10, 500, 990)
    ]
    assert lengths[0] > lengths[1] > lengths[2]
    table = acceptance_table((acceptance,), positions=1)
    contexts = np.minimum(np.array([10, 500, 990, 5000]) // table.band_tokens, table.bands - 1)
    expected = 0.8 * decay.factor(np.array([10.0, 500.0, 990.0, 5000.0]))
    assert table.conditional[contexts, 0, 0] == pytest.approx(expected, abs=0.01)


def test_another_vocabulary_is_a_ceiling_on_every_position():
    result = _run(Speculation(CrossVocabularyProposer(0.75), FixedDraft(1), (IidAcceptance(1.0),)))
    assert result.accepted_tokens.sum() / result.drafted_tokens.sum() == pytest.approx(0.75, abs=0.01)
    assert expected_length(DraftModelProposer(), IidAcceptance(0.75), 3) == expected_length(
        CrossVocabularyProposer(0.75), IidAcceptance(1.0), 3
    )


def test_matches_differ_in_length():
    proposer = SuffixProposer((0.8, 0.5, 0.1))
    result = _run(Speculation(proposer, FixedDraft(4), (IidAcceptance(1.0),)))
    rounds = 3000 * 100 - (result.emitted_tokens.sum() - 3000 - result.rounds.sum() - result.accepted_tokens.sum())
    assert result.drafted_tokens.sum() / result.rounds.sum() == pytest.approx((0.8 + 0.5 + 0.1 + 0.1) / 0.8, rel=0.01)
    assert rounds > 0
    assert expected_length(proposer, IidAcceptance(1.0), 4) == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BetaSpread(0.0), "concentration of a Beta spread must be positive"),
        (lambda: ContextDecay(((10, 1.0), (10, 0.5))), "must rise"),
        (lambda: ContextDecay(((0, 1.5),)), "must be in 0..1, got 1.5"),
        (lambda: VariedAcceptance(IidAcceptance(0.5), ceiling=1.2), "ceiling must be in 0..1"),
        (lambda: SuffixProposer((0.2, 0.5)), "longer matches are never more frequent"),
        (lambda: MtpProposer(3).check_draft_tokens(4), "multiple of the 3 MTP layers, got 4; use 3 or 6"),
        (
            lambda: acceptance_table(
                (
                    VariedAcceptance(IidAcceptance(0.5), BetaSpread(1.0)),
                    VariedAcceptance(IidAcceptance(0.5), BetaSpread(1.0, "rounds")),
                ),
                positions=1,
            ),
            "over requests in one class and over rounds in another",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
