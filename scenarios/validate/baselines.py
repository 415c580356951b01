"""What needs no simulation at all: always on, never crosses, and a constant S/AL per method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from scenarios.validate.errors import CLASSES, Family, computed, family, is_full
from scenarios.validate.rows import Prediction


@dataclass(frozen=True, slots=True)
class Baselines:
    """Base rates beside one family: a constant S/AL per method, fitted to these very rows and without each row's own
    source; and the share of rows that are above 1, which "always on" gets right.
    """

    constant_in_sample: Family
    constant_other_sources: Family
    always_on: float


def baselines_of(rows: Sequence[Prediction]) -> Baselines:
    """Base rates of a family."""
    above = [one for one in rows if (one.row.speedup or 0.0) > 1.0]
    return Baselines(
        constant_in_sample=family("constant S/AL, in sample", rows, _constant(rows, own_source=True)),
        constant_other_sources=family("constant S/AL of other sources", rows, _constant(rows, own_source=False)),
        always_on=len(above) / len(rows),
    )


def baselines_by_class(predictions: Sequence[Prediction]) -> dict[str, Baselines]:
    """Base rates of the full rows of every engine class."""
    found: dict[str, Baselines] = {}
    for name in CLASSES:
        rows = [one for one in computed(predictions) if is_full(one) and one.tags["engine class"] == name]
        if rows:
            found[name] = baselines_of(rows)
    return found


def _constant(rows: Sequence[Prediction], *, own_source: bool) -> Callable[[Prediction], float]:
    """S = AL x the median S/AL of the method; of every method where no other source has the row's own."""
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in rows:
        if one.terms is not None and one.row.speedup:
            ratios[one.tags["method"], one.row.source_id].append(one.row.speedup / one.terms.acceptance_length)

    def predicted(row: Prediction) -> float:
        assert row.terms is not None
        source = row.row.source_id
        kept = {key: values for key, values in ratios.items() if own_source or key[1] != source}
        own = [value for key, values in kept.items() for value in values if key[0] == row.tags["method"]]
        every = [value for values in kept.values() for value in values]
        used = own or every or [1.0]
        return row.terms.acceptance_length * median(used)

    return predicted
