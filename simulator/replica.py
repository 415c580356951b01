"""One replica on the simulation clock: arrays in, compiled steps inside, one SimPy process around them."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import simpy
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.controllers.base import Observation
from simulator.limits import EngineLimits
from simulator.plan import Speculation, step_plan
from simulator.result import Counts, Result, StepTrace, Totals
from simulator.rng import luck_keys
from simulator.scheduler import report
from simulator.state import Plan, Requests, Trace, loop_costs, new_batch, new_state
from simulator.step_loop import DONE, TRACE_FULL, advance, advance_plainly, is_plain
from simulator.workload import Workload

TRACE_ROWS = 4096
_DRAWN = ("accept_row", "luck_key", "match_key")

IntArray = NDArray[np.int64]


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
        self._plan, chances = step_plan(workload, costs=costs, limits=limits, speculation=speculation)
        self._advance = advance_plainly if is_plain(self._plan) else advance
        accept_row = workload.class_id * 0 if chances is None else chances.request_rows(workload.class_id, seed)
        self._requests = _requests(workload, limits, self._plan, seed)._replace(accept_row=accept_row)
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
        places.refused[request] = bool(_never_fits(np.array([whole_tokens]), self._limits, self._plan)[0])
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
        arrived = int(state.next_arrival)
        columns = {
            name: _frozen(getattr(requests, name))
            for name in (
                "admitted_s", "first_token_s", "finished_s", "prompt_tokens", "output_tokens", "emitted_tokens",
                "rounds", "drafted_tokens", "accepted_tokens", "preemptions", "class_id", "refused",
            )
        }  # fmt: skip
        arrival_s = np.where(np.isfinite(requests.arrival_s), requests.arrival_s, np.nan)
        return Result(
            arrival_s=_frozen(arrival_s),
            **columns,
            counts=Counts(
                arrived=arrived,
                finished=int(state.finished),
                running=self.running,
                waiting=self.waiting,
                refused=int(state.refused),
            ),
            totals=_totals(state, self._table),
            end_s=float(state.now_s),
            open_loop=self._open_loop,
            seed=self._seed,
            label=self._table.label,
            steps=_step_trace(self._trace, int(state.trace_rows)),
        )


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


def _never_fits(whole_tokens: IntArray, limits: EngineLimits, plan: Plan) -> NDArray[np.bool_]:
    """Requests that no step could ever hold, by prompt and output together."""
    largest = len(plan.verify_rows) - 1
    refused = whole_tokens + limits.lookahead_tokens + largest > limits.kv_blocks * limits.block_tokens
    if limits.max_context_tokens:
        refused |= whole_tokens > limits.max_context_tokens
    if not limits.chunked_prefill:
        refused |= whole_tokens > limits.max_batched_tokens
    return refused


def _requests(workload: Workload, limits: EngineLimits, plan: Plan, seed: int) -> Requests:
    count = len(workload)
    refused = _never_fits(workload.prompt_tokens + workload.output_tokens, limits, plan)
    arrival_s = workload.arrival_s.copy()
    if workload.concurrency is not None:
        arrival_s[:] = np.inf
        arrival_s[: workload.concurrency] = 0.0
    return Requests(
        arrival_s=arrival_s,
        prompt_tokens=workload.prompt_tokens.copy(),
        output_tokens=workload.output_tokens.copy(),
        prefix_hit_tokens=workload.prefix_hit_tokens.copy(),
        class_id=workload.class_id.copy(),
        accept_row=workload.class_id.copy(),
        luck_key=luck_keys(seed, "acceptance", count),
        match_key=luck_keys(seed, "proposal", count),
        admitted_s=np.full(count, np.nan),
        first_token_s=np.full(count, np.nan),
        finished_s=np.full(count, np.nan),
        emitted_tokens=np.zeros(count, dtype=np.int64),
        rounds=np.zeros(count, dtype=np.int64),
        drafted_tokens=np.zeros(count, dtype=np.int64),
        accepted_tokens=np.zeros(count, dtype=np.int64),
        preemptions=np.zeros(count, dtype=np.int64),
        refused=refused,
        preempted_stack=np.zeros(limits.max_sequences + 1, dtype=np.int64),
    )


def _totals(state: np.record, table: StepCostTable) -> Totals:
    return Totals(
        steps=int(state.steps),
        step_tokens=int(state.step_tokens),
        busy_s=float(state.busy_s),
        verify_s=float(state.verify_s),
        draft_s=float(state.draft_s),
        host_s=float(state.host_s),
        system_request_s=float(state.system_request_s),
        running_request_s=float(state.running_request_s),
        hbm_bytes=float(state.hbm_bytes),
        flops=float(state.flops),
        peak_hbm_bytes_per_s=table.peak_hbm_bytes_per_s,
        peak_flops_per_s=table.peak_flops_per_s,
    )


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
    times = [_frozen(column) for column in trace.times[:rows].T]
    counts = [_frozen(column) for column in trace.counts[:rows].T]
    return StepTrace(*times, *counts)


def _frozen(values: np.ndarray) -> np.ndarray:
    copy = np.array(values)
    copy.flags.writeable = False
    return copy
