"""Lengths of a scenario as arrays: fixed, log-normal, or drawn from a trace's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scenarios.arrivals import DEFAULT_MAX_TOKENS, Lengths
from scenarios.files import TRACE_FOLDER
from scenarios.imports.traces import read_trace
from simulator.rng import Streams
from simulator.workload import empirical_lengths, fixed_lengths, lognormal_lengths

IntArray = NDArray[np.int64]


def find_trace(path: str) -> Path:
    """The file, or the shipped trace of that name."""
    file, shipped = Path(path).expanduser(), TRACE_FOLDER / Path(path).name
    return shipped if not file.exists() and file.name == str(path) and shipped.is_file() else file


def drawn_lengths(lengths: int | Lengths, requests: int, *, streams: Streams, purpose: str, index: int = 0) -> IntArray:
    """Token counts `(requests,)` of one request class, from the stream of that purpose and class."""
    if isinstance(lengths, int):
        return fixed_lengths(requests, lengths)
    max_tokens = lengths.max_tokens or DEFAULT_MAX_TOKENS
    generator = streams.get(purpose, index)
    if lengths.from_trace is not None:
        trace = read_trace(find_trace(lengths.from_trace))
        values = trace.output_tokens if purpose == "output_lengths" else trace.prompt_tokens
        return empirical_lengths(requests, np.minimum(values, max_tokens), generator)
    mean_tokens = lengths.mean_tokens or 1
    if lengths.sigma == 0.0:
        return fixed_lengths(requests, mean_tokens)
    return lognormal_lengths(requests, mean_tokens, generator, sigma=lengths.sigma, max_tokens=max_tokens)
