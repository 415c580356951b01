"""Replicas behind a router on one clock: compiled where the rules are built in, SimPy where somebody decides."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
import simpy
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.autoscaler import ClusterSeen, Scaler
from simulator.cluster_loop import ALL_ROUTED, CATCH_UP, FULL, HAND_IN, OWN, ROUTE, run, run_plainly, settle
from simulator.cluster_state import (
    DRAINING,
    OFF,
    SERVING,
    STARTING,
    Cluster,
    Rule,
    new_cluster,
    with_more_places,
)
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.prefix_cache import PrefixBlocks, forget, matching_tokens, new_caches
from simulator.request_table import frozen, outcome, prepared
from simulator.result import Counts, Result
from simulator.routers.base import BuiltInRouter, ReplicaSeen, Routed, Router, RouteRule
from simulator.routers.least_outstanding import LeastOutstanding
from simulator.state import STATE_DTYPE, Trace, loop_costs
from simulator.step_loop import is_plain
from simulator.workload import Workload

SURELY = 1.0 - 1e-9
"""A bound from below stays one after rounding."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What every replica runs."""

    costs: StepCostTable
    limits: EngineLimits
    speculation: Speculation


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How many replicas, who sends them requests, and who starts and stops them.

    With an autoscaler, `replicas` are there at the start. With `prefixes` every replica has a prefix cache of its own
    as large as its KV cache, and a request hits what its replica was sent before; the hits of the workload are not
    used. A block counts as cached from the moment a prompt with it is routed.
    """

    replicas: int
    router: Router = field(default_factory=LeastOutstanding)
    autoscaler: Scaler | None = None
    prefixes: PrefixBlocks | None = None

    @property
    def most(self) -> int:
        """Replicas there is ever room for; one that empties out may still be paid while its successor starts."""
        return self.replicas if self.autoscaler is None else 2 * max(self.replicas, self.autoscaler.max_replicas)


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """Outcome by request, and of the cluster.

    `result`: as of one replica; its totals are sums over replicas, so `busy_fraction` counts replicas, not shares.
    `replica` `(n,)`: where each request went, -1 is nowhere. `paid_replica_s`: integral of the replicas that were
    starting, serving or emptying. `changes` `(m, 3)`: time, replicas serving, replicas paid, from then on.
    """

    result: Result
    replica: NDArray[np.int64]
    paid_replica_s: float
    changes: NDArray[np.float64]

    @property
    def mean_replicas(self) -> float:
        """Paid replicas, a mean over time."""
        return self.paid_replica_s / self.result.end_s if self.result.end_s > 0 else float("nan")

    @property
    def peak_replicas(self) -> int:
        """Most replicas paid at once."""
        return int(self.changes[:, 2].max())


def serve_cluster(
    workload: Workload, shape: ClusterShape, *, engine: Engine, seed: int, until_s: float = float("inf")
) -> ClusterResult:
    """Serve an open workload until every request is finished, or no step starts before `until_s`.

    The same arguments give the same result, bit for bit. A request's luck is its own, whatever replica it goes to.

    Raises
    ------
    InvalidInput
        A closed loop, a controller that is asked from outside the loop, or a number of replicas that cannot be.
    """
    replicas = _Replicas(workload, shape, engine=engine, seed=seed)
    env = simpy.Environment()
    served = env.process(replicas.serve_requests(env, until_s))
    if shape.autoscaler is not None:
        env.process(replicas.keep_target(env, shape.autoscaler))
    env.run(until=served)
    return replicas.result()


class _Replicas:
    """All replicas of a run; `advance(until_s)` lets requests arrive and time pass."""

    def __init__(self, workload: Workload, shape: ClusterShape, *, engine: Engine, seed: int) -> None:
        _check(workload, shape, engine)
        costs, limits = engine.costs, engine.limits
        plan, table = prepared(workload, costs=costs, limits=limits, speculation=engine.speculation, seed=seed)
        self._plan = plan._replace(pause_on_finish=True)
        self._costs = loop_costs(costs)
        self._run = run_plainly if is_plain(plan) else run
        self._own = None if isinstance(shape.router, BuiltInRouter) else shape.router
        rule = shape.router.rule() if isinstance(shape.router, BuiltInRouter) else RouteRule(OWN)
        self._rule = Rule(
            kind=rule.kind,
            match_fraction=rule.match_fraction,
            imbalance_requests=rule.imbalance_requests,
            imbalance_ratio=rule.imbalance_ratio,
            least_step_s=SURELY * float(costs.step_host_s + costs.target.trunk_s[1:].min()),
            tokens_per_step=len(plan.verify_rows),
        )
        capacity_tokens = limits.kv_blocks * limits.block_tokens
        caches = new_caches(shape.prefixes, replicas=shape.most, capacity_tokens=capacity_tokens)
        windows = len(self._costs.windows)
        self.cluster: Cluster = new_cluster(table, plan, limits, replicas=shape.most, windows=windows, caches=caches)
        self.cluster.places["mode"][: shape.replicas] = SERVING
        self._trace = Trace(times=np.zeros((0, 4)), counts=np.zeros((0, 6), dtype=np.int64))
        self._table, self._seed = costs, seed
        self._changes: list[tuple[float, int, int]] = [(0.0, shape.replicas, shape.replicas)]
        self._started_s = np.zeros(shape.most)
        self._emptying_since_s = np.zeros(shape.most)
        self._stop_s = float("inf")
        self._paid_s = 0.0

    def advance(self, until_s: float) -> bool:
        """Route what arrives before `until_s`; True when nothing is left to route."""
        while True:
            reason = self._call(ROUTE, until_s=until_s)
            if reason != FULL:
                return reason == ALL_ROUTED
            self.cluster = with_more_places(self.cluster)

    def catch_up(self, until_s: float) -> int:
        """Every replica up to `until_s`; returns the requests that are in one of them then."""
        self._call(CATCH_UP, until_s=until_s)
        return int(self.cluster.places["outstanding"].sum())

    def _call(self, what: int, *, until_s: float, given: int = -1) -> int:
        with np.errstate(over="ignore"):  # with the JIT off the hash wraps around in numpy scalars
            return self._run(self.cluster, self._costs, self._plan, self._rule, self._trace, what, given, until_s)

    def serve_requests(self, env: simpy.Environment, until_s: float) -> Generator[simpy.Event, None, None]:
        """SimPy process: runs up to the next event of anybody else, and lets the clock catch up."""
        while True:
            horizon_s = min(env.peek(), until_s)
            if self._own is not None:
                horizon_s = min(horizon_s, self._next_arrival_s())
            routed = self.advance(horizon_s) if self._own is None else self._nothing_left()
            if (routed and self.catch_up(horizon_s) == 0) or horizon_s >= until_s:
                break
            caught_up = env.timeout(max(0.0, horizon_s - env.now))
            yield caught_up
            if self._own is not None and self._next_arrival_s() <= env.now:
                self._ask_router(env.now)
        self.catch_up(until_s)
        self._stop_s = until_s

    def _nothing_left(self) -> bool:
        return int(self.cluster.desk[0].next_request) == len(self.cluster.table.arrival_s)

    def _next_arrival_s(self) -> float:
        request = int(self.cluster.desk[0].next_request)
        return float("inf") if self._nothing_left() else float(self.cluster.table.arrival_s[request])

    def _ask_router(self, now_s: float) -> None:
        """The user's router decides about the next request."""
        assert self._own is not None
        self.catch_up(now_s)
        cluster, request = self.cluster, int(self.cluster.desk[0].next_request)
        prompt_tokens = int(cluster.table.prompt_tokens[request])
        seen = [
            ReplicaSeen(
                replica=row,
                outstanding=int(cluster.places[row].outstanding),
                running=int(cluster.states[row].running),
                cached_tokens=self._cached_tokens(row, request, prompt_tokens),
            )
            for row in np.flatnonzero(cluster.places["mode"] == SERVING).tolist()
        ]
        asked = Routed(request, now_s, prompt_tokens, int(cluster.table.class_id[request]))
        chosen = self._own.choose(asked, seen)
        shown = [each.replica for each in seen]
        if chosen not in shown:
            raise InvalidInput(
                f"a router must choose one of the replicas it is shown, {shown}, got {chosen}; return `replica` of one"
            )
        while self._call(HAND_IN, until_s=now_s, given=chosen) == FULL:
            self.cluster = with_more_places(self.cluster)

    def _cached_tokens(self, row: int, request: int, prompt_tokens: int) -> int:
        caches = self.cluster.caches
        return int(matching_tokens(caches, row, request, prompt_tokens)) if len(caches.start) else 0

    def keep_target(self, env: simpy.Environment, scaler: Scaler) -> Generator[simpy.Event, None, None]:
        """SimPy process: asks the autoscaler at its interval; starts replicas and lets others empty out."""
        scaling = scaler.begin()
        while True:
            next_decision = env.timeout(scaler.interval_s)
            yield next_decision
            outstanding = self.catch_up(env.now)
            modes = self.cluster.places["mode"]
            self._switch_off()
            serving, starting = int(np.sum(modes == SERVING)), int(np.sum(modes == STARTING))
            wanted = scaling.wanted(ClusterSeen(env.now, outstanding, serving, starting))
            wanted = min(max(wanted, scaler.min_replicas), scaler.max_replicas)
            for _ in range(wanted - serving - starting):
                self._start(env, scaler.start_delay_s)
            for _ in range(serving + starting - wanted):
                self._stop(env.now)
            self._note(env.now)

    def _start(self, env: simpy.Environment, delay_s: float) -> None:
        """A replica that is off starts, with an empty cache; none is off where as many still empty out."""
        free = np.flatnonzero(self.cluster.places["mode"] == OFF)
        if not len(free):
            return
        row = int(free[0])
        self.cluster.places["mode"][row] = STARTING
        self._started_s[row] = env.now
        if len(self.cluster.caches.start):
            forget(self.cluster.caches, row)
        env.process(self._become_ready(env, row, delay_s))

    def _become_ready(self, env: simpy.Environment, row: int, delay_s: float) -> Generator[simpy.Event, None, None]:
        """SimPy process: the replica takes requests, unless it was called off meanwhile."""
        began_s = self._started_s[row]
        loaded = env.timeout(delay_s)
        yield loaded
        if self.cluster.places["mode"][row] == STARTING and self._started_s[row] == began_s:
            self.cluster.places["mode"][row] = SERVING
            self._note(env.now)

    def _stop(self, now_s: float) -> None:
        """The replica that started last and does not serve yet, else the one with the fewest requests."""
        modes, outstanding = self.cluster.places["mode"], self.cluster.places["outstanding"]
        starting = np.flatnonzero(modes == STARTING)
        if len(starting):
            self._end_paying(int(starting[np.argmax(self._started_s[starting])]), now_s)
            return
        serving = np.flatnonzero(modes == SERVING)
        row = int(serving[np.argmin(outstanding[serving])])
        modes[row] = DRAINING
        self._emptying_since_s[row] = now_s
        if outstanding[row] == 0:
            self._end_paying(row, now_s)

    def _switch_off(self) -> None:
        """Replicas that have emptied out are paid until their last request left."""
        places = self.cluster.places
        for row in np.flatnonzero((places["mode"] == DRAINING) & (places["outstanding"] == 0)).tolist():
            self._end_paying(row, max(self._emptying_since_s[row], float(self.cluster.states[row].now_s)))

    def _end_paying(self, row: int, now_s: float) -> None:
        self.cluster.places["mode"][row] = OFF
        self._paid_s += now_s - self._started_s[row]

    def _note(self, now_s: float) -> None:
        modes = self.cluster.places["mode"]
        counts = int(np.sum(modes == SERVING)), int(np.sum(modes != OFF))
        if counts != self._changes[-1][1:]:
            self._changes.append((now_s, *counts))

    def result(self) -> ClusterResult:
        """Everything so far, as immutable arrays."""
        cluster = self.cluster
        settle(cluster)
        states, table = cluster.states, cluster.table
        arrived = int(cluster.desk[0].next_request)
        refused = int(table.refused[:arrived].sum())
        finished = int(np.count_nonzero(~np.isnan(table.finished_s)))
        running = int(states["running"].sum())
        counts = Counts(arrived, finished, running, arrived - refused - finished - running, refused)
        total = np.zeros(1, dtype=STATE_DTYPE).view(np.recarray)[0]
        for name in STATE_DTYPE.names or ():
            total[name] = states[name].sum()
        total.now_s = float(states["now_s"].max())
        if finished + refused < len(table.arrival_s) and np.isfinite(self._stop_s):
            total.now_s = max(total.now_s, self._stop_s)
        self._switch_off()
        still_paid = cluster.places["mode"] != OFF
        paid_s = self._paid_s + float(np.sum(np.maximum(total.now_s - self._started_s[still_paid], 0.0)))
        return ClusterResult(
            result=outcome(table, total, counts, table=self._table, seed=self._seed, open_loop=True),
            replica=frozen(cluster.replica),
            paid_replica_s=paid_s,
            changes=frozen(np.array(self._changes, dtype=np.float64)),
        )


def _check(workload: Workload, shape: ClusterShape, engine: Engine) -> None:
    if workload.concurrency is not None:
        raise InvalidInput(
            f"a cluster serves requests that arrive on their own, got a closed loop of {workload.concurrency}; give "
            "arrival times or a rate"
        )
    if shape.replicas < 1:
        raise InvalidInput(f"replicas must be at least 1, got {shape.replicas}; give the number of engines")
    if engine.speculation.controller is not None:
        raise InvalidInput(
            "a controller that is asked from outside decides for one replica and cannot be shared; use a policy that "
            "decides inside the loop (off above a batch, throughput-optimal, closed loop)"
        )
    if shape.prefixes is not None and len(shape.prefixes.start) != len(workload) + 1:
        raise InvalidInput(
            f"prefixes must be of the {len(workload)} requests of the workload, got "
            f"{len(shape.prefixes.start) - 1}; read both from one trace"
        )
    scaler = shape.autoscaler
    if scaler is not None and not scaler.min_replicas <= shape.replicas <= scaler.max_replicas:
        raise InvalidInput(
            f"replicas at the start must be in {scaler.min_replicas}..{scaler.max_replicas} of the autoscaler, got "
            f"{shape.replicas}; start with a number it allows"
        )
