"""Figure 15: predicted against measured speed-ups, of published rows or of a calibration folder."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from calibrate.cells import SHOWN_ALPHA, acceptance_length
from roofline.errors import InvalidInput
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, MARKS, QUIET, colour, finish, legend_beside, log_axis
from scenarios.figures.measured import ids_text
from scenarios.figures.table import Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.validate.predict import predicted
from scenarios.validate.rows import DATA_FOLDER, Prediction, Row, rows_of

MOST_OF_A_SOURCE = 5
"""Rows taken from one source, spread over its list: two sources hold most of the rows."""
BAND_FRACTION = 0.2
SERVING = "serving engines"


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Measured and predicted S, one row a measurement, with the baseline of a constant S/AL by method."""
    if assumptions.calibration:
        return Table.of(_of_calibration(Path(assumptions.calibration)))
    found = [prediction for row in _chosen_rows() if _usable(prediction := predicted(row))]
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for one in found:
        shares[one.tags["method"]].append(_measured(one) / _length(one))
    return Table.of(
        {"basis": "measured", "row_id": one.row.id, "source_id": one.row.source_id, "method": one.tags["method"],
         "costs_from": one.label, "measured": _measured(one), "predicted": one.speedup,
         "baseline": float(np.median(shares[one.tags["method"]])) * _length(one)}
        for one in found
    )  # fmt: skip


def _chosen_rows() -> list[Row]:
    """Rows of serving engines that say everything, a few of every source."""
    rows, _ = rows_of([DATA_FOLDER / "speedups.csv"])
    by_source: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        engine = row.engine.lower()
        if row.simulable == "full" and ("vllm" in engine or "sglang" in engine):
            by_source[row.source_id].append(row)
    chosen: list[Row] = []
    for listed in by_source.values():
        places = np.unique(np.linspace(0, len(listed) - 1, min(len(listed), MOST_OF_A_SOURCE)).round().astype(int))
        chosen += [listed[place] for place in places]
    return chosen


def _usable(one: Prediction) -> bool:
    return one.status == "computed" and one.row.speedup is not None and one.tags.get("engine class") == SERVING


def _measured(one: Prediction) -> float:
    return float(one.row.speedup or 0.0)


def _length(one: Prediction) -> float:
    if one.terms is None:
        raise AssertionError("a computed row has its terms")
    return one.terms.acceptance_length


def _of_calibration(folder: Path) -> Rows:
    """The cells of a report; every S at the acceptance at which reports show them."""
    file = folder / "report.json"
    try:
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        cells: list[dict[str, Any]] = content["cells"]
        return [
            {"basis": "measured", "row_id": f"B{cell['batch']}K{cell['draft_tokens']}", "source_id": folder.name,
             "method": f"K = {cell['draft_tokens']}", "costs_from": "calibrated",
             **{name: _speedup(cell, name) for name in ("measured", "predicted")},
             "baseline": _speedup(cell, "textbook")}
            for cell in cells
        ]  # fmt: skip
    except (OSError, ValueError, KeyError) as error:
        raise InvalidInput(
            f"--set calibration={folder}: {file.name} is not there or not readable ({error}); "
            f"write it with specdec calibrate report {folder}"
        ) from error


def _speedup(cell: dict[str, Any], which: str) -> float:
    return acceptance_length(SHOWN_ALPHA, int(cell["draft_tokens"])) / float(cell[f"{which}_ratio"])


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Median and 90 % quantile of the absolute error in percent, of the prediction and of the baseline."""
    found: dict[str, object] = {"rows": len(data), "sources": len(data.distinct("source_id"))}
    for name, column in (("", "predicted"), ("base_", "baseline")):
        errors = 100 * np.abs(data.values(column) / data.values("measured") - 1)
        found |= {f"{name}median": float(np.median(errors)), f"{name}p90": float(np.quantile(errors, 0.9))}
    return found


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left the scatter around the diagonal, right how many rows are how far off."""
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    known = np.concatenate([data.values("measured"), data.values("predicted")])
    ends = np.array([float(known.min()) * 0.85, float(known.max()) * 1.15])
    left.plot(ends, ends, color=QUIET, linewidth=1, label=words("diagonal"))
    left.fill_between(ends, ends * (1 - BAND_FRACTION), ends * (1 + BAND_FRACTION), color="0.92", label=words("band"))
    methods = sorted(str(method) for method in data.distinct("method"))
    for index, method in enumerate(methods):
        points = data.where(method=method)
        left.plot(
            points.values("measured"), points.values("predicted"), ls="", marker=MARKS[index % len(MARKS)], mfc="white",
            color=COLOURS[index % len(COLOURS)], label=method,
        )  # fmt: skip
    places = [value for value in (0.25, 0.5, 1, 2, 4, 8) if ends[0] <= value <= ends[1]]
    for which in ("x", "y"):
        log_axis(left, places, which=which)
    left.set(xlabel=words("x"), ylabel=words("y"), xlim=ends, ylim=ends)
    for index, column in enumerate(("predicted", "baseline")):
        ratio = np.sort(data.values(column) / data.values("measured"))
        share = 100 * (np.arange(len(ratio)) + 0.5) / len(ratio)
        right.plot(ratio, share, label=words("own" if column == "predicted" else "constant"), **colour(index))
    right.axvline(1.0, color=QUIET, linewidth=1)
    right.set(xlabel=words("x_error"), ylabel=words("y_error"), ylim=(0, 100))
    legend_beside(figure, [left, right], headings=[words("left"), words("right")])
    finish(figure, words("title"), notes=[_note(data, words)])


def _note(data: Table, words: Words) -> str:
    if words.assumed["calibration"]:
        return words("note_calibration", folder=data.one("source_id"), rows=len(data))
    ids = ids_text([str(name) for name in data.columns["row_id"]])
    return words(
        "note_published", most=MOST_OF_A_SOURCE, rows=len(data), sources=len(data.distinct("source_id")), ids=ids
    )  # fmt: skip
