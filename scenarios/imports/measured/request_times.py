"""A line of JSON a request with its lengths and the engine's timestamps, as vLLM's request statistics give them.

`request_id, input_toks, output_toks, arrival_time` (epoch seconds), `queued_ts, scheduled_ts, first_token_ts,
last_token_ts` (seconds of the engine's clock), beside it an optional `meta.json` with the engine's arguments: the form
of LLMServingSim's examples.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np

from roofline.errors import InvalidInput
from scenarios.imports.measured.fields import Fields, FloatArray
from scenarios.imports.measured.vocabulary import MeasuredRun, Note, Requests, statistics_of

COLUMNS = ("input_toks", "output_toks", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


def times_run(items: Sequence[Fields], source: str, path: Path) -> MeasuredRun:
    """The run of the lines, with what its `meta.json` says.

    Raises
    ------
    InvalidInput
        A line lacks a time or has them out of order.
    """
    columns = _columns(items)
    queued_s, first_s, last_s = (columns[name] for name in ("queued_ts", "first_token_ts", "last_token_ts"))
    output = columns["output_toks"]
    gaps = output - 1
    tpot_s = np.divide(last_s - first_s, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0)
    model, settings = _meta(path)
    duration_s = float(last_s.max() - queued_s.min())
    return MeasuredRun(
        format="request timestamps",
        source=source,
        model=model,
        engine="vllm",
        duration_s=duration_s,
        finished=len(items),
        input_tokens_mean=float(columns["input_toks"].mean()),
        output_tokens_mean=float(output.mean()),
        output_tokens_per_s=float(output.sum()) / duration_s if duration_s > 0 else None,
        requests=Requests(
            prompt_tokens=columns["input_toks"].astype(np.int64),
            output_tokens=output.astype(np.int64),
            arrival_s=queued_s - queued_s.min(),
            ttft_s=first_s - queued_s,
            latency_s=last_s - queued_s,
            queue_s=columns["scheduled_ts"] - queued_s,
        ),
        times={
            "ttft": statistics_of(first_s - queued_s),
            "tpot": statistics_of(tpot_s),
            "latency": statistics_of(last_s - queued_s),
            "queue": statistics_of(columns["scheduled_ts"] - queued_s),
        },
        settings=settings,
        notes=(Note("missing", "acceptance: the timestamps do not tell it"),),
    )


def _columns(items: Sequence[Fields]) -> dict[str, FloatArray]:
    """All columns, in order of arrival."""
    columns = {name: _column(items, name) for name in COLUMNS}
    for before, after in pairwise(COLUMNS[2:]):
        late = np.flatnonzero(columns[after] < columns[before])
        if len(late):
            raise InvalidInput(
                f"{items[int(late[0])].where}: {after} is before {before}; correct the line or remove it"
            )
    rank = np.argsort(columns["queued_ts"], kind="stable")
    return {name: values[rank] for name, values in columns.items()}


def _column(items: Sequence[Fields], name: str) -> FloatArray:
    least = 1 if name.endswith("toks") else 0
    values = [item.whole(name, least=1) if least else item.number(name) for item in items]
    missing = next((item for item, value in zip(items, values, strict=True) if value is None), None)
    if missing is not None:
        raise InvalidInput(f"{missing.where}: {name} is missing; every line needs {', '.join(COLUMNS)}")
    return np.array(values, dtype=np.float64)


def _meta(path: Path) -> tuple[str | None, Mapping[str, object]]:
    file = path.with_name("meta.json")
    if not file.is_file():
        return None, {}
    try:
        content: object = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{file}: is beside the timestamps but cannot be read ({error}); correct it or move it"
        ) from None
    table = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    fields = Fields(table, str(file))
    options = fields.table("engine_kwargs")
    settings: dict[str, object] = {}
    if options is not None:
        known = {
            "tensor_parallel": options.whole("tensor_parallel_size", least=1),
            "max_sequences": options.whole("max_num_seqs", least=1),
            "max_batched_tokens": options.whole("max_num_batched_tokens", least=1),
            "max_context_tokens": options.whole("max_model_len", least=1),
        }
        settings = {name: value for name, value in known.items() if value is not None}
    return fields.text("model"), settings
