"""Which term would have to change, and by how much, for a prediction to be right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scenarios.validate.errors import computed, is_full
from scenarios.validate.rows import Prediction

TERMS = ("draft", "verify", "host", "queue", "acceptance")
PUBLISHED_LENGTH_WEIGHT = 4.0
"""How much less likely a published acceptance length is to be wrong than a priced term, in logarithms."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`factors`: what each term alone would have to be multiplied by, absent where no positive factor does it.

    `term`: the one that needs the smallest change, an acceptance length that was published counting four times.
    """

    prediction: Prediction
    factors: dict[str, float]
    term: str


def explained(prediction: Prediction) -> Explanation:
    """The term that explains a row's error best."""
    terms, actual = prediction.terms, prediction.row.speedup
    assert terms is not None
    assert actual is not None
    ratio = terms.verify + terms.draft + terms.host
    needed = terms.acceptance_length * terms.queue / actual
    factors = {
        name: (value + needed - ratio) / value
        for name, value in (("draft", terms.draft), ("verify", terms.verify), ("host", terms.host))
        if value > 0 and value + needed - ratio > 0
    }
    factors["queue"] = factors["acceptance"] = actual / prediction.speedup
    published = prediction.row.acceptance_length is not None
    weights = {"acceptance": PUBLISHED_LENGTH_WEIGHT if published else 1.0, "queue": _queue_weight(prediction)}
    term = min(factors, key=lambda name: abs(math.log(factors[name])) * weights.get(name, 1.0))
    return Explanation(prediction, factors, term)


def _queue_weight(prediction: Prediction) -> float:
    """Queueing and prefill explain little where they hardly matter."""
    assert prediction.terms is not None
    share = abs(math.log(prediction.terms.queue))
    return 1.0 / share if share > 1e-6 else math.inf


def worst(predictions: Sequence[Prediction], count: int = 15) -> tuple[Explanation, ...]:
    """The full rows with the largest errors (any rows where none is full), each with its explanation."""
    rows = computed(predictions)
    full = [one for one in rows if is_full(one)]
    rows = sorted(full or rows, key=lambda one: -abs(math.log1p(one.error)))
    return tuple(explained(one) for one in rows[:count])
