"""Raw rows on disk: appended as they are measured, read back tolerantly, never rewritten."""

import hashlib
import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, cast

from calibrate.jobs import Job
from calibrate.writing import cannot_write, write_text_at_once
from roofline.errors import InvalidInput

ROWS_FILE = "rows.jsonl"
RUN_FILE = "run.json"
ROWS_VERSION = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One sample of one job.

    Attributes
    ----------
    repetition
        Which pass over the shuffled list; every job is in it once.
    probe_s
        Mean time of a fixed reference kernel right before and right after: what the neighbours cost meanwhile.
    elapsed_s
        Measuring time spent when the row was written, earlier sessions of the run included.
    emitted_tokens
        Loops only: tokens the timed rounds emitted over the whole batch.
    """

    job: Job
    repetition: int
    busy_s: float
    wall_s: float
    probe_s: float
    involuntary_switches: int
    page_faults: int
    steal_s: float
    elapsed_s: float
    emitted_tokens: int = 0


class RowWriter:
    """Appends rows to `rows.jsonl`; each line is whole on disk before the next sample starts."""

    def __init__(self, folder: Path) -> None:
        """Open for appending; a line cut off by a kill is ended first."""
        self._path = path = folder / ROWS_FILE
        try:
            cut_off = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise cannot_write(path, error) from error
        if cut_off:
            self._file.write("\n")

    def append(self, row: Row) -> None:
        """Write one row."""
        content = asdict(row)
        content["job"] = asdict(row.job)
        try:
            self._file.write(json.dumps(content) + "\n")
            self._file.flush()
        except OSError as error:
            raise InvalidInput(
                f"{self._path} cannot be written ({error.strerror}); make room and repeat the command to continue"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_rows(folder: Path) -> list[Row]:
    """All whole rows of a run. A line that is not a row is dropped with a warning: a kill cuts the last one.

    Raises
    ------
    InvalidInput
        There is no rows file, or nothing in it can be read.
    """
    path = folder / ROWS_FILE
    if not path.exists():
        raise InvalidInput(f"{path} does not exist; measure first with `specdec calibrate run --out {folder}`")
    rows: list[Row] = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(parse_row(json.loads(line)))
        except (ValueError, TypeError, KeyError):
            warnings.warn(f"{path}: line {number} is not a whole row and was dropped", UserWarning, stacklevel=2)
    if not rows:
        raise InvalidInput(f"{path} has no whole row; run the measurement again into an empty folder")
    return rows


def parse_row(content: dict[str, Any]) -> Row:
    """A row from its JSON; raises where a field is missing, unknown or no number."""
    job = Job(**content["job"])
    numbers = {field.name: content[field.name] for field in fields(Row) if field.name != "job"}
    if not all(isinstance(value, int | float) and value >= 0 for value in numbers.values()):
        raise ValueError("a field of the row is no non-negative number")
    return Row(job=job, **numbers)


def rows_hash(rows: Iterable[Row]) -> str:
    """SHA-256 of the rows as a set: their order on disk does not matter."""
    lines = sorted(json.dumps(asdict(row), sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def write_run_record(folder: Path, record: dict[str, Any]) -> None:
    """Write `run.json`: preset, dtype, context, environment."""
    write_text_at_once(folder / RUN_FILE, json.dumps({"rows_version": ROWS_VERSION, **record}, indent=2) + "\n")


def read_run_record(folder: Path) -> dict[str, Any]:
    """Read `run.json`."""
    path = folder / RUN_FILE
    try:
        parsed: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read ({error.strerror}); give the folder of a calibration run") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path}: not UTF-8 text; restore it or measure again") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(f"{path}: not JSON at line {error.lineno}; restore it or measure again") from error
    if not isinstance(parsed, dict):
        raise InvalidInput(
            f"{path} must hold a JSON object, got a {type(parsed).__name__}; restore it or measure again"
        )
    content = cast("dict[str, Any]", parsed)
    if content.get("rows_version") != ROWS_VERSION:
        raise InvalidInput(
            f"{path}: rows_version must be {ROWS_VERSION}, got {content.get('rows_version')!r}; measure again"
        )
    return content
