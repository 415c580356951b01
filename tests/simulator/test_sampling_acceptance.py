"""Temperature and draft sampling: rejection sampling by hand, and what it says of greedy and probabilistic drafts."""

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.sampling_acceptance import sampled_acceptance


def _pair(noise: float, positions: int = 400, vocabulary: int = 50):
    rng = np.random.default_rng(3)
    target = rng.normal(0.0, 2.5, (positions, vocabulary))
    return target, target + rng.normal(0.0, noise, target.shape)


def test_two_tokens_by_hand():
    target, draft = np.log([[0.7, 0.3]]), np.log([[0.4, 0.6]])
    assert sampled_acceptance(target, draft, temperature=1.0) == pytest.approx(0.3)
    assert sampled_acceptance(target, draft, temperature=1.0, draft_sampling="probabilistic") == pytest.approx(0.7)
    assert sampled_acceptance(target, draft, temperature=0.0) == 0.0


def test_greedy_drafts_lose_with_temperature_and_probabilistic_ones_do_not_for_equal_models():
    target, _ = _pair(0.0)
    temperatures = (0.0, 0.3, 0.7, 1.0, 1.5)
    greedy = [sampled_acceptance(target, target, temperature=value) for value in temperatures]
    sampled = [
        sampled_acceptance(target, target, temperature=value, draft_sampling="probabilistic") for value in temperatures
    ]
    assert greedy == sorted(greedy, reverse=True)
    assert greedy[-1] < 0.7
    assert sampled == pytest.approx([1.0] * 5)


def test_rejection_sampling_accepts_as_often_as_the_overlap_says():
    target, draft = _pair(1.0, positions=1)
    p, q = (np.exp(logits[0]) / np.exp(logits[0]).sum() for logits in (target, draft))
    rng = np.random.default_rng(0)
    tokens = rng.choice(len(q), size=200_000, p=q)
    accepted = np.mean(rng.random(len(tokens)) < p[tokens] / q[tokens])
    expected = sampled_acceptance(target, draft, temperature=1.0, draft_sampling="probabilistic")
    assert accepted == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    ("shape", "temperature", "message"), [((2, 4), 1.0, "of one shape"), ((2, 3), -1.0, "0 or more, got -1")]
)
def test_what_cannot_be_is_refused(shape, temperature, message):
    with pytest.raises(InvalidInput, match=message):
        sampled_acceptance(np.zeros((2, 3)), np.zeros(shape), temperature=temperature)
