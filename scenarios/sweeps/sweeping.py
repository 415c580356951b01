"""A sweep from question to dataset: what is missing is computed, what is there is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roofline.errors import InvalidInput
from scenarios.files import load_scenario, scenario_from_dict
from scenarios.questions.pool import available_workers
from scenarios.schema import Scenario
from scenarios.sweeps.axes import Axis, axes_of, axis
from scenarios.sweeps.best import LiveBest, Watched, check_metric
from scenarios.sweeps.cells import Chunk, Row, run_chunk
from scenarios.sweeps.design import Design, Kind
from scenarios.sweeps.dispatch import computed
from scenarios.sweeps.fields import Table, with_fields
from scenarios.sweeps.keys import canonical, cell_key, code_version, digest, files_named
from scenarios.sweeps.store import FORMAT, Store, axis_columns, open_store
from scenarios.sweeps.workers import Own, Processes, Workers

if TYPE_CHECKING:
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]

_CHUNKS = 500
_LARGEST_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Settings:
    """How the axes are combined, a grid or so many samples; the column to rank by, none: what speculation gains."""

    kind: Kind = "grid"
    samples: int | None = None
    rank_by: str | None = None


@dataclass(frozen=True)
class Sweep:
    """A finished sweep. `restored` scenarios were on disk when it was asked for, the rest were computed now."""

    folder: Path
    results: Path
    axes: tuple[str, ...]
    scenarios: int
    seeds: int
    metric: str
    restored: int

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The tidy table: one row a scenario and seed, sorted."""
        from scenarios.sweeps.summary import read_cells

        return read_cells(self.results)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a scenario: means over seeds with Student-t intervals, best first, ties with the best marked."""
        from scenarios.sweeps.summary import read_cells, summarised

        return summarised(read_cells(self.results, keys=False), axes=self.axes, metric=self.metric)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The chunks of a sweep, made when they are asked for."""

    base: Table
    design: Design
    seeds: int
    version: str
    files: Mapping[str, str]
    chunk_scenarios: int

    @property
    def chunks(self) -> int:
        return -(-len(self.design) // self.chunk_scenarios)

    def points(self, index: int) -> list[Table]:
        first = index * self.chunk_scenarios
        return list(self.design.points(first, min(len(self.design), first + self.chunk_scenarios)))

    def chunk(self, index: int) -> Chunk:
        return Chunk(
            index=index,
            first=index * self.chunk_scenarios,
            tables=tuple(with_fields(self.base, point) for point in self.points(index)),
            seeds=self.seeds,
            version=self.version,
            files=self.files,
        )

    def keys(self, chunk: Chunk) -> list[str]:
        """One key a row."""
        return [
            cell_key(table, self.design.seed + seed, version=self.version, files=self.files)
            for table in chunk.tables
            for seed in range(self.seeds)
        ]


@dataclass
class _Progress:
    """What is done, and the best so far."""

    best: LiveBest
    total: int
    watch: Callable[[Watched], None]
    done: int = 0
    restored: int = 0

    def add(self, scenarios: int, *, restored: bool = False) -> None:
        self.done += scenarios
        self.restored += scenarios if restored else 0
        self.watch(Watched(self.done, self.total, self.restored, self.best.text))


def sweep(
    scenario: Scenario | str | Path,
    axes: Mapping[Any, Any] | Sequence[Axis],
    *,
    out: str | Path,
    settings: Settings | None = None,
    executor: Workers | Executor | None = None,
    watch: Callable[[Watched], None] | None = None,
) -> Sweep:
    """Answer a scenario at every point of its axes, on `run.seeds` paired seeds, into a dataset that survives us.

    `axes` maps fields (dotted paths; a tuple of them for zipped ones) to values, or to the text of a range. The same
    call on the same folder goes on where the last one stopped. The default executor is a pool of one process a core
    (a script must then guard its entry); results do not depend on it.

    Raises
    ------
    InvalidInput
        An axis that names no field, a folder that cannot be written or holds another sweep, an executor that cannot
        be reached, a full disk: what is finished is kept.
    """
    chosen = settings or Settings()
    whole = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    base, run = base_table(whole), whole.run
    design = Design(_with_loads(base, axes_of(axes)), kind=chosen.kind, samples=chosen.samples, seed=run.seed)
    files = files_named([base, [each.rows for each in design.axes]])
    plan = _Plan(base, design, run.seeds, code_version(), files, chunk_scenarios=_chunk_scenarios(len(design)))
    _check_each_value(plan)
    wanted = check_metric(chosen.rank_by or _default_metric(base, design))
    store, chunk_scenarios = open_store(Path(out), _description(plan, chosen), axes=design.axes)
    plan = replace(plan, chunk_scenarios=chunk_scenarios)
    names = tuple(name for each in design.axes for name in each.fields)
    progress = _Progress(LiveBest(wanted, names), len(design), watch or _nobody)
    _compute_missing(plan, store, workers=_workers(executor), progress=progress)
    return Sweep(store.folder, store.export(plan.chunks), names, len(design), run.seeds, wanted, progress.restored)


def _compute_missing(plan: _Plan, store: Store, *, workers: Workers, progress: _Progress) -> None:
    def missing() -> Iterator[Chunk]:
        for index in range(plan.chunks):
            chunk = plan.chunk(index)
            if not store.has(index, digest(canonical(plan.keys(chunk)))):
                yield chunk
            else:
                columns = ["scenario", *progress.best.columns]
                progress.best.add(store.read(index, columns).to_pylist())
                progress.add(len(chunk.tables), restored=True)

    results = computed(missing(), run_chunk, workers)
    try:
        for chunk, rows in results:
            keys = plan.keys(chunk)
            whole = _whole_rows(rows, keys, plan.points(chunk.index), store)
            store.write(chunk.index, whole, digest(canonical(keys)))
            progress.best.add(whole)
            progress.add(len(chunk.tables))
    finally:
        results.close()


def _whole_rows(rows: Sequence[Row], keys: Sequence[str], points: Sequence[Table], store: Store) -> list[Row]:
    """Rows with their keys and the values of the axes."""
    seeds = len(rows) // len(points)
    return [
        {"key": key, **dict(axis_columns(points[place // seeds], store.schema)), **row}
        for place, (key, row) in enumerate(zip(keys, rows, strict=True))
    ]


def base_table(scenario: Scenario) -> Table:
    """The scenario as a plain table, what its serve line says filled in, so that any field can be varied."""
    table = scenario.model_dump(mode="json", exclude_unset=True, exclude={"serve"})
    table["workload"]["kind"] = scenario.workload.kind
    return table


def _with_loads(base: Table, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """Several loads in the scenario are an axis of the sweep, unless an axis sets the load."""
    names = [name for each in axes for name in each.fields]
    if any(name.startswith("loads.") or name in ("workload.rate_per_s", "workload.concurrency") for name in names):
        return axes
    for way, values in cast("dict[str, list[float]]", base.get("loads") or {}).items():
        if len(values) > 1:
            return (*axes, axis(f"loads.{way}", [[value] for value in values]))
    return axes


def _check_each_value(plan: _Plan) -> None:
    """A value that no scenario could have is refused before anything runs: each is tried with the first of the rest."""
    scenario_from_dict(plan.base)
    if plan.design.kind != "grid" and all(each.span is not None for each in plan.design.axes):
        return
    start = {name: value for each in plan.design.axes for name, value in zip(each.fields, each.at(0.0), strict=True)}
    for each in plan.design.axes:
        rows = each.rows or (each.at(0.0),)
        problems = [_problem(plan.base, {**start, **dict(zip(each.fields, row, strict=True))}) for row in rows]
        if all(problems):
            raise InvalidInput(f"axis {', '.join(each.fields)}: {problems[0]}")


def _problem(base: Table, values: Table) -> str | None:
    try:
        scenario_from_dict(with_fields(base, values))
    except InvalidInput as error:
        return str(error)
    return None


def _chunk_scenarios(scenarios: int) -> int:
    return max(1, min(_LARGEST_CHUNK, scenarios // _CHUNKS))


def _description(plan: _Plan, settings: Settings) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": plan.version,
        "design": [settings.kind, settings.samples],
        "axes": [[each.fields, each.rows, _span(each)] for each in plan.design.axes],
        "seeds": plan.seeds,
        "base": plan.base,
        "files": dict(plan.files),
        "chunk_scenarios": plan.chunk_scenarios,
    }


def _span(each: Axis) -> list[Any]:
    span = each.span
    return [] if span is None else [span.low, span.high, span.log, span.whole, each.points]


def _default_metric(base: Table, design: Design) -> str:
    method = cast("Table", base.get("speculation") or {}).get("method", "none")
    speculates = method != "none" or any("speculation.method" in each.fields for each in design.axes)
    return "tpot_speedup" if speculates else "off_throughput_tokens_per_s"


def _workers(executor: Workers | Executor | None) -> Workers:
    if executor is None:
        return Processes(available_workers())
    return Own(executor) if isinstance(executor, Executor) else executor


def _nobody(_: Watched) -> None:
    """Progress nobody watches."""
