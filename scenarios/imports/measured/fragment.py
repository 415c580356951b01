"""A measured run as part of a scenario file: what `decide` and `simulate` read, and what was measured beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from scenarios.imports.measured.vocabulary import MeasuredRun, Note, Requests

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_ENGINE_SETTINGS = ("max_sequences", "max_batched_tokens", "max_context_tokens")
_TRACE_FORMATS = ("azure", "mooncake", "burstgpt", "bailian")


def fragment(run: MeasuredRun, *, requests_file: str | None = None) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """The tables of a scenario and what has to be said about them.

    `requests_file` is where the requests of the run will lie as a trace; None: their lengths become a law.
    """
    workload, notes = _workload(run, requests_file)
    table: dict[str, Any] = {"schema_version": 1, "name": f"measured: {run.source}"}
    if run.model is not None:
        table["target"] = {"model": run.model}
    if "tensor_parallel" in run.settings:
        table["hardware"] = {"tensor_parallel": run.settings["tensor_parallel"]}
    engine = {key: run.settings[key] for key in _ENGINE_SETTINGS if key in run.settings}
    if engine or run.engine in ("vllm", "sglang", "llamacpp"):
        table["engine"] = {**({"profile": run.engine} if run.engine else {}), **engine}
    acceptance, more = _acceptance(run)
    if acceptance:
        table["acceptance"] = acceptance
    table["workload"] = workload
    table["measured"] = _measured(run)
    return table, (*notes, *more)


def _acceptance(run: MeasuredRun) -> tuple[dict[str, Any], tuple[Note, ...]]:
    accepted = run.accepted
    if accepted is None:
        return {}, ()
    where = {"measured_on": run.source}
    if accepted.per_position:
        return {"per_position": [round(share, 6) for share in accepted.per_position], **where}, ()
    if accepted.acceptance_length is not None and accepted.draft_tokens is not None:
        return {"length": f"{accepted.acceptance_length:.4f}@{accepted.draft_tokens}", **where}, ()
    text = (
        f"K: an acceptance length of {accepted.acceptance_length:.3f} says nothing without it; give --acceptance-length"
    )
    return {}, (Note("missing", text),)


def _workload(run: MeasuredRun, requests_file: str | None) -> tuple[dict[str, Any], tuple[Note, ...]]:
    if run.trace is not None:
        table: dict[str, Any] = {"kind": "trace", "path": str(run.trace)}
        kind = run.format.removesuffix(" trace")
        if kind in _TRACE_FORMATS:
            table["format"] = kind
        if run.prefix_hit_fraction:
            table["prefix_hits"] = "unlimited_cache"
        return table, ()
    if requests_file is not None:
        return {"kind": "trace", "path": requests_file, "format": "azure"}, ()
    notes: list[Note] = []
    lengths = _lengths(run, notes)
    table = {"kind": "poisson", **lengths}
    if run.prefix_hit_fraction:
        table["prefix_hit_fraction"] = round(run.prefix_hit_fraction, 4)
    if run.finished:
        table["requests"] = run.finished
    if run.concurrency is not None and run.rate_per_s is None:
        table |= {"kind": "closed", "concurrency": run.concurrency}
        return table, tuple(notes)
    if run.rate_per_s is None:
        notes.append(Note("missing", "rate: give --rate, or --concurrency for a closed loop"))
        return table, tuple(notes)
    table["rate_per_s"] = run.rate_per_s
    if run.burstiness not in (None, 1.0):
        table |= {"kind": "gamma", "burstiness": run.burstiness}
    if run.concurrency is not None:
        text = f"a rate and at most {run.concurrency} in flight were asked; the limit is left out"
        notes.append(Note("mixed", text))
    return table, tuple(notes)


def _lengths(run: MeasuredRun, notes: list[Note]) -> dict[str, Any]:
    """Log-normal with the mean and spread of the requests, or fixed where only a mean is known."""
    requests = run.requests or Requests()
    found: dict[str, Any] = {}
    for name, mean, values in (
        ("input_tokens", run.input_tokens_mean, requests.prompt_tokens),
        ("output_tokens", run.output_tokens_mean, requests.output_tokens),
    ):
        if values is not None and len(values):
            found[name] = _law(values)
        elif mean is not None and mean >= 0.5:
            found[name] = round(mean)
            notes.append(
                Note("missing", f"the spread of {name}: only their mean {mean:.4g} is known, and taken for all")
            )
        else:
            notes.append(Note("missing", f"{name}: give --{name.replace('_', '-')}"))
    return found


def _law(values: NDArray[np.int64]) -> int | dict[str, Any]:
    positive = np.maximum(values, 1)
    mean_tokens, sigma = max(1, round(float(positive.mean()))), float(np.log(positive).std())
    if sigma < 0.005:
        return mean_tokens
    return {"mean_tokens": mean_tokens, "sigma": round(sigma, 3), "max_tokens": int(positive.max())}


def _measured(run: MeasuredRun) -> dict[str, Any]:
    table: dict[str, Any] = {"sources": [part.strip() for part in run.source.split(",")]}
    length = run.accepted.acceptance_length if run.accepted is not None else None
    known = {
        "requests": run.finished or None,
        "duration_s": run.duration_s or None,
        "output_tokens_per_s": run.output_tokens_per_s or None,
        "acceptance_length": None if length is None else round(length, 4),
        "host_s": run.settings.get("host_s"),
    }
    table |= {key: value for key, value in known.items() if value is not None}
    for name, times in run.times.items():
        kept = {key: round(times[key], 9) for key in _STATISTICS if key in times}
        if kept:
            table[f"{name}_s"] = kept
    return table


def fragment_text(table: dict[str, Any], notes: tuple[Note, ...]) -> str:
    """The file: what was reported as comments on top, then the tables."""
    lines = ["# Written by `specdec import`. Complete it with --model, --gpu and, where drafts are made, --method."]
    lines += [f"# {note.kind}: {note.text}" for note in notes]
    return "\n".join([*lines, tomli_w.dumps(table)])


def requests_csv(requests: Requests) -> str | None:
    """Arrivals and lengths of a run as a trace; None where they are not all known."""
    arrival_s, prompt, output = requests.arrival_s, requests.prompt_tokens, requests.output_tokens
    if arrival_s is None or prompt is None or output is None or not len(arrival_s):
        return None
    if prompt.min() < 1 or output.min() < 1:
        return None
    order = np.argsort(arrival_s, kind="stable")
    rows = [f"{arrival_s[i]:.7f},{prompt[i]},{output[i]}" for i in order]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n"


def beside(path: Path) -> Path:
    """Where the requests of a fragment lie."""
    return path.with_name(f"{path.stem}-requests.csv")
