"""The speed-up of one setup: a steady batch from the cost table, a load by simulating both arms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from roofline.cost import DraftWork, RoundCost, round_cost
from roofline.errors import InvalidInput
from roofline.speculation import alpha_from_length
from scenarios.build import Arm, Service, build_service
from scenarios.files import scenario_from_dict
from scenarios.validate.row_scenario import Setup
from scenarios.validate.rows import Terms
from simulator.acceptance import PerPositionAcceptance
from simulator.proposers.base import Proposer, TreeProposer
from simulator.replica import Speculation, simulate
from simulator.result import Result
from simulator.rng import Streams
from simulator.workload import Workload, make_workload, poisson_arrivals

SERVICES_KEPT = 12
REQUESTS_PER_SLOT = 4
LEAST_REQUESTS = 8
OPEN_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Measured:
    """S of a setup with the terms of its round."""

    speedup: float
    terms: Terms
    label: str


@dataclass(frozen=True, slots=True)
class _Rounds:
    """A proposer whose rounds are priced as the row's and accepted as its AL says: a tree's AL is a fact of the row, so
    its nodes cost what they cost and no tree is grown again.
    """

    priced: Proposer

    @property
    def work(self) -> DraftWork:
        return self.priced.work

    @property
    def proposal_fraction(self) -> float:
        return self.priced.proposal_fraction

    def lookahead_tokens(self, draft_tokens: int) -> int:
        return self.priced.lookahead_tokens(draft_tokens)


def measured(setup: Setup, *, simulated: bool = True) -> Measured:
    """The speed-up of a setup. `simulated` False prices a load as a steady batch of its size (for draws around a
    simulated middle).

    Raises
    ------
    SpecdecError
        Unknown name, a shape that is not computed, a model that does not fit.
    """
    service = service_of(setup.key)
    assert service.on is not None
    batch = _batch(setup, service)
    cost_on, plain_s = _costs(setup, service, batch)
    steady = setup.length * plain_s / _round_s(service, plain_s, cost_on)
    if setup.load == "batch" or not simulated:
        speedup = steady if setup.measure == "decode" else _with_prefill(setup, service, batch, plain_s, cost_on)
    else:
        speedup = _simulated(setup, service)
    table = service.off.costs
    terms = Terms(
        plain_s=plain_s,
        verify=cost_on.verify_s / plain_s,
        draft=cost_on.draft_s / plain_s,
        host=cost_on.host_s / plain_s,
        acceptance_length=setup.length,
        queue=speedup / steady,
        plain_host=(table.step_host_s + table.host_per_sequence_s * batch) / plain_s,
    )
    return Measured(speedup, terms, service.deployment.calibration.label)


@lru_cache(maxsize=SERVICES_KEPT)
def service_of(key: str) -> Service:
    """Cost tables and limits of a deployment, kept while its rows are priced."""
    import json

    table: dict[str, Any] = {
        "schema_version": 1,
        **json.loads(key),
        "workload": {"kind": "closed", "concurrency": 1, "input_tokens": 256, "output_tokens": 256},
        "run": {"max_draft_tokens": 1},
    }
    try:
        return build_service(scenario_from_dict(table, origin="row"))
    except InvalidInput as error:
        if not str(error).startswith("hardware.draft_tensor_parallel must divide"):
            raise
        table["hardware"] = {**table["hardware"], "draft_tensor_parallel": 1}  # as engines then do
        return build_service(scenario_from_dict(table, origin="row"))


def _batch(setup: Setup, service: Service) -> int:
    """Sequences decoding together: the row's own, or what its rate keeps busy (a first guess of 1)."""
    assert service.on is not None
    wanted = round(setup.load_value) if setup.load != "rate" else _busy(setup, service)
    most = min(service.on.costs.max_sequences, service.on.costs.max_tokens // (service.draft_tokens + 1))
    return max(1, min(wanted, most, service.off.costs.max_sequences))


def _busy(setup: Setup, service: Service) -> int:
    """Requests in flight by Little's law, with the plain step of the batch it gives (fixed point, a few rounds)."""
    batch = 1
    for _ in range(8):
        step_s = round_cost(service.off.costs, batch=batch, context_tokens=_context(setup), draft_tokens=0).plain_s
        batch = max(1, min(service.off.costs.max_sequences, round(setup.load_value * setup.output_tokens * step_s)))
    return batch


def _context(setup: Setup) -> int:
    return setup.input_tokens + setup.output_tokens // 2


def _costs(setup: Setup, service: Service, batch: int) -> tuple[RoundCost, float]:
    assert service.on is not None
    context = _context(setup)
    on = round_cost(service.on.costs, batch=batch, context_tokens=context, draft_tokens=service.draft_tokens)
    return on, round_cost(service.off.costs, batch=batch, context_tokens=context, draft_tokens=0).plain_s


def _round_s(service: Service, plain_s: float, cost_on: RoundCost) -> float:
    """Mean seconds of a round: those in which nothing was proposed are plain steps."""
    assert service.on is not None
    share = service.on.proposer.proposal_fraction
    return share * cost_on.round_s + (1.0 - share) * plain_s


def _with_prefill(setup: Setup, service: Service, batch: int, plain_s: float, cost_on: RoundCost) -> float:
    """Wall time of a batch of whole requests, plain over speculative."""
    assert service.on is not None
    answer = setup.output_tokens - 1
    off_s = _prefill_s(setup, speculating=False, batch=batch) + answer * plain_s
    rounds = answer / setup.length
    drafting_s = rounds * _round_s(service, plain_s, cost_on)
    on_s = _prefill_s(setup, speculating=True, batch=batch) + drafting_s
    return off_s / on_s


def _prefill_s(setup: Setup, *, speculating: bool, batch: int) -> float:
    """Until every request of a batch that starts together has its first token."""
    return _first_tokens_s(setup.key, speculating, batch, setup.input_tokens)


@lru_cache(maxsize=4096)
def _first_tokens_s(key: str, speculating: bool, batch: int, input_tokens: int) -> float:
    service = service_of(key)
    arm = service.on if speculating and service.on is not None else service.off
    requests = make_workload(
        np.zeros(batch), prompt_tokens=np.full(batch, input_tokens), output_tokens=np.ones(batch, dtype=np.int64)
    )
    nothing = PerPositionAcceptance((0.0,) * service.draft_tokens)
    return _run(arm, requests, acceptance=(nothing,) if arm is service.on else ()).end_s


def _simulated(setup: Setup, service: Service) -> float:
    assert service.on is not None
    requests = _requests(setup)
    off = _run(service.off, requests, acceptance=())
    on = _run(service.on, requests, acceptance=(positions_of(setup, service.draft_tokens),))
    reading = _READINGS[setup.measure]
    slots = requests.concurrency or 0
    middle = slice(slots, len(requests) - slots) if slots else slice(None)
    return reading(on, middle) / reading(off, middle)


def _tokens_per_s(result: Result, middle: slice) -> float:
    """Tokens per second of request time: the steady rate by Little's law, without the ends of the run."""
    return float(result.output_tokens[middle].sum() / result.latency_s[middle].sum())


def _decode_tokens_per_s(result: Result, middle: slice) -> float:
    return 1.0 / float(np.nanmean(result.tpot_s[middle]))


def _requests_per_s(result: Result, middle: slice) -> float:
    return 1.0 / float(result.latency_s[middle].mean())


_READINGS: dict[str, Callable[[Result, slice], float]] = {
    "throughput": _tokens_per_s,
    "decode": _decode_tokens_per_s,
    "latency": _requests_per_s,
}


def _requests(setup: Setup) -> Workload:
    if setup.load == "rate":
        arrivals = poisson_arrivals(OPEN_REQUESTS, setup.load_value, Streams(0).get("arrivals", 0))
        count, concurrency = OPEN_REQUESTS, None
    else:
        concurrency = int(setup.load_value)
        count = max(LEAST_REQUESTS, REQUESTS_PER_SLOT * concurrency)
        arrivals = np.zeros(count)
    return make_workload(
        arrivals,
        prompt_tokens=np.full(count, setup.input_tokens),
        output_tokens=_spread(setup.output_tokens, count),
        concurrency=concurrency,
    )


def _spread(mean_tokens: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Answers of 50 % to 150 % of the mean in a scattered order, so that requests do not end together."""
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    places = (np.arange(count) * golden) % 1.0
    return np.maximum(2, np.round(mean_tokens * (0.5 + places))).astype(np.int64)


def _run(arm: Arm, requests: Workload, *, acceptance: tuple[PerPositionAcceptance, ...]) -> Result:
    """Serve requests; a tree is priced as one and accepted as its row says."""
    proposer = _Rounds(arm.proposer) if isinstance(arm.proposer, TreeProposer) else arm.proposer
    speculation = Speculation(proposer=proposer, policy=arm.policy, acceptance=acceptance)
    return simulate(requests, costs=arm.costs, limits=arm.limits, speculation=speculation, seed=0)


def positions_of(setup: Setup, drafts: int) -> PerPositionAcceptance:
    """Unconditional acceptance with the row's AL, geometric over the depth of its rounds and 0 beyond."""
    depth = min(setup.shape.depth, drafts)
    share = float(setup.deployment["speculation"].get("proposal_fraction") or 1.0)
    proposed = 1.0 + (setup.length - 1.0) / share
    return _geometric(min(proposed, depth + 1.0), depth, drafts)


@lru_cache(maxsize=4096)
def _geometric(length: float, depth: int, drafts: int) -> PerPositionAcceptance:
    alpha = float(alpha_from_length(length, depth))
    shares = [alpha**position if position <= depth else 0.0 for position in range(1, drafts + 1)]
    return PerPositionAcceptance(tuple(shares))
