"""Writes imported calibrations, the same bytes every time, and imports many at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from calibrate.kernel_tables.importing import import_tables
from calibrate.kernel_tables.package import open_package
from roofline.calibration import Calibration
from roofline.catalog.shipped import shipped_path
from roofline.errors import SpecdecError

Job = tuple[str, str]
"""System and engine."""


_COLUMNS = ("bands", "knots", "points", "residuals")
"""Lists of records that are written column by column (`roofline.calibration.COLUMNS`)."""


def calibration_text(calibration: Calibration) -> str:
    """The file's content: fields in the order of the schema, defaults left out, one operator a line."""
    content = json.loads(calibration.model_dump_json(exclude_defaults=True))
    complete = json.loads(calibration.model_dump_json())
    content = {"schema_version": calibration.schema_version, **_shortened(content, complete)}
    lines = [f"  {json.dumps(key)}: {_value(value)}" for key, value in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _shortened(content: Any, complete: Any) -> Any:
    """`content` without defaults, its long lists as columns; `complete` is the same with defaults."""
    if isinstance(content, dict):
        return {
            key: _columns(value, complete[key]) if key in _COLUMNS else _shortened(value, complete[key])
            for key, value in content.items()
        }
    if isinstance(content, list):
        return [_shortened(one, whole) for one, whole in zip(content, complete, strict=True)]
    return content


def _columns(records: list[dict[str, Any]], complete: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Columns of the fields that differ from their default somewhere."""
    names = [name for name in complete[0] if any(name in record for record in records)]
    return {name: [record[name] for record in complete] for name in names}


def _value(value: object) -> str:
    if isinstance(value, list) and value:
        items = ",\n".join(f"    {json.dumps(item)}" for item in value)
        return f"[\n{items}\n  ]"
    return json.dumps(value)


def default_path(calibration: Calibration, folder: Path | None = None) -> Path:
    """File of an imported calibration: in the catalogue, or of the same name in `folder`."""
    path = shipped_path(calibration.machine.device, calibration.machine.engine)
    return path if folder is None else folder / path.name


def all_jobs(package_path: Path | None) -> tuple[Job, ...]:
    """Every system and engine with tables."""
    package = open_package(package_path)
    return tuple((system, engine) for system in package.system_names() for engine in package.engine_names(system))


def import_job(job: Job, package_path: Path | None) -> Calibration:
    """One import; a function of its own so that a worker process can run it."""
    return import_tables(open_package(package_path), *job)


def import_jobs(
    jobs: Iterable[Job],
    package_path: Path | None,
    *,
    workers: int,
    report: Callable[[Job, Calibration | SpecdecError], None],
) -> None:
    """Run imports on `workers` processes and report each as it ends; an unusable table is reported, not raised."""
    with ProcessPoolExecutor(max_workers=workers) as pool:
        running = {pool.submit(import_job, job, package_path): job for job in jobs}
        for done in as_completed(running):
            error = done.exception()
            if error is None:
                report(running[done], done.result())
            elif isinstance(error, SpecdecError):
                report(running[done], error)
            else:
                raise error
