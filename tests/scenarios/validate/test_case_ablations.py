"""Ablations of cases: a change touches its own arms only, and a larger host time never makes rounds cheaper."""

from scenarios.validate.case_ablations import CHANGES, Change, ablation_of
from scenarios.validate.checks import read_checks

CHECKS, _ = read_checks()


def test_every_change_names_arms_that_exist_and_miss_their_band():
    names = {check.name for check in CHECKS}
    for change in CHANGES:
        assert all(f"{change.case} {arm}" in names for arm in change.arms)


def test_a_change_of_nothing_changes_nothing():
    found = ablation_of(CHECKS, Change("C04", ("e1-k2",), "host", "as declared"))
    assert found.after[0].predicted == found.before[0].predicted


def test_a_longer_draft_pass_on_the_host_lowers_the_speed_up():
    found = ablation_of(CHECKS, Change("C04", ("e1-k2", "e1-k7"), "host", "longer", host={"draft_pass_s": 2e-3}))
    (short, long), (short_after, long_after) = found.before, found.after
    assert short_after.predicted < short.predicted
    assert long_after.predicted / long.predicted < short_after.predicted / short.predicted


def test_another_acceptance_replaces_the_given_one():
    found = ablation_of(CHECKS, Change("C04", ("e1-k2",), "acceptance", "none", acceptance="1@2"))
    assert found.after[0].predicted < 1.0 < found.before[0].predicted


def test_arms_made_alike_answer_at_the_same_length():
    found = ablation_of(CHECKS, next(change for change in CHANGES if change.case == "C30"))
    assert found.before[0].predicted < 1.0 < found.after[0].predicted
    assert found.after[0].predicted == found.after[1].predicted
