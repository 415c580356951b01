"""What each term of the model is worth: errors of the same rows with the term taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from scenarios.validate.errors import CLASSES, Family, computed, family, is_full
from scenarios.validate.rows import Prediction, Terms

Change = Callable[[Terms], Terms]


def _free_drafts(terms: Terms) -> Terms:
    return replace(terms, draft=0.0)


def _free_verification(terms: Terms) -> Terms:
    return replace(terms, verify=1.0 - terms.plain_host)


def _hidden_host(terms: Terms) -> Terms:
    return replace(terms, host=terms.plain_host)


def _no_queue(terms: Terms) -> Terms:
    return replace(terms, queue=1.0)


def _textbook(terms: Terms) -> Terms:
    return _no_queue(_hidden_host(_free_verification(terms)))


ABLATIONS: dict[str, Change] = {
    "drafting is free": _free_drafts,
    "verifying K + 1 rows costs a plain step": _free_verification,
    "rounds wait for no host": _hidden_host,
    "no prefill, no queueing": _no_queue,
    "textbook: only drafting costs": _textbook,
}


def ablations(predictions: Sequence[Prediction]) -> dict[str, tuple[Family, ...]]:
    """Families of full rows by engine class: whole model first, then without each term."""
    found: dict[str, tuple[Family, ...]] = {}
    for name in CLASSES:
        rows = [one for one in computed(predictions) if is_full(one) and one.tags["engine class"] == name]
        if rows:
            changed = [family(text, rows, _under(change)) for text, change in ABLATIONS.items()]
            found[name] = (family("whole model", rows), *changed)
    return found


def _under(change: Change) -> Callable[[Prediction], float]:
    def predicted(one: Prediction) -> float:
        assert one.terms is not None
        terms = change(one.terms)
        return terms.acceptance_length * terms.queue / (terms.verify + terms.draft + terms.host)

    return predicted
