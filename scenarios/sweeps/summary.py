"""A sweep in one row a scenario: means over paired seeds, Student-t intervals, and what ties with the best."""

# pandas ships no types:
# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scenarios.sweeps.best import arm_of, smaller_is_better
from scenarios.sweeps.cells import ANSWER_COLUMNS, METRIC_COLUMNS
from simulator.compare import half_width

RATIOS = ("tpot_speedup", "throughput_speedup")


def read_cells(results: Path, *, keys: bool = True) -> pd.DataFrame:
    """The tidy table of a finished sweep: one row a scenario and seed, sorted; `keys` takes most of its memory."""
    names = [name for name in pq.read_schema(results).names if keys or name != "key"]
    return pq.read_table(results, columns=names).to_pandas(self_destruct=True, split_blocks=True)


def summarised(cells: pd.DataFrame, *, axes: Sequence[str], metric: str) -> pd.DataFrame:
    """One row a scenario from sorted cells, best by `metric` first.

    Those whose arm does not keep up, and those without an answer, come last.
    A metric `m` is the mean over seeds and `m_low`, `m_high` its two-sided 95 % interval: Student's t over the seeds,
    on the logarithm for speed-ups; open (NaN) with one seed. `tie` marks scenarios that the interval of the paired
    difference (same seeds, so the same requests and luck) does not tell from the best.
    """
    grouped = cells.groupby("scenario", sort=True)
    table = grouped[["load", "load_kind", "label", "status", "reason", *axes]].first()
    for column in ANSWER_COLUMNS:
        table[column] = grouped[column].agg(_majority)
    found = {name: _means(cells, name) for name in METRIC_COLUMNS}
    columns = {f"{name}{end}": values for name, parts in found.items() for end, values in parts.items()}
    table = pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)
    held = table[f"{arm_of(metric)}_saturated"].eq(True)
    order = table[metric] if smaller_is_better(metric) else -table[metric]
    ranked = table.assign(_held=held, _order=order).sort_values(["_held", "_order"], kind="stable", na_position="last")
    ranked = ranked.drop(columns=["_held", "_order"])
    ranked["tie"] = _ties(cells, ranked, metric)
    return ranked.reset_index()


def table_csv(table: pd.DataFrame) -> str:
    """The table as text, for spreadsheets."""
    return table.to_csv(index=False)


def _majority(values: Any) -> bool | None:
    """What most seeds say; None where nobody says anything."""
    said = values.dropna()
    return None if said.empty else bool(2 * said.sum() > len(said))


def _by_seed(cells: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """Values `(scenarios, seeds)`, logarithms of ratios."""
    seeds = int(cells["seed"].to_numpy().max()) + 1
    values = cells[name].to_numpy(dtype=np.float64).reshape(-1, seeds)
    if name not in RATIOS:
        return values
    return np.log(values, out=np.full_like(values, np.nan), where=values > 0)


def _interval(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and half widths over the last axis."""
    return values.mean(axis=1), half_width(values)


def _means(cells: pd.DataFrame, name: str) -> dict[str, NDArray[np.float64]]:
    mean, half = _interval(_by_seed(cells, name))
    if name in RATIOS:
        return {"": np.exp(mean), "_low": np.exp(mean - half), "_high": np.exp(mean + half)}
    return {"": mean, "_low": mean - half, "_high": mean + half}


def _ties(cells: pd.DataFrame, ranked: pd.DataFrame, metric: str) -> pd.Series:
    """Whether 0 lies in the interval of the paired difference to the best."""
    values = _by_seed(cells, metric)
    scenarios = np.unique(cells["scenario"].to_numpy())
    best = values[int(np.searchsorted(scenarios, ranked.index[0]))]
    mean, half = _interval(values - best)
    differs = np.abs(mean) > np.where(np.isnan(half), np.inf, half)
    tie = pd.Series(~differs & ~np.isnan(mean), index=scenarios)
    return tie.reindex(ranked.index)
