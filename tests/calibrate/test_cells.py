"""Decisions from cells: regret, sides and crossovers by hand."""

import pytest

from calibrate.cells import Cell, acceptance_length, crossover_batch, decide_by


def cell(batch: int, draft_tokens: int, *, measured: float, predicted: float) -> Cell:
    return Cell(
        batch=batch,
        draft_tokens=draft_tokens,
        plain_s=1.0,
        round_s=measured,
        predicted_plain_s=1.0,
        predicted_round_s=predicted,
        measured_ratio=measured,
        predicted_ratio=predicted,
        textbook_ratio=1.0,
        noise_fraction=0.0,
    )


def test_the_error_of_a_speedup_is_the_inverse_of_that_of_its_round():
    assert cell(1, 2, measured=1.2, predicted=1.0).error_fraction == pytest.approx(0.2)


def test_acceptance_length_counts_the_bonus_token():
    assert acceptance_length(0.5, 2) == pytest.approx(1.75)
    assert acceptance_length(0.9, 0) == 1.0


def test_perfect_predictions_have_no_regret_and_one_side():
    decisions = decide_by([cell(b, k, measured=r, predicted=r) for b, k, r in [(1, 1, 1.2), (1, 2, 1.5), (2, 1, 1.3)]])
    assert decisions.regret_mean == 0.0
    assert decisions.right_side_share == 1.0


def test_a_wrong_choice_costs_what_the_best_would_have_given():
    # At every acceptance K = 2 is predicted best, at a predicted R below 1; measured, it is never worth it.
    decisions = decide_by([cell(1, 2, measured=4.0, predicted=0.9)])
    assert decisions.right_side_share == 0.0
    assert decisions.regret_max == pytest.approx(1.0 - acceptance_length(0.30, 2) / 4.0)


def test_the_crossover_is_interpolated_in_the_logarithm_of_the_batch():
    assert crossover_batch([1, 4], [1.5, 0.5]) == pytest.approx(2.0)
    assert crossover_batch([1, 4], [1.5, 1.2]) is None
    assert crossover_batch([1, 4], [0.9, 0.8]) is None
