"""Array state of a cluster: that of `simulator.state` with one row per replica, and what a router sees of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.limits import EngineLimits
from simulator.prefix_cache import PrefixCaches
from simulator.state import STATE_DTYPE, Batch, Plan, Requests, new_batch

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

OFF, STARTING, SERVING, DRAINING = 0, 1, 2, 3
"""`mode` of a replica: not paid; paid and loading; takes requests; paid until its last request leaves."""

FIRST_PLACES = 1024
"""Requests a replica holds at once before its arrays grow; those that left make room."""

NOBODY = 1 << 62

PLACE_DTYPE = np.dtype(
    [
        ("mode", "i8"),
        ("fed", "i8"),  # requests written into its arrays
        ("outstanding", "i8"),  # routed to it and not finished at the time of the last look
        ("finishing", "i8"),  # finished by the last step, which ends after the last look
        ("next_finish_s", "f8"),  # nothing finishes before: no need to look
        ("least_output", "i8"),  # of the requests that wait
    ],
    align=True,
)

DESK_DTYPE = np.dtype(
    [
        ("next_request", "i8"),  # first that is not routed
        ("last_replica", "i8"),
        ("full_replica", "i8"),  # whose arrays must grow
    ],
    align=True,
)


class Cluster(NamedTuple):
    """All replicas, `n` rows each.

    `table`: every request `(requests,)`, given and outcome; `replica`: where it went, -1 is nowhere yet. `held`:
    columns `(n, places)` of the requests a replica has, `request` their index in `table`. `batches`, `states`: as a
    single replica has them. `places`: `PLACE_DTYPE`. `averages`, `indices`, `rounds`: `(n, slots)`, what a closed-loop
    controller of each replica remembers.
    """

    table: Requests
    replica: IntArray
    held: Requests
    request: IntArray
    batches: Batch
    states: NDArray[np.void]
    places: NDArray[np.void]
    desk: NDArray[np.void]
    moved: IntArray
    averages: FloatArray
    indices: IntArray
    rounds: IntArray
    caches: PrefixCaches


class Rule(NamedTuple):
    """A built-in router as the loop reads it, and the bounds it needs to look at a replica only when it must."""

    kind: int
    match_fraction: float
    imbalance_requests: int
    imbalance_ratio: float
    least_step_s: float
    tokens_per_step: int


def new_cluster(
    table: Requests, plan: Plan, limits: EngineLimits, *, replicas: int, windows: int, caches: PrefixCaches
) -> Cluster:
    """Replicas that are off and empty; `windows` of the cost table."""
    one = new_batch(limits.max_sequences, windows)
    batches: list[Any] = [np.zeros((replicas, *column.shape), dtype=column.dtype) for column in one]
    states = np.zeros(replicas, dtype=STATE_DTYPE).view(np.recarray)
    states["free_blocks"] = limits.kv_blocks
    states["draft_tokens"] = -1
    places = np.zeros(replicas, dtype=PLACE_DTYPE).view(np.recarray)
    places["next_finish_s"] = np.inf
    places["least_output"] = NOBODY
    desk = np.zeros(1, dtype=DESK_DTYPE).view(np.recarray)
    desk["last_replica"] = replicas - 1
    return Cluster(
        table=table,
        replica=np.full(len(table.arrival_s), -1, dtype=np.int64),
        held=_held(table, limits, replicas, FIRST_PLACES),
        request=np.zeros((replicas, FIRST_PLACES), dtype=np.int64),
        batches=Batch(*batches),
        states=states,
        places=places,
        desk=desk,
        moved=np.zeros(FIRST_PLACES, dtype=np.int64),
        averages=np.repeat(plan.slot_average[None], replicas, axis=0),
        indices=np.repeat(plan.slot_index[None], replicas, axis=0),
        rounds=np.repeat(plan.slot_rounds[None], replicas, axis=0),
        caches=caches,
    )


def with_more_places(cluster: Cluster) -> Cluster:
    """The same cluster with twice the room for requests of each replica."""
    replicas, places = cluster.request.shape
    room = np.zeros((replicas, places), dtype=np.int64)
    columns = {
        name: column
        if name == "preempted_stack"
        else np.concatenate([column, np.full_like(column, np.inf if name == "arrival_s" else 0)], axis=1)
        for name, column in cluster.held._asdict().items()
    }
    return cluster._replace(
        held=Requests(**columns),
        request=np.concatenate([cluster.request, room], axis=1),
        moved=np.zeros(2 * places, dtype=np.int64),
    )


def _held(table: Requests, limits: EngineLimits, replicas: int, places: int) -> Requests:
    columns: dict[str, Any] = {
        name: np.zeros((replicas, places), dtype=column.dtype) for name, column in table._asdict().items()
    }
    columns["arrival_s"][:] = np.inf
    columns["preempted_stack"] = np.zeros((replicas, limits.max_sequences + 1), dtype=np.int64)
    return Requests(**columns)
