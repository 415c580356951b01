"""Acceptance published for a model, method and task (`acceptance_by_task.csv`): the prior of rows without any."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np

from roofline.errors import SpecdecError
from scenarios.schema import MATCHING_METHODS
from scenarios.task_presets import task_spread
from scenarios.validate.naming import method_of, model_of
from scenarios.validate.priors import Range, task_of
from scenarios.validate.rows import DATA_FOLDER, is_blank, number, read_table

PUBLISHED = DATA_FOLDER / "acceptance_by_task.csv"
COLUMNS = ("model", "method", "tree_or_chain", "dataset", "alpha_implied_iid", "confidence")
LEAST_ROWS = 3
ONE_MODEL_SPREAD = 0.04
"""Least half-width of alpha where few rows are of one model: other prompts, other releases."""


def alpha_prior(model: str, method: str, dataset: str) -> tuple[Range, str]:
    """Conditional acceptance of one draft, i.i.d., and where it comes from.

    Rows of this model, method and task, else of this method and task, else the preset of the task.
    """
    task = task_of(dataset)
    by_model = _alphas().get((model, method, task), [])
    if by_model:
        low, middle, high = np.quantile(by_model, (0.1, 0.5, 0.9))
        least = ONE_MODEL_SPREAD
        spread = Range(max(0.0, min(low, middle - least)), middle, min(0.99, max(high, middle + least)))
        return spread, f"acceptance of {method} for {task!r}, published for this model"
    by_method = _alphas().get(("", method, task), [])
    if len(by_method) >= LEAST_ROWS:
        low, middle, high = (float(value) for value in np.quantile(by_method, (0.1, 0.5, 0.9)))
        return Range(low, middle, high), f"acceptance of {method} for {task!r} (published spread)"
    points = _preset(task, method)
    return Range(*points), f"acceptance of task {task!r} (published spread)"


def _preset(task: str, method: str) -> tuple[float, float, float]:
    try:
        spread = task_spread(task, method)
    except SpecdecError:
        spread = task_spread("code" if method in MATCHING_METHODS else "chat", method)
    low, middle, high = (point.alpha for point in spread)
    return low, middle, high


@cache
def _alphas() -> dict[tuple[str, str, str], list[float]]:
    """Implied alphas by (model, method, task), and by ("", method, task) over all models; chains alone."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cells in read_table(PUBLISHED, columns=COLUMNS).rows:
        alpha = None if is_blank(cells["alpha_implied_iid"]) else number(cells["alpha_implied_iid"])
        if alpha is None or cells["tree_or_chain"] == "tree" or cells["confidence"] == "low" or not 0 < alpha.value < 1:
            continue
        try:
            method = method_of(cells["method"]).name
        except SpecdecError:
            continue
        task = task_of(cells["dataset"])
        found["", method, task].append(alpha.value)
        try:
            found[model_of(cells["model"]).name, method, task].append(alpha.value)
        except SpecdecError:
            continue
    return dict(found)
