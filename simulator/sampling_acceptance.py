"""Acceptance of one draft from the two models' distributions: what temperature and draft sampling do to it."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]


def sampled_acceptance(
    target_logits: FloatArray,
    draft_logits: FloatArray,
    *,
    temperature: float,
    draft_sampling: Literal["greedy", "probabilistic"] = "greedy",
) -> float:
    """Mean chance that rejection sampling accepts a draft, over positions `(positions, vocabulary)`.

    A greedy drafter proposes its likeliest token, q is one-hot and the chance is p of that token (vLLM's default
    `draft_sample_method`); a probabilistic one samples at the target's temperature, and the chance is the overlap
    sum(min(p, q)) (arXiv 2211.17192). At temperature 0 both say whether the likeliest tokens agree.
    """
    if target_logits.shape != draft_logits.shape or target_logits.ndim != 2:
        raise InvalidInput(
            f"logits must be two arrays of one shape (positions, vocabulary), got {target_logits.shape} and "
            f"{draft_logits.shape}; map the draft's vocabulary to the target's first"
        )
    if not (np.isfinite(temperature) and temperature >= 0):
        raise InvalidInput(f"temperature must be 0 or more, got {temperature}; 0 is greedy")
    proposed = np.argmax(draft_logits, axis=1)
    if temperature == 0.0:
        agree = np.equal(proposed, np.argmax(target_logits, axis=1))
        return float(np.count_nonzero(agree)) / len(agree)
    target: FloatArray = probabilities(target_logits / temperature)
    if draft_sampling == "greedy":
        chosen: FloatArray = np.take_along_axis(target, proposed[:, None], axis=1)
        return float(chosen.mean())
    overlap: FloatArray = np.minimum(target, probabilities(draft_logits / temperature))
    return float(overlap.sum()) / len(overlap)


def probabilities(logits: FloatArray) -> FloatArray:
    """The distribution over the vocabulary of each row of `(positions, vocabulary)`."""
    weights: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
