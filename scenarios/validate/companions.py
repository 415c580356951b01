"""What is checked beside the published speed-ups: cases, single times, acceptance at other K, quantisation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.validate.cases import CaseResult, CheckResult, judge_cases, run_check
from scenarios.validate.checks import CHECKS, COMBINED, read_checks
from scenarios.validate.cost_curves import CurvePoint, curve_points
from scenarios.validate.per_position import ShapeErrors, errors_by_shape, shape_points
from scenarios.validate.quantization import QuantPoint, quant_points
from scenarios.validate.rows import Problem


@dataclass(frozen=True, slots=True)
class Companions:
    """Results of the four tables, and what was wrong with their files."""

    cases: tuple[CaseResult, ...]
    curves: tuple[CurvePoint, ...]
    shapes: tuple[ShapeErrors, ...]
    quantised: tuple[QuantPoint, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class GroupErrors:
    """Errors of one group of points; `bias` is their median."""

    group: str
    points: int
    sources: int
    median_abs_error: float
    p90_abs_error: float
    bias: float


@dataclass(frozen=True, slots=True)
class CaseCounts:
    """How many of how many: cases of a grade with every direction right, bands that hold (also by case, a case with all
    its bands counting once), cases computed.
    """

    direction_a: tuple[int, int]
    direction_b: tuple[int, int]
    bands: tuple[int, int]
    cases_in_band: tuple[int, int]
    computed: tuple[int, int]


def companions(*, workers: int = 1) -> Companions:
    """Compute everything; the same for any number of workers."""
    checks, problems = read_checks(CHECKS)
    runs = [check for check in checks if check.metric not in COMBINED]
    jobs: list[Callable[[], Any]] = [_curves, _shapes, _quantised]
    if workers < 2:
        simulated = [run_check(check) for check in runs]
        tables = [job() for job in jobs]
    else:
        with ProcessPoolExecutor(workers) as pool:
            pending = [pool.submit(job) for job in jobs]
            simulated = list(pool.map(run_check, runs, chunksize=4))
            tables = [job.result() for job in pending]
    (curves, curve_problems), shapes, (quantised, quant_problems) = tables
    by_name = {result.check.name: result for result in simulated}
    return Companions(
        cases=judge_cases(checks, by_name),
        curves=curves,
        shapes=shapes,
        quantised=quantised,
        problems=(*problems, *curve_problems, *quant_problems),
    )


def _curves() -> tuple[tuple[CurvePoint, ...], tuple[Problem, ...]]:
    return curve_points()


def _shapes() -> tuple[ShapeErrors, ...]:
    return errors_by_shape(shape_points())


def _quantised() -> tuple[tuple[QuantPoint, ...], tuple[Problem, ...]]:
    return quant_points()


def case_counts(cases: Sequence[CaseResult]) -> CaseCounts:
    """The figures that the cases are judged by."""
    bands = [one.in_band for case in cases for one in case.checks if one.in_band is not None]
    whole = [case.in_band for case in cases if case.in_band is not None]
    return CaseCounts(
        direction_a=_direction(cases, "A"),
        direction_b=_direction(cases, "B"),
        bands=(sum(bands), len(bands)),
        cases_in_band=(sum(whole), len(whole)),
        computed=(sum(case.computed for case in cases), len(cases)),
    )


def _direction(cases: Sequence[CaseResult], grade: str) -> tuple[int, int]:
    told = [case.direction_right for case in cases if case.grade == grade and case.direction_right is not None]
    return sum(told), len(told)


def curve_errors(points: Sequence[CurvePoint]) -> tuple[GroupErrors, ...]:
    """Errors by curve."""
    known = [point for point in points if point.status == "computed"]
    return _by_group([(point.curve, point.source, point.error) for point in known])


def quant_errors(points: Sequence[QuantPoint]) -> tuple[GroupErrors, ...]:
    """Errors by what was gained: quantisation alone, speculation on top, both."""
    known = [point for point in points if point.status == "computed"]
    return _by_group([(point.gain, point.source, point.error) for point in known])


def _by_group(points: Sequence[tuple[str, str, float]]) -> tuple[GroupErrors, ...]:
    groups: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for group, source, error in points:
        groups[group].append((source, error))
    return tuple(_group(name, members) for name, members in groups.items())


def _group(name: str, members: Sequence[tuple[str, float]]) -> GroupErrors:
    errors = np.array([error for _, error in members])
    return GroupErrors(
        group=name,
        points=len(members),
        sources=len({source for source, _ in members}),
        median_abs_error=float(np.median(np.abs(errors))),
        p90_abs_error=float(np.quantile(np.abs(errors), 0.9)),
        bias=float(np.median(errors)),
    )


def check_results(cases: Sequence[CaseResult]) -> tuple[CheckResult, ...]:
    """All checks, in the order of the cases."""
    return tuple(one for case in cases for one in case.checks)
