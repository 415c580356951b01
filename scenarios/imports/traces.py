"""Request traces: Azure LLM inference CSV and Mooncake JSONL, to arrays.

Azure/AzurePublicDataset: `TIMESTAMP,ContextTokens,GeneratedTokens`, CRLF, naive or +00:00 times with
seven fraction digits. kvcache-ai/Mooncake: one object a line with `timestamp` (ms), `input_length`,
`output_length`, `hash_ids` (blocks of 512 tokens).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

TraceFormat = Literal["auto", "azure", "mooncake"]
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE_KEYS = ("timestamp", "input_length", "output_length")
MOONCAKE_BLOCK_TOKENS = 512
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:\.\d+)?)(?:\+00:00|Z)?")
_SECONDS_PER_DAY = 86400.0
_AGAIN = "the file looks cut off: fetch it again or remove the line"


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival; times start at 0.

    `prefix_hit_tokens`: prompt tokens whose blocks an earlier request already held (Mooncake hashes, a cache
    that never evicts); zeros where the format does not say. `hashed`: whether any request names its blocks.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_hit_tokens: NDArray[np.int64]
    format: str
    sha256: str
    hashed: bool = False

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.arrival_s)

    @property
    def rate_per_s(self) -> float:
        """Mean arrival rate over the trace."""
        span_s = float(self.arrival_s[-1])
        return (self.requests - 1) / span_s if span_s > 0 else math.nan


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    time_s: float
    prompt_tokens: int
    output_tokens: int
    hit_tokens: int = 0
    hashed: bool = False


def read_trace(path: Path, *, format: TraceFormat = "auto", max_requests: int | None = None) -> Trace:
    """Read a trace; `max_requests` keeps the first so many.

    Raises
    ------
    InvalidInput
        A missing column, a time that is negative or goes back, zero tokens, an empty or truncated file; the
        message names line, value and fix.
    """
    content = _content(path)
    text = content.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise InvalidInput(f"trace {path}: is empty; give a file with a header and requests")
    kind = format if format != "auto" else "mooncake" if text.lstrip().startswith("{") else "azure"
    lines = text.splitlines()
    rows = _mooncake(path, lines) if kind == "mooncake" else _azure(path, lines)
    kept: list[_Row] = []
    previous_s = -math.inf
    for row in rows:
        _check(path, row, previous_s)
        previous_s = row.time_s
        kept.append(row)
        if max_requests is not None and len(kept) >= max_requests:
            break
    if not kept:
        raise InvalidInput(f"trace {path}: has a header but no requests; give a file with at least one request")
    start_s = kept[0].time_s
    return Trace(
        arrival_s=_frozen(np.array([row.time_s - start_s for row in kept], dtype=np.float64)),
        prompt_tokens=_frozen(np.array([row.prompt_tokens for row in kept], dtype=np.int64)),
        output_tokens=_frozen(np.array([row.output_tokens for row in kept], dtype=np.int64)),
        prefix_hit_tokens=_frozen(np.array([row.hit_tokens for row in kept], dtype=np.int64)),
        format=kind,
        sha256=hashlib.sha256(content).hexdigest(),
        hashed=any(row.hashed for row in kept),
    )


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    values.setflags(write=False)
    return values


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"trace {path}: cannot be read ({error.strerror}); give a readable file") from error


def _check(path: Path, row: _Row, previous_s: float) -> None:
    where = f"trace {path}: line {row.line}"
    if row.time_s < previous_s:
        raise InvalidInput(f"{where}: time goes back by {previous_s - row.time_s:g} s; sort the file by time")
    for name, value in (("prompt", row.prompt_tokens), ("output", row.output_tokens)):
        if value < 1:
            raise InvalidInput(
                f"{where}: {name} tokens must be at least 1, got {value}; remove the request or correct the count"
            )


def _azure(path: Path, lines: list[str]) -> Iterator[_Row]:
    header = [name.strip() for name in lines[0].split(",")]
    missing = [name for name in AZURE_COLUMNS if name not in header]
    if missing:
        raise InvalidInput(
            f"trace {path}: column {missing[0]} is missing, the header is {lines[0][:80]!r}; "
            f"it must name {', '.join(AZURE_COLUMNS)}"
        )
    time_at, prompt_at, output_at = (header.index(name) for name in AZURE_COLUMNS)
    days: dict[str, float] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        cells = line.split(",")
        if len(cells) != len(header):
            raise InvalidInput(
                f"trace {path}: line {number} has {len(cells)} of {len(header)} columns ({line[:60]!r}); {_AGAIN}"
            )
        yield _Row(
            line=number,
            time_s=_azure_time_s(path, number, cells[time_at], days),
            prompt_tokens=_whole(path, number, "ContextTokens", cells[prompt_at]),
            output_tokens=_whole(path, number, "GeneratedTokens", cells[output_at]),
        )


def _azure_time_s(path: Path, line: int, text: str, days: dict[str, float]) -> float:
    shape = _TIME.fullmatch(text.strip())
    if shape is None:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return number
        raise InvalidInput(
            f"trace {path}: line {line}: TIMESTAMP must be a time like 2023-11-16 18:15:46.6805900 or "
            "seconds of at "
            f"least 0, got {text.strip()!r}; correct the line"
        )
    year, month, day, hour, minute, second = shape.groups()
    key = f"{year}-{month}-{day}"
    if key not in days:
        try:
            days[key] = date(int(year), int(month), int(day)).toordinal() * _SECONDS_PER_DAY
        except ValueError as error:
            raise InvalidInput(f"trace {path}: line {line}: no such day {key} ({error}); correct the line") from None
        days.setdefault("first", days[key])
    return days[key] - days["first"] + int(hour) * 3600.0 + int(minute) * 60.0 + float(second)


def _whole(path: Path, line: int, column: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(
            f"trace {path}: line {line}: {column} must be a whole number, got {text.strip()!r}; correct the line"
        ) from None


def _mooncake(path: Path, lines: list[str]) -> Iterator[_Row]:
    held: set[int] = set()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            parsed: object = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInput(f"trace {path}: line {number} is not JSON ({error.msg}); {_AGAIN}") from error
        item = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
        for key in MOONCAKE_KEYS:
            if not isinstance(item.get(key), int | float) or isinstance(item.get(key), bool):
                raise InvalidInput(
                    f"trace {path}: line {number}: {key} must be a number, got {item.get(key)!r}; "
                    f"every line needs {', '.join(MOONCAKE_KEYS)}"
                )
        time_ms = float(item["timestamp"])
        if not math.isfinite(time_ms) or time_ms < 0:
            raise InvalidInput(
                f"trace {path}: line {number}: timestamp must be at least 0 ms, got {time_ms:g}; correct the line"
            )
        hashes = cast("list[int]", item.get("hash_ids") or [])
        hits = next((index for index, block in enumerate(hashes) if block not in held), len(hashes))
        held.update(hashes)
        prompt_tokens = int(item["input_length"])
        yield _Row(
            line=number,
            time_s=time_ms / 1000.0,
            prompt_tokens=prompt_tokens,
            output_tokens=int(item["output_length"]),
            hit_tokens=max(0, min(hits * MOONCAKE_BLOCK_TOKENS, prompt_tokens - 1)),
            hashed=bool(hashes),
        )
