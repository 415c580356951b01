"""The folder of a sweep: what it is, one small Parquet file a finished chunk, one sorted table at the end.

`sweep.json` says which sweep it is. Every chunk is written under another name and renamed, so a file that is there is
whole; it carries the digest of its rows' keys, so a file of other rows is not taken for it.
"""

# pyarrow ships no types:
# pyright: basic
from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from roofline.errors import InvalidInput
from scenarios.files import check_can_write, write_text_at_once
from scenarios.sweeps.axes import Axis, column_text
from scenarios.sweeps.cells import ANSWER_COLUMNS, METRIC_COLUMNS, Row
from scenarios.sweeps.fields import check_field
from scenarios.sweeps.keys import canonical

DESCRIPTION = "sweep.json"
RESULTS = "results.parquet"
FORMAT = 1
_KEYS = b"specdec_keys"
_CHUNKS_A_GROUP = 64


@dataclass(frozen=True, slots=True)
class Store:
    """The dataset of one sweep in a folder."""

    folder: Path
    schema: Any

    def has(self, index: int, keys: str) -> bool:
        """Whether the chunk's rows, those of these keys, are on disk; a broken file counts as missing."""
        try:
            metadata = pq.read_schema(self.file(index)).metadata or {}
        except (OSError, pa.ArrowInvalid):
            return False
        return metadata.get(_KEYS) == keys.encode()

    def file(self, index: int) -> Path:
        """Where a chunk lies."""
        return self.folder / "chunks" / f"{index:08d}.parquet"

    def write(self, index: int, rows: Sequence[Row], keys: str) -> None:
        """Add a finished chunk: whole or not at all.

        Raises
        ------
        InvalidInput
            The disk is full, or the folder cannot be written any more; what was written before stays.
        """
        part = self.file(index).with_suffix(".part")
        try:
            self.save(part, rows, keys)
            os.replace(part, self.file(index))
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._not_written(error) from error

    def save(self, file: Path, rows: Sequence[Row], keys: str) -> None:
        """Put rows into a file and make sure that they are on the disk."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=self.schema)
        table = table.replace_schema_metadata({_KEYS: keys.encode()})
        with file.open("wb") as stream:
            pq.write_table(table, stream, compression="zstd")
            stream.flush()
            os.fsync(stream.fileno())

    def read(self, index: int, columns: Sequence[str] | None = None) -> Any:
        """Rows of a finished chunk, an Arrow table."""
        return pq.read_table(self.file(index), columns=list(columns) if columns else None).replace_schema_metadata()

    def export(self, chunks: int) -> Path:
        """One table sorted by scenario and seed; the same bytes however the sweep came about."""
        part, whole = self.folder / f"{RESULTS}.part", self.folder / RESULTS
        try:
            with pq.ParquetWriter(part, self.schema, compression="zstd") as writer:
                for first in range(0, chunks, _CHUNKS_A_GROUP):
                    group = [self.read(index) for index in range(first, min(chunks, first + _CHUNKS_A_GROUP))]
                    writer.write_table(pa.concat_tables(group), row_group_size=1 << 30)
            os.replace(part, whole)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._not_written(error) from error
        return whole

    def _not_written(self, error: OSError) -> InvalidInput:
        why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or str(error)
        finished = sum(1 for _ in (self.folder / "chunks").glob("*.parquet"))
        return InvalidInput(
            f"--out {self.folder}: cannot be written ({why}); the {finished} chunks that were finished are kept, "
            "make room and run the same sweep again to go on"
        )


def open_store(folder: Path, description: dict[str, Any], *, axes: Sequence[Axis]) -> tuple[Store, int]:
    """The dataset to go on with, or a new one, and the scenarios a chunk of it holds.

    Raises
    ------
    InvalidInput
        The folder cannot be written, holds another sweep, or something that is none.
    """
    check_can_write(folder)
    file = folder / DESCRIPTION
    if file.exists():
        kept = _kept_description(file)
        difference = _difference(kept, description)
        if difference is not None:
            raise InvalidInput(
                f"--out {folder}: holds another sweep ({difference}); give another folder, or ask the same question "
                "to go on with it"
            )
        description = kept
    elif folder.exists() and any(folder.iterdir()):
        raise InvalidInput(f"--out {folder}: holds other files and no {DESCRIPTION}; give an empty or a new folder")
    try:
        (folder / "chunks").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"--out {folder}: cannot be written ({error.strerror}); give another folder") from error
    if not file.exists():
        write_text_at_once(file, json.dumps(description, indent=1, sort_keys=True) + "\n")
    return Store(folder, row_schema(axes)), int(description["chunk_scenarios"])


def _kept_description(file: Path) -> dict[str, Any]:
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{file}: cannot be read as the description of a sweep ({error}); give another --out"
        ) from None
    if not isinstance(content, dict) or "chunk_scenarios" not in content:
        raise InvalidInput(f"{file}: does not describe a sweep; give another --out")
    return cast("dict[str, Any]", content)


def _difference(kept: dict[str, Any], asked: dict[str, Any]) -> str | None:
    """The first thing in which two sweeps differ, in words."""
    for name in ("format", "version", "design", "axes", "seeds", "base", "files"):
        before, now = kept.get(name), json.loads(json.dumps(asked.get(name), default=str))
        if canonical(before) != canonical(now):
            short = isinstance(now, str | int) and isinstance(before, str | int)
            return (
                f"its {name} is {before}, now {now}" if short else f"its {name} differ{'s' if name != 'axes' else ''}"
            )
    return None


def row_schema(axes: Sequence[Axis]) -> Any:
    """Columns of the dataset: key, place, axes, status, load, answers, metrics."""
    fixed = [("key", pa.string()), ("scenario", pa.int64()), ("seed", pa.int64())]
    of_axes = [(name, _column_type(axis, place)) for axis in axes for place, name in enumerate(axis.fields)]
    told = [(name, pa.string()) for name in ("status", "reason", "label", "load_kind")]
    answers = [(name, pa.bool_()) for name in ANSWER_COLUMNS]
    metrics = [(name, pa.float64()) for name in ("load", *METRIC_COLUMNS)]
    return pa.schema([*fixed, *of_axes, *told, *answers, *metrics])


def _column_type(axis: Axis, place: int) -> pa.DataType:
    if axis.span is not None:
        return pa.int64() if axis.span.whole else pa.float64()
    values = [row[place] for row in axis.rows]
    if all(isinstance(value, bool) for value in values):
        return pa.bool_()
    types = check_field(axis.fields[place])
    if "string" not in types and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    ):
        return pa.int64() if all(isinstance(value, int) for value in values) else pa.float64()
    return pa.string()


def axis_columns(point: dict[str, Any], schema: Any) -> Iterator[tuple[str, Any]]:
    """Values of a point as the columns hold them."""
    for name, value in point.items():
        yield name, column_text(value) if schema.field(name).type == pa.string() else value
