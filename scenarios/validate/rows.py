"""Published measurements as read from CSV files, and what is predicted beside each.

Any CSV with the columns of `scenarios/data/validation/speedups.csv` is read. A column that is missing, a cell that is
no number: the file, the row and the column are kept as a `Problem` and everything else still runs.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from roofline.errors import InvalidInput

DATA_FOLDER = Path(__file__).parent.parent / "data" / "validation"
"""Where the measurements that ship lie."""

Status = Literal["computed", "not computed"]
_BLANK = {"", "-", "n/a", "na", "nan", "none", "null", "not stated", "unknown", "?"}
_NUMBER = r"[-+]?\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"^[~≈]?({_NUMBER})\s*(?:-|–|—|to|\.\.)\s*({_NUMBER})\s*([%x×kK]?)$")
_SINGLE = re.compile(rf"^(<=|<|>=|>|~|≈|up to\s)?\s*({_NUMBER})\s*([%x×kK]?)(?:\s*(?:\(.*\)|per\s.*|tokens?|tok))?$")
_SCALE = {"%": 0.01, "k": 1e3, "K": 1e3}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a file that could not be used: `line` counts from 1, the header being 1; 0 is the whole file."""

    file: str
    line: int
    row_id: str
    column: str
    text: str

    def __str__(self) -> str:
        """One line that names the place."""
        where = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{where}{f' ({self.row_id})' if self.row_id else ''}, column {self.column!r}: {self.text}"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a CSV file as texts, one dict a row with every asked-for column, and what was wrong with the file.

    `lines[i]` is the line of row i in the file.
    """

    file: str
    rows: tuple[dict[str, str], ...]
    lines: tuple[int, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A published number: a middle with the range it was given in (`low` = `high` for a plain number)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One measured speed-up with as much of its configuration as was published. Empty texts and None: not given.

    `acceptance_alpha` is what the source calls acceptance, under whatever definition; `acceptance_length` is AL with
    `tau_convention` saying how it was counted. `speedup` is the measured S. `output_limit`: `output_tokens` is
    the largest allowed, not what was generated.
    """

    id: str
    source_id: str
    source: str
    url_or_ref: str
    hardware: str
    gpus: int | None
    tensor_parallel: int | None
    engine: str
    target_model: str
    target_dtype: str
    target_params_b: float | None
    method: str
    draft_model: str
    draft_params_b: float | None
    k: str
    tree_or_chain: str
    dataset: str
    temperature: float | None
    load_type: str
    load_value: float | None
    input_tokens: Number | None
    output_tokens: Number | None
    acceptance_alpha: Number | None
    acceptance_length: float | None
    tau_convention: str
    metric: str
    baseline_value: float | None
    value: float | None
    speedup: float | None
    simulable: str
    notes: str
    output_limit: bool = False
    quote_location: str = ""
    file: str = ""
    line: int = 0

    @property
    def dated(self) -> str:
        """The day its source was written, as `2025-04-24`; empty where the row does not say it."""
        found = re.search(r"\b20\d\d-\d\d-\d\d\b", self.quote_location)
        return found[0] if found else ""


@dataclass(frozen=True, slots=True)
class Terms:
    """A round at the row's batch, in plain steps: R = verify + draft + host; what else the speed-up depends on.

    `plain_s` is the plain step, `plain_host` the host's share of it. `queue` is what prefill, waiting and draining of
    the loop take from S beyond AL / R: the simulated S over AL / R.
    """

    plain_s: float
    verify: float
    draft: float
    host: float
    acceptance_length: float
    queue: float
    plain_host: float = 0.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted for a row, or why nothing is.

    `low`..`high` is the 80 % interval from fields the row leaves open (`assumed` names them); equal to `speedup` where
    it leaves none.
    """

    row: Row
    status: Status
    reason: str = ""
    speedup: float = math.nan
    low: float = math.nan
    high: float = math.nan
    terms: Terms | None = None
    assumed: tuple[str, ...] = ()
    engine: str = ""
    gpu: str = ""
    model: str = ""
    label: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def error(self) -> float:
        """Predicted over measured minus 1; NaN where one of them is missing."""
        if self.status != "computed" or not self.row.speedup:
            return math.nan
        return self.speedup / self.row.speedup - 1.0


def read_table(path: Path, *, columns: Sequence[str]) -> Table:
    """Read a CSV file with a header; asked-for columns that it lacks are blank in every row and named.

    Raises
    ------
    InvalidInput
        The file cannot be read, is not UTF-8 text, or has no header.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            lines = list(csv.reader(stream))
    except OSError as error:
        raise InvalidInput(f"--data {path}: cannot be read ({error.strerror}); give a readable CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"--data {path}: is no UTF-8 CSV text ({error}); save it as one") from error
    if not lines or not any(cell.strip() for cell in lines[0]):
        raise InvalidInput(f"--data {path}: has no header line; its first line must name the columns {columns[0]}, …")
    header = [cell.strip() for cell in lines[0]]
    missing = [name for name in columns if name not in header]
    problems = [Problem(path.name, 0, "", name, "missing; taken as not given in every row") for name in missing]
    rows: list[dict[str, str]] = []
    places: list[int] = []
    for number, cells in enumerate(lines[1:], start=2):
        if not any(cell.strip() for cell in cells):
            continue
        named = dict(zip(header, (cell.strip() for cell in cells), strict=False))
        if len(cells) != len(header):
            said = f"{len(cells)} cells, the header has {len(header)}; the rest is taken as not given"
            problems.append(Problem(path.name, number, named.get("id", ""), header[-1], said))
        rows.append({**dict.fromkeys(columns, ""), **named})
        places.append(number)
    return Table(path.name, tuple(rows), tuple(places), tuple(problems))


def is_blank(text: str) -> bool:
    """Whether a cell says nothing."""
    return text.strip().lower() in _BLANK


def number(text: str) -> Number | None:
    """A plain number, a bound (`<=2048`), a percentage, `1.5x`, or a range whose middle is taken; None: not one."""
    cleaned = text.strip()
    span = _RANGE.match(cleaned)
    if span:
        scale = _SCALE.get(span[3], 1.0)
        low, high = sorted((_float(span[1]) * scale, _float(span[2]) * scale))
        return _finite(Number((low + high) / 2, low, high))
    single = _SINGLE.match(cleaned)
    if single is None:
        return None
    value = _float(single[2]) * _SCALE.get(single[3], 1.0)
    return _finite(Number(value, value, value))


def _float(text: str) -> float:
    """Commas are thousands where three digits follow each, else the decimal point."""
    if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?", text):
        return float(text.replace(",", ""))
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.nan


def _finite(found: Number) -> Number | None:
    return found if all(math.isfinite(value) for value in (found.value, found.low, found.high)) else None


def rows_of(paths: Iterable[Path]) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    """All rows of the files, in their order, and every problem met."""
    rows: list[Row] = []
    problems: list[Problem] = []
    for path in paths:
        table = read_table(path, columns=COLUMNS)
        problems += table.problems
        for line, cells in zip(table.lines, table.rows, strict=True):
            rows.append(_row(cells, table.file, line, problems))
    return tuple(rows), tuple(problems)


COLUMNS = (
    "id", "source_id", "source", "url_or_ref", "hardware", "n_gpus", "tp", "engine", "target_model", "target_params_B",
    "target_dtype", "method", "draft_model", "draft_params_B", "k", "tree_or_chain", "dataset", "temperature",
    "load_type", "load_value", "input_len", "output_len", "acceptance_rate_alpha", "mean_accept_len_tau",
    "tau_convention", "metric", "baseline_value", "value", "speedup", "simulable", "notes",
)  # fmt: skip
"""Columns that are read; others are left alone."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of one row; numbers that are none are told to `problems`."""

    cells: dict[str, str]
    file: str
    line: int
    problems: list[Problem]

    @property
    def id(self) -> str:
        return self.cells["id"] or f"{self.file}:{self.line}"

    def told(self, column: str, *, positive: bool = True) -> Number | None:
        text = self.cells[column]
        if is_blank(text):
            return None
        found = number(text)
        if found is None or (positive and found.value <= 0) or found.value < 0:
            said = f"must be a number{' above 0' if positive else ''}, got {text!r}; taken as not given"
            self.problems.append(Problem(self.file, self.line, self.id, column, said))
            return None
        return found

    def plain(self, column: str, *, positive: bool = True) -> float | None:
        found = self.told(column, positive=positive)
        return None if found is None else found.value

    def whole(self, column: str) -> int | None:
        found = self.plain(column)
        return None if found is None else max(1, round(found))


def _row(cells: dict[str, str], file: str, line: int, problems: list[Problem]) -> Row:
    read = _Cells(cells, file, line, problems)
    texts = {name: cells[name] for name in _TEXTS}
    return Row(
        id=read.id,
        source_id=cells["source_id"] or cells["source"] or file,
        gpus=read.whole("n_gpus"),
        tensor_parallel=read.whole("tp"),
        target_params_b=read.plain("target_params_B"),
        draft_params_b=read.plain("draft_params_B"),
        temperature=read.plain("temperature", positive=False),
        load_value=read.plain("load_value"),
        input_tokens=read.told("input_len"),
        output_tokens=read.told("output_len"),
        acceptance_alpha=read.told("acceptance_rate_alpha", positive=False),
        acceptance_length=read.plain("mean_accept_len_tau"),
        baseline_value=read.plain("baseline_value"),
        value=read.plain("value"),
        speedup=read.plain("speedup"),
        output_limit=cells["output_len"].lstrip().startswith(("<", "up to", "≤")),
        quote_location=cells.get("quote_location", ""),
        file=file,
        line=line,
        **texts,
    )


_TEXTS = (
    "source", "url_or_ref", "hardware", "engine", "target_model", "target_dtype", "method", "draft_model", "k",
    "tree_or_chain", "dataset", "load_type", "tau_convention", "metric", "simulable", "notes",
)  # fmt: skip
