"""The requests of a plan: the load at its rate, and by seed other draws of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.imports.traces import Trace
from scenarios.loads import LoadPoint, own_load, workload_at
from scenarios.schema import Scenario
from simulator.prefix_cache import PrefixBlocks
from simulator.rng import Streams
from simulator.workload import Workload


def planned_point(scenario: Scenario, trace: Trace | None, at: str | None) -> LoadPoint:
    """The load: `8x` of the workload's own rate, or requests per second.

    Raises
    ------
    InvalidInput
        A closed loop, no rate, or a load of 0 or less.
    """
    if scenario.workload.kind in ("closed", "sessions"):
        raise InvalidInput(
            f"a plan needs requests that arrive on their own, got workload.kind = {scenario.workload.kind!r}; "
            "give --rate or --trace"
        )
    own = own_load(scenario, trace)
    if own is None or not np.isfinite(own):
        raise InvalidInput("the load has no rate; give --rate 4, or a trace that lasts some time")
    if at is None:
        return LoadPoint(0, "rate", own)
    value = notation.finite(at.removesuffix("x"), field="--at", example="8x or 44")
    if value <= 0:
        raise InvalidInput(f"--at must be above 0, got {at}; write it like 8x (of the workload's rate) or 44 (req/s)")
    return LoadPoint(0, "rate", value * own if at.endswith("x") else value)


def planned_requests(scenario: Scenario, point: LoadPoint, *, trace: Trace | None, seed: int) -> Workload:
    """Requests of a seed. A drawn workload is drawn anew. A trace is the load: seed 0 replays it as it is, the others
    from another request on, its end joined to its beginning by the mean gap. All bursts stay as they were recorded.
    """
    if trace is None or seed == 0:
        return workload_at(scenario, point, trace=trace, seed=seed)
    recorded = workload_at(scenario, point, trace=trace, seed=0)
    begin = _beginning(scenario, len(recorded), seed)
    place = np.roll(np.arange(len(recorded)), -begin)
    gaps_s = np.diff(recorded.arrival_s, prepend=recorded.arrival_s[0] - 1.0 / point.value)[place]
    return picked(recorded, place, arrival_s=np.cumsum(gaps_s) - gaps_s[0])


def _beginning(scenario: Scenario, requests: int, seed: int) -> int:
    return int(Streams(scenario.run.seed + seed).get("beginning of trace").integers(requests))


def planned_prefixes(scenario: Scenario, trace: Trace | None, seed: int) -> PrefixBlocks:
    """Blocks of the prompts of that seed.

    Raises
    ------
    InvalidInput
        The load names no blocks.
    """
    if trace is None or trace.blocks is None or trace.block_start is None:
        raise InvalidInput(
            "prefix caches of replicas need a load that names the blocks of its prompts; give a Mooncake or "
            "Qwen-Bailian trace, or another --router"
        )
    begin = _beginning(scenario, trace.requests, seed) if seed else 0
    start = trace.block_start
    blocks = np.concatenate([trace.blocks[start[begin] :], trace.blocks[: start[begin]]])
    lengths = np.roll(np.diff(start), -begin)
    return PrefixBlocks(np.concatenate([[0], np.cumsum(lengths)]), blocks, trace.block_tokens)


def some_of(requests: Workload, every: int, first: int) -> Workload:
    """Every so-manieth request from `first` on: what one of `every` replicas gets in turn."""
    place = np.arange(first, len(requests), every)
    return picked(requests, place, arrival_s=requests.arrival_s[place])


def picked(requests: Workload, place: NDArray[np.int64], *, arrival_s: NDArray[np.float64]) -> Workload:
    """The requests at these places `(n,)`, arriving at these times `(n,)`."""
    return replace(
        requests,
        arrival_s=arrival_s,
        prompt_tokens=requests.prompt_tokens[place],
        output_tokens=requests.output_tokens[place],
        prefix_hit_tokens=requests.prefix_hit_tokens[place],
        class_id=requests.class_id[place],
    )
