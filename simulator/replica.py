"""One replica on the simulation clock: arrays in, compiled steps inside, one SimPy process around them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import simpy

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.controllers.base import Observation
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.request_table import frozen, never_fits, outcome, prepared
from simulator.result import Counts, Result, StepTrace
from simulator.scheduler import report
from simulator.state import Trace, loop_costs, new_batch, new_state
from simulator.step_loop import DONE, TRACE_FULL, advance, advance_plainly, is_plain
from simulator.workload import Workload

TRACE_ROWS = 4096
_DRAWN = ("accept_row", "luck_key", "match_key")


class Replica:
    """State of one engine instance. `advance(until_s)` is the only way time passes in it."""

    def __init__(
        self,
        workload: Workload,
        *,
        costs: StepCostTable,
        limits: EngineLimits,
        speculation: Speculation,
        seed: int,
        trace_steps: bool = False,
    ) -> None:
        self._seed = seed
        self._table = costs
        self._open_loop = workload.concurrency is None
        self._plan, self._requests = prepared(workload, costs=costs, limits=limits, speculation=speculation, seed=seed)
        self._advance = advance_plainly if is_plain(self._plan) else advance
        self._turns = self._requests._replace(
            **{name: getattr(self._requests, name).copy() for name in ("output_tokens", "class_id", *_DRAWN)}
        )
        self._limits = limits
        self._controller = speculation.controller
        self._asked = (0, 0, 0, 0.0)
        self._costs = loop_costs(costs)
        self._batch = new_batch(limits.max_sequences, len(self._costs.windows))
        self._state = new_state(limits)
        self._trace = _empty_trace(TRACE_ROWS if trace_steps else 0)

    def expect_turns(self) -> None:
        """Requests arrive when `feed` says so, in order, and a step that finishes one ends `advance`."""
        self._requests.arrival_s[:] = np.inf
        self._requests.refused[:] = False
        self._plan = self._plan._replace(pause_on_finish=True)

    def feed(self, request: int, *, arrival_s: float, prompt_tokens: int, hit_tokens: int, turn: int) -> bool:
        """The next request arrives, with the luck and the output of turn `turn`; False: it can never be served."""
        given, places = self._turns, self._requests
        places.arrival_s[request] = arrival_s
        places.prompt_tokens[request] = prompt_tokens
        places.prefix_hit_tokens[request] = hit_tokens
        for name in ("output_tokens", "class_id", "accept_row", "luck_key", "match_key"):
            getattr(places, name)[request] = getattr(given, name)[turn]
        whole_tokens = prompt_tokens + int(places.output_tokens[request])
        places.refused[request] = bool(never_fits(np.array([whole_tokens]), self._limits, self._plan)[0])
        return not places.refused[request]

    def finished_s(self, request: int) -> float:
        """When a request got its last token; NaN: not yet."""
        return float(self._requests.finished_s[request])

    @property
    def now_s(self) -> float:
        """End of the last step, or the last arrival waited for."""
        return float(self._state.now_s)

    @property
    def running(self) -> int:
        """Requests in the batch."""
        return int(self._state.running)

    @property
    def waiting(self) -> int:
        """Requests that arrived and are not in the batch."""
        arrived = int(self._state.next_arrival - self._state.refused)
        return arrived - int(self._state.finished) - self.running

    def advance(self, until_s: float) -> bool:
        """Run every step that starts before `until_s`; True when no request is left."""
        while True:
            with np.errstate(over="ignore"):  # with the JIT off the hash wraps around in numpy scalars
                reason = self._advance(
                    self._requests, self._batch, self._costs, self._plan, self._state, self._trace, until_s
                )
            if reason != TRACE_FULL:
                return reason == DONE
            self._trace = _grown(self._trace)

    def serve_requests(self, env: simpy.Environment, until_s: float) -> Generator[simpy.Event, None, None]:
        """SimPy process: runs up to the next event of anybody else, and lets the clock catch up."""
        while True:
            horizon_s = min(env.peek(), until_s)
            finished = self.advance(horizon_s)
            stopping = finished or horizon_s >= until_s
            if stopping and not finished:
                self._idle_until(until_s)
            caught_up = env.timeout(max(0.0, (self.now_s if stopping else horizon_s) - env.now))
            yield caught_up
            if stopping:
                return

    def ask_controller(self, env: simpy.Environment) -> Generator[simpy.Event, None, None]:
        """SimPy process: the controller sees what happened since it was last asked and sets the policy from now on."""
        controller = self._controller
        if controller is None:
            return
        if not controller.interval_s > 0:
            raise InvalidInput(f"interval_s of a controller must be above 0, got {controller.interval_s}; e.g. 1.0")
        while True:
            next_question = env.timeout(controller.interval_s)
            yield next_question
            table = controller.decide(self._observe()).by_batch(self._plan.max_sequences)
            largest = len(self._plan.verify_rows) - 1
            if table.min() < 0 or table.max() > largest:
                raise InvalidInput(
                    f"a controller's K must be in 0..{largest}, the largest K of the policy it started with, got "
                    f"{int(table.min())}..{int(table.max())}; start with a larger K"
                )
            self._plan.draft_by_batch[:] = table

    def _observe(self) -> Observation:
        requests, state = self._requests, self._state
        for place in range(self.running):
            report(requests, self._batch, place)
        totals = (
            int(requests.rounds.sum()),
            int(requests.accepted_tokens.sum()),
            int(requests.emitted_tokens.sum()),
            float(state.busy_s),
        )
        rounds, accepted, emitted, busy_s = (now - then for now, then in zip(totals, self._asked, strict=True))
        self._asked = totals
        return Observation(
            now_s=float(state.now_s),
            running=self.running,
            waiting=self.waiting,
            draft_tokens=int(self._plan.draft_by_batch[self.running]),
            rounds=int(rounds),
            acceptance_length=1.0 + accepted / rounds if rounds else 1.0,
            emitted_tokens=int(emitted),
            busy_s=busy_s,
        )

    def _idle_until(self, until_s: float) -> None:
        """Let the clock reach a stop that comes before the next arrival; arrivals at the stop still count."""
        self._state.now_s = max(self.now_s, until_s)
        self.advance(until_s)

    def result(self) -> Result:
        """Everything so far, as immutable arrays."""
        requests, state = self._requests, self._state
        for place in range(self.running):
            report(requests, self._batch, place)
        counts = Counts(
            arrived=int(state.next_arrival),
            finished=int(state.finished),
            running=self.running,
            waiting=self.waiting,
            refused=int(state.refused),
        )
        found = outcome(requests, state, counts, table=self._table, seed=self._seed, open_loop=self._open_loop)
        return replace(found, steps=_step_trace(self._trace, int(state.trace_rows)))


def simulate(
    workload: Workload,
    *,
    costs: StepCostTable,
    limits: EngineLimits,
    speculation: Speculation,
    seed: int,
    until_s: float = float("inf"),
    trace_steps: bool = False,
) -> Result:
    """Serve a workload on one replica until every request is finished, or no step starts before `until_s`.

    The same arguments give the same result, bit for bit; two calls with one seed share every request's luck.
    """
    replica = Replica(workload, costs=costs, limits=limits, speculation=speculation, seed=seed, trace_steps=trace_steps)
    env = simpy.Environment()
    served = env.process(replica.serve_requests(env, until_s))
    if speculation.controller is not None:
        env.process(replica.ask_controller(env))
    env.run(until=served)
    return replica.result()


def _empty_trace(rows: int) -> Trace:
    return Trace(times=np.zeros((rows, 4)), counts=np.zeros((rows, 6), dtype=np.int64))


def _grown(trace: Trace) -> Trace:
    return Trace(
        times=np.concatenate([trace.times, np.zeros_like(trace.times)]),
        counts=np.concatenate([trace.counts, np.zeros_like(trace.counts)]),
    )


def _step_trace(trace: Trace, rows: int) -> StepTrace | None:
    if not len(trace.times):
        return None
    times = [frozen(column) for column in trace.times[:rows].T]
    counts = [frozen(column) for column in trace.counts[:rows].T]
    return StepTrace(*times, *counts)
