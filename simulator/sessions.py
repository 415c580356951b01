"""Agents and chats: sessions whose turns wait for the answer, think, and come back with a longer context."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import simpy
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.replica import Replica
from simulator.result import Result
from simulator.workload import Workload

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Turns `(n,)`, those of a session together and in order.

    Attributes
    ----------
    session_id
        Non-decreasing.
    wait_s
        Before the turn: of a session's first from time 0, of the others from the end of the answer before (thinking, or
        a tool that runs).
    new_tokens, output_tokens
        What the turn adds to the prompt, and its answer. The prompt is everything before and the new tokens.
    keeps_cache
        Everything before the new tokens is found in the prefix cache; else it is computed again.
    """

    session_id: IntArray
    wait_s: FloatArray
    new_tokens: IntArray
    output_tokens: IntArray
    keeps_cache: bool = True

    def __post_init__(self) -> None:
        """Refuse turns that cannot be played."""
        lengths = {len(self.session_id), len(self.wait_s), len(self.new_tokens), len(self.output_tokens)}
        if len(lengths) != 1 or not len(self.session_id):
            raise InvalidInput(f"turns of sessions need arrays of one length above 0, got {sorted(lengths)}")
        if np.any(np.diff(self.session_id) < 0):
            raise InvalidInput("session_id must not fall: list the turns of a session together and in order")
        if not np.all(np.isfinite(self.wait_s) & (self.wait_s >= 0)):
            raise InvalidInput("wait_s must be finite times of 0 or more; give the seconds before every turn")

    def turns(self) -> list[range]:
        """Turns of every session."""
        starts = [0, *(np.flatnonzero(np.diff(self.session_id)) + 1).tolist(), len(self.session_id)]
        return [range(start, end) for start, end in pairwise(starts)]


@dataclass(frozen=True, slots=True)
class SessionResult:
    """Requests in order of arrival, with the turn each was; turns after a refused one never arrive."""

    result: Result
    turn: IntArray


def serve_sessions(
    sessions: Sessions, *, costs: StepCostTable, limits: EngineLimits, speculation: Speculation, seed: int
) -> SessionResult:
    """Play all sessions on one replica. A turn's luck is its own, whatever the order of arrival."""
    count = len(sessions.session_id)
    placeholder = Workload(
        arrival_s=np.zeros(count),
        prompt_tokens=np.ones(count, dtype=np.int64),
        output_tokens=np.array(sessions.output_tokens),
        prefix_hit_tokens=np.zeros(count, dtype=np.int64),
        class_id=np.zeros(count, dtype=np.int64),
    )
    replica = Replica(placeholder, costs=costs, limits=limits, speculation=speculation, seed=seed)
    replica.expect_turns()
    env = simpy.Environment()
    desk = _Desk(env, replica, count)
    talks = [env.process(_hold_conversation(desk, sessions, turns)) for turns in sessions.turns()]
    env.process(_serve_turns(desk))
    env.run(until=env.all_of(talks))
    replica.advance(float(np.nextafter(env.now, np.inf)))  # a last turn that was refused counts as arrived
    return SessionResult(replica.result(), desk.turn)


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
