"""Agents and chats: sessions whose turns wait for the answer, think, and come back with a longer context."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
import simpy
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.replica import Replica
from simulator.result import Result
from simulator.workload import Sessions, Workload, session_workload

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Requests in order of arrival, with the turn each was; turns after a refused one never arrive."""

    result: Result
    turn: IntArray


def serve_sessions(
    sessions: Sessions, *, costs: StepCostTable, limits: EngineLimits, speculation: Speculation, seed: int
) -> SessionResult:
    """Play all sessions on one replica. A turn's luck is its own, whatever the order of arrival."""
    turns = session_workload(sessions)
    return _serve(sessions, turns, costs=costs, limits=limits, speculation=speculation, seed=seed)


def simulate_sessions(
    workload: Workload, *, costs: StepCostTable, limits: EngineLimits, speculation: Speculation, seed: int
) -> Result:
    """Play a workload of sessions; the result is in the order of its turns, so that two arms compare turn by turn."""
    if workload.sessions is None:
        raise InvalidInput("the workload has no sessions; make one with session_workload, or use simulate")
    served = _serve(workload.sessions, workload, costs=costs, limits=limits, speculation=speculation, seed=seed)
    return _in_order_of_turns(served, workload)


def _serve(
    sessions: Sessions,
    turns: Workload,
    *,
    costs: StepCostTable,
    limits: EngineLimits,
    speculation: Speculation,
    seed: int,
) -> SessionResult:
    replica = Replica(turns, costs=costs, limits=limits, speculation=speculation, seed=seed)
    replica.expect_turns()
    env = simpy.Environment()
    desk = _Desk(env, replica, len(turns))
    talks = [env.process(_hold_conversation(desk, sessions, own)) for own in sessions.turns()]
    env.process(_serve_turns(desk))
    env.run(until=env.all_of(talks))
    replica.advance(float(np.nextafter(env.now, np.inf)))  # a last turn that was refused counts as arrived
    return SessionResult(replica.result(), desk.turn)


def _in_order_of_turns(served: SessionResult, workload: Workload) -> Result:
    """Turns that never arrived stand in their place, with neither arrival nor end."""
    missing = np.setdiff1d(np.arange(len(workload)), served.turn)
    turn = np.where(served.turn < 0, 0, served.turn)
    turn[served.turn < 0] = missing
    order = np.argsort(turn)
    happened = (
        "arrival_s", "admitted_s", "first_token_s", "finished_s", "emitted_tokens", "rounds", "drafted_tokens",
        "accepted_tokens", "preemptions", "refused",
    )  # fmt: skip
    given = ("prompt_tokens", "output_tokens", "class_id")
    columns = {name: getattr(served.result, name)[order] for name in happened}
    columns |= {name: getattr(workload, name) for name in given}
    for column in columns.values():
        column.flags.writeable = False
    return replace(served.result, **columns)


class _Desk:
    """Where sessions hand in their turns and hear of answers."""

    def __init__(self, env: simpy.Environment, replica: Replica, count: int) -> None:
        self.env = env
        self.replica = replica
        self.turn = np.full(count, -1, dtype=np.int64)
        self.fed = 0
        self.open: dict[int, simpy.Event] = {}
        self.turn_came = env.event()

    def hand_in(self, turn: int, prompt_tokens: int, hit_tokens: int) -> simpy.Event | None:
        """The event of the answer; None where the turn can never be served."""
        request = self.fed
        self.fed += 1
        self.turn[request] = turn
        fits = self.replica.feed(
            request, arrival_s=self.env.now, prompt_tokens=prompt_tokens, hit_tokens=hit_tokens, turn=turn
        )
        came, self.turn_came = self.turn_came, self.env.event()
        came.succeed()
        if not fits:
            return None
        self.open[request] = self.env.event()
        return self.open[request]


def _hold_conversation(desk: _Desk, sessions: Sessions, turns: range) -> Generator[simpy.Event, None, None]:
    context_tokens = 0
    for turn in turns:
        thought = desk.env.timeout(float(sessions.wait_s[turn]))
        yield thought
        prompt_tokens = context_tokens + int(sessions.new_tokens[turn])
        hit_tokens = min(context_tokens, prompt_tokens - 1) if sessions.keeps_cache else 0
        answered = desk.hand_in(turn, prompt_tokens, hit_tokens)
        if answered is None:
            return
        yield answered
        context_tokens = prompt_tokens + int(sessions.output_tokens[turn])


def _serve_turns(desk: _Desk) -> Generator[simpy.Event, None, None]:
    """Runs the replica up to the next event of a session, or to the step that finishes an answer."""
    env, replica = desk.env, desk.replica
    while True:
        horizon_s = env.peek()
        replica.advance(horizon_s)
        done = [request for request in desk.open if not np.isnan(replica.finished_s(request))]
        if done:
            caught_up = env.timeout(max(0.0, replica.now_s - env.now))
            yield caught_up
            for request in done:
                desk.open.pop(request).succeed()
        elif np.isfinite(horizon_s):
            next_event = env.timeout(max(0.0, horizon_s - env.now))
            yield next_event
        else:
            yield desk.turn_came
