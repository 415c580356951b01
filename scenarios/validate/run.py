"""One validation: every row of the files predicted, families, base rates, sweeps, and the other published tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from roofline.errors import InvalidInput
from scenarios.validate.ablation import ablations
from scenarios.validate.baselines import Baselines, baselines_by_class
from scenarios.validate.case_ablations import CHANGES, Ablation, ablation_of
from scenarios.validate.cases import CaseResult, judge_cases, run_check
from scenarios.validate.checks import COMBINED, read_checks
from scenarios.validate.cost_curves import CurvePoint, curve_points
from scenarios.validate.errors import Family, families_of
from scenarios.validate.explain import Explanation, worst
from scenarios.validate.intervals import with_model_error
from scenarios.validate.per_position import ShapeErrors, errors_by_shape, shape_points
from scenarios.validate.predict import predictions_of
from scenarios.validate.quantization import QuantPoint, quant_points
from scenarios.validate.rows import DATA_FOLDER, Prediction, Problem, rows_of
from scenarios.validate.sweeps import Sweep, sweeps_of

SHIPPED_DATA = (DATA_FOLDER / "speedups.csv",)


@dataclass(frozen=True, slots=True)
class Validation:
    """Everything that is predicted beside everything that was measured.

    `cases`, their ablations, `curves`, `shapes` and `quantization` are empty where files of the user are validated.
    """

    predictions: tuple[Prediction, ...]
    problems: tuple[Problem, ...]
    families: tuple[Family, ...]
    baselines: dict[str, Baselines]
    ablations: dict[str, tuple[Family, ...]]
    sweeps: tuple[Sweep, ...]
    worst: tuple[Explanation, ...]
    cases: tuple[CaseResult, ...] = ()
    case_ablations: tuple[Ablation, ...] = ()
    curves: tuple[CurvePoint, ...] = ()
    shapes: tuple[ShapeErrors, ...] = ()
    quantization: tuple[QuantPoint, ...] = ()


def validate(
    data: Sequence[Path] = (), *, only: Sequence[str] = (), workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Validation:  # fmt: skip
    """Validate against the files given, or against all that ships. `only`: rows one of whose tags or fields holds one
    of these words (a method, a GPU, an engine, a model, a source).

    Raises
    ------
    InvalidInput
        A file cannot be read, or no row has the words asked for.
    """
    rows, problems = rows_of(data or SHIPPED_DATA)
    if only:
        rows = tuple(row for row in rows if any(_speaks_of(row, word) for word in only))
        if not rows:
            raise InvalidInput(f"--family {', '.join(only)}: no row speaks of it; give a method, GPU, engine or source")
    shipped = not data and not only
    with _pool(workers) as spread:
        predictions = with_model_error(predictions_of(rows, spread=spread, progress=progress))
        others = _other_tables(spread) if shipped else {}
    sweeps, sweep_problems = sweeps_of(predictions) if shipped else ((), ())
    return Validation(
        predictions=predictions,
        problems=(*problems, *sweep_problems),
        families=families_of(predictions),
        baselines=baselines_by_class(predictions),
        ablations=ablations(predictions),
        sweeps=sweeps,
        worst=worst(predictions),
        **others,
    )


def _speaks_of(row: Any, word: str) -> bool:
    fields = (row.method, row.hardware, row.engine, row.target_model, row.source_id, row.load_type)
    return any(word.lower() in field.lower() for field in fields)


def _other_tables(spread: Callable[..., Any]) -> dict[str, Any]:
    checks, _ = read_checks()
    single = [check for check in checks if check.metric not in COMBINED]
    results = {one.name: result for one, result in zip(single, spread(run_check, single), strict=True)}
    return {
        "cases": judge_cases(checks, results),
        "case_ablations": tuple(spread(partial(ablation_of, checks), CHANGES)),
        "curves": curve_points()[0],
        "shapes": errors_by_shape(shape_points()),
        "quantization": quant_points()[0],
    }


@contextmanager
def _pool(workers: int) -> Generator[Callable[..., Any]]:
    """A `map` over that many processes, in order."""
    if workers < 2:
        yield map
        return
    with ProcessPoolExecutor(workers) as pool:
        yield pool.map


def usual_workers() -> int:
    """All cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
