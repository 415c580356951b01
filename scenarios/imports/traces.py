"""Request traces: Azure LLM inference CSV, BurstGPT CSV, Mooncake and Qwen-Bailian JSONL, to arrays.

Azure/AzurePublicDataset: `TIMESTAMP,ContextTokens,GeneratedTokens`, CRLF, naive or +00:00 times with
seven fraction digits. kvcache-ai/Mooncake: one object a line with `timestamp` (ms), `input_length`,
`output_length`, `hash_ids` (blocks of 512 tokens). HPMLL/BurstGPT: `Timestamp` (s), `Request tokens`, `Response tokens`
(0: failed). Qwen-Bailian: as Mooncake with `chat_id`, seconds and blocks of 16 tokens.
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

TraceFormat = Literal["auto", "azure", "mooncake", "burstgpt", "bailian"]
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE_KEYS = ("timestamp", "input_length", "output_length")
MOONCAKE_BLOCK_TOKENS = 512
BAILIAN_BLOCK_TOKENS = 16
_LARGEST = 2.0**62
BURSTGPT_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:\.\d+)?)(?:\+00:00|Z)?")
_SECONDS_PER_DAY = 86400.0
_AGAIN = "the file looks cut off: fetch it again or remove the line"


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival; times start at 0.

    `prefix_hit_tokens`: prompt tokens whose blocks an earlier request already held (Mooncake hashes, a cache
    that never evicts); zeros where the format does not say. `hashed`: whether any request names its blocks. `skipped`:
    requests of the file that failed (BurstGPT: no response), which are left out. The blocks of prompt i, numbered by
    content, of `block_tokens` each: `blocks[block_start[i]:block_start[i + 1]]`; None where the format does not say.
    """

    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_hit_tokens: NDArray[np.int64]
    format: str
    sha256: str
    hashed: bool = False
    skipped: int = 0
    block_start: NDArray[np.int64] | None = None
    blocks: NDArray[np.int64] | None = None
    block_tokens: int = 0

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
    blocks: tuple[int | str, ...] = ()
    block_tokens: int = 0


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
    lines = text.splitlines()
    kind = format if format != "auto" else _format_of(lines)
    kept: list[_Row] = []
    previous_s = -math.inf
    skipped = 0
    for row in _rows(path, lines, kind):
        if kind == "burstgpt" and row.output_tokens == 0:
            skipped += 1
            continue
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
        skipped=skipped,
        **_numbered(kept),
    )


def _numbered(rows: list[_Row]) -> dict[str, Any]:
    """The blocks of all prompts with a number for every name."""
    if not any(row.hashed for row in rows):
        return {}
    numbers: dict[int | str, int] = {}
    blocks = [numbers.setdefault(block, len(numbers)) for row in rows for block in row.blocks]
    ends = np.cumsum([len(row.blocks) for row in rows])
    return {
        "block_start": _frozen(np.concatenate([[0], ends]).astype(np.int64)),
        "blocks": _frozen(np.array(blocks, dtype=np.int64)),
        "block_tokens": rows[0].block_tokens,
    }


def _format_of(lines: list[str]) -> TraceFormat:
    first = next(line for line in lines if line.strip()).lstrip()
    if first.startswith("{"):
        return "bailian" if '"chat_id"' in first else "mooncake"
    return "burstgpt" if BURSTGPT_COLUMNS[1] in first else "azure"


def _rows(path: Path, lines: list[str], kind: TraceFormat) -> Iterator[_Row]:
    match kind:
        case "mooncake":
            return _blocks(path, lines, ticks_per_s=1000.0, block_tokens=MOONCAKE_BLOCK_TOKENS)
        case "bailian":
            return _blocks(path, lines, ticks_per_s=1.0, block_tokens=BAILIAN_BLOCK_TOKENS)
        case "burstgpt":
            return _table(path, lines, BURSTGPT_COLUMNS)
        case _:
            return _table(path, lines, AZURE_COLUMNS)


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


def _table(path: Path, lines: list[str], columns: tuple[str, str, str]) -> Iterator[_Row]:
    header = [name.strip() for name in lines[0].split(",")]
    missing = [name for name in columns if name not in header]
    if missing:
        raise InvalidInput(
            f"trace {path}: column {missing[0]} is missing, the header is {lines[0][:80]!r}; "
            f"it must name {', '.join(columns)}"
        )
    time_at, prompt_at, output_at = (header.index(name) for name in columns)
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
            prompt_tokens=_whole(path, number, columns[1], cells[prompt_at]),
            output_tokens=_whole(path, number, columns[2], cells[output_at]),
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


def _blocks(path: Path, lines: list[str], *, ticks_per_s: float, block_tokens: int) -> Iterator[_Row]:
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
            value = item.get(key)
            if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < _LARGEST:
                raise InvalidInput(
                    f"trace {path}: line {number}: {key} must be a number, got {value!r}; "
                    f"every line needs {', '.join(MOONCAKE_KEYS)}"
                )
        ticks = float(item["timestamp"])
        if not math.isfinite(ticks) or ticks < 0:
            unit = "s" if ticks_per_s == 1.0 else "ms"
            raise InvalidInput(
                f"trace {path}: line {number}: timestamp must be at least 0 {unit}, got {ticks:g}; correct the line"
            )
        hashes = _hashes(path, number, item)
        hits = next((index for index, block in enumerate(hashes) if block not in held), len(hashes))
        held.update(hashes)
        prompt_tokens = int(item["input_length"])
        yield _Row(
            line=number,
            time_s=ticks / ticks_per_s,
            prompt_tokens=prompt_tokens,
            output_tokens=int(item["output_length"]),
            hit_tokens=max(0, min(hits * block_tokens, prompt_tokens - 1)),
            hashed=bool(hashes),
            blocks=tuple(hashes),
            block_tokens=block_tokens,
        )


def _hashes(path: Path, line: int, item: dict[str, Any]) -> list[int]:
    hashes: object = item.get("hash_ids") or []
    if not isinstance(hashes, list) or not all(isinstance(block, int | str) for block in cast("list[object]", hashes)):
        raise InvalidInput(f"trace {path}: line {line}: hash_ids must be a list of block names; correct the line")
    return cast("list[int]", hashes)
