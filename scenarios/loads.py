"""The points of a load sweep, and the requests that arrive at each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios.arrivals import (
    ClosedWorkload,
    OpenWorkload,
    RequestKind,
    SessionWorkload,
    TraceWorkload,
    WorkloadGiven,
)
from scenarios.conversations import sessions_at, turn_kinds
from scenarios.imports.traces import Trace, read_trace
from scenarios.lengths import drawn_lengths, find_trace
from scenarios.report.words import load_text
from scenarios.schema import Scenario
from simulator.rng import Streams
from simulator.workload import (
    Workload,
    gamma_arrivals,
    swinging_arrivals,
)

SWEEP_FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
SWEEP_CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128)

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One load: requests per second (`rate`) or requests in flight (`concurrency`)."""

    index: int
    kind: Literal["rate", "concurrency"]
    value: float

    def __post_init__(self) -> None:
        """Refuse a part of a request in flight; a sweep has none, so it came by --at."""
        if self.kind == "concurrency" and (self.value < 1 or self.value != int(self.value)):
            raise InvalidInput(
                f"--at must be a whole number of requests in flight in a closed loop, at least 1, got {self.value:g}; "
                "write it like 4 or 2x"
            )

    @property
    def text(self) -> str:
        """The load in words of a report."""
        return load_text(self.value, self.kind)


def read_scenario_trace(scenario: Scenario) -> Trace | None:
    """The trace that the workload replays, if it replays one.

    Raises
    ------
    InvalidInput
        The trace cannot be read, or prefix hits are asked of one without block hashes.
    """
    workload = scenario.workload
    if not isinstance(workload, TraceWorkload):
        return None
    path = find_trace(workload.path)
    trace = read_trace(path, format=workload.format, max_requests=workload.max_requests)
    if workload.prefix_hits == "unlimited_cache" and not trace.hashed:
        raise InvalidInput(
            f"workload.prefix_hits = 'unlimited_cache' needs block hashes, and trace {workload.path} ({trace.format}) "
            "names none; leave prefix_hits out, or give a Mooncake trace with hash_ids"
        )
    return trace


def load_points(scenario: Scenario, trace: Trace | None) -> tuple[LoadPoint, ...]:
    """The sweep in rising order, duplicates dropped.

    Raises
    ------
    InvalidInput
        The workload has no rate of its own to take multiples of.
    """
    loads, workload = scenario.loads, scenario.workload
    if isinstance(workload, ClosedWorkload):
        values = [float(value) for value in loads.concurrencies]
        if not values and workload.concurrency is not None:
            values = [max(1.0, round(workload.concurrency * factor)) for factor in loads.factors or SWEEP_FACTORS]
        return _points("concurrency", values or [float(value) for value in SWEEP_CONCURRENCIES])
    if loads.rates_per_s:
        return _points("rate", list(loads.rates_per_s))
    own_rate_per_s = own_load(scenario, trace)
    if own_rate_per_s is None:
        raise InvalidInput(
            "workload.rate_per_s is missing; give --rate 4 (the sweep goes from 0.25x to 4x of it) or the "
            "loads "
            "themselves with --loads 1,2,4,8"
        )
    if not math.isfinite(own_rate_per_s):
        raise InvalidInput(
            f"trace {workload.path if isinstance(workload, TraceWorkload) else ''}: all requests arrive at "
            "one "
            "instant, so it has no rate; use a workload of kind 'closed' or a longer trace"
        )
    return _points("rate", [own_rate_per_s * factor for factor in loads.factors or SWEEP_FACTORS])


def _points(kind: Literal["rate", "concurrency"], values: list[float]) -> tuple[LoadPoint, ...]:
    return tuple(LoadPoint(index, kind, value) for index, value in enumerate(sorted(set(values))))


def own_load(scenario: Scenario, trace: Trace | None) -> float | None:
    """The load the workload itself names: its rate, or its requests in flight; None where it names none."""
    match scenario.workload:
        case TraceWorkload():
            return trace.rate_per_s if trace is not None else None
        case OpenWorkload(rate_per_s=rate_per_s) | SessionWorkload(rate_per_s=rate_per_s):
            return rate_per_s
        case ClosedWorkload(concurrency=concurrency):
            return float(concurrency) if concurrency is not None else None


def workload_at(scenario: Scenario, point: LoadPoint, *, trace: Trace | None, seed: int) -> Workload:
    """Requests at a load. A seed fixes lengths and luck at every load; arrivals scale with the rate."""
    workload = scenario.workload
    if isinstance(workload, TraceWorkload):
        if trace is None:
            raise InvalidInput("the workload replays a trace that was not read; read it with read_scenario_trace")
        keep = workload.prefix_hits == "unlimited_cache"
        requests = Workload(
            arrival_s=np.array(trace.arrival_s),
            prompt_tokens=np.array(trace.prompt_tokens),
            output_tokens=np.array(trace.output_tokens),
            prefix_hit_tokens=np.array(trace.prefix_hit_tokens) * int(keep),
            class_id=np.zeros(trace.requests, dtype=np.int64),
        )
        return requests.scaled(point.value / trace.rate_per_s)
    streams = Streams(scenario.run.seed + seed)
    if isinstance(workload, SessionWorkload):
        return sessions_at(workload, point.value, streams)
    parts = [_class_requests(workload, kind, index, point, streams) for index, kind in enumerate(kinds(workload))]
    arrival_s = np.concatenate([part[0] for part in parts])
    order = np.argsort(arrival_s, kind="stable")
    prompt_tokens = np.concatenate([part[1] for part in parts])[order]
    output_tokens = np.concatenate([part[2] for part in parts])[order]
    class_id = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])[order]
    hit_fraction = np.array([kind.prefix_hit_fraction for kind in kinds(workload)])[class_id]
    return Workload(
        arrival_s=arrival_s[order],
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prefix_hit_tokens=np.minimum((prompt_tokens * hit_fraction).astype(np.int64), prompt_tokens - 1),
        class_id=class_id.astype(np.int64),
        class_names=tuple(kind.name for kind in kinds(workload)),
        concurrency=int(point.value) if point.kind == "concurrency" else None,
    )


def kinds(workload: WorkloadGiven) -> tuple[RequestKind, ...]:
    """The request classes of a workload (of sessions: turns); one called `default` where it has none."""
    if isinstance(workload, TraceWorkload):
        return ()
    if isinstance(workload, SessionWorkload):
        return turn_kinds(workload)
    if workload.classes:
        return workload.classes
    if workload.input_tokens is None or workload.output_tokens is None:
        raise InvalidInput("workload lengths are missing; give input_tokens and output_tokens")
    return (
        RequestKind(
            name="default",
            share_fraction=1.0,
            input_tokens=workload.input_tokens,
            output_tokens=workload.output_tokens,
            prefix_hit_fraction=workload.prefix_hit_fraction,
        ),
    )


def _class_requests(
    workload: OpenWorkload | ClosedWorkload, kind: RequestKind, index: int, point: LoadPoint, streams: Streams
) -> tuple[NDArray[np.float64], IntArray, IntArray]:
    requests = max(1, round(workload.requests * kind.share_fraction))
    if isinstance(workload, OpenWorkload) and workload.swing is not None:
        phases = workload.swing.phases(point.value * kind.share_fraction)
        arrival_s = swinging_arrivals(requests, phases, streams.get("arrivals", index))
    elif isinstance(workload, OpenWorkload):
        arrival_s = gamma_arrivals(
            requests,
            point.value * kind.share_fraction,
            streams.get("arrivals", index),
            burstiness=workload.burstiness,
        )
    else:
        # Only the order counts in a closed loop: classes are interleaved at random.
        arrival_s = np.sort(streams.get("arrivals", index).random(requests))
    prompt_tokens = drawn_lengths(kind.input_tokens, requests, streams=streams, purpose="prompt_lengths", index=index)
    output_tokens = drawn_lengths(kind.output_tokens, requests, streams=streams, purpose="output_lengths", index=index)
    return arrival_s, prompt_tokens, output_tokens
