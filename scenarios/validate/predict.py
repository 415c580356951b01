"""Rows -> predictions, with an interval where a row leaves something open; in a pool of processes, deterministic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from roofline.errors import SpecdecError
from scenarios.validate.measure import measured
from scenarios.validate.row_scenario import Setups, setups_of
from scenarios.validate.rows import Prediction, Row

LOW, HIGH = 0.1, 0.9


def predictions_of(
    rows: Sequence[Row], *, spread: Callable[..., Iterable[dict[int, Prediction]]] = map,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Prediction, ...]:  # fmt: skip
    """A prediction, or the reason for none, for every row in order.

    `spread` maps over processes; the result is the same for any number of them.
    """
    found: dict[int, Prediction] = {}
    groups: dict[str, list[tuple[int, Row]]] = {}
    for index, row in enumerate(rows):
        key = "|".join((row.hardware, row.engine, row.target_model, row.target_dtype, row.method, row.draft_model))
        groups.setdefault(f"{key}|{row.k}|{row.tensor_parallel}|{row.gpus}", []).append((index, row))
    for group in spread(_group, sorted(groups.values(), key=lambda group: -len(group))):
        found.update(group)
        if progress is not None:
            progress(len(found), len(rows))
    return tuple(found[index] for index in range(len(rows)))


def _group(rows: list[tuple[int, Row]]) -> dict[int, Prediction]:
    return {index: predicted(row) for index, row in rows}


def predicted(row: Row) -> Prediction:
    """The prediction of one row; what cannot be computed says why."""
    try:
        made = _computed(row, setups_of(row))
    except SpecdecError as error:
        return Prediction(row=row, status="not computed", reason=str(error))
    except Exception as error:  # one row of somebody else's table must not cost all the others
        return Prediction(row=row, status="not computed", reason=f"failed with {type(error).__name__}: {error}")
    if not math.isfinite(made.speedup):
        return Prediction(row=row, status="not computed", reason="no request of it gets as far as its metric")
    return made


def _computed(row: Row, setups: Setups) -> Prediction:
    middle = measured(setups.variants[0])
    quick = measured(setups.variants[0], simulated=False).speedup
    ratios = [math.log(measured(setup, simulated=False).speedup / quick) for setup in setups.variants[1:]]
    low, high = np.exp(np.quantile(ratios, (LOW, HIGH))) if ratios else (1.0, 1.0)
    made = Prediction(
        row=row,
        status="computed",
        speedup=middle.speedup,
        low=middle.speedup * min(1.0, float(low)),
        high=middle.speedup * max(1.0, float(high)),
        terms=middle.terms,
        assumed=setups.assumed,
    )
    return replace(made, engine=setups.engine, gpu=setups.gpu, model=setups.model, label=middle.label, tags=setups.tags)
