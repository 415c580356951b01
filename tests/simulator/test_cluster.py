"""Clusters: nothing is lost, one replica is a replica, routers keep their laws, autoscalers their delays."""

import dataclasses

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.autoscaler import Autoscaler
from simulator.cluster import ClusterResult, ClusterShape, Engine, serve_cluster
from simulator.controllers.base import Slot
from simulator.controllers.closed_loop import ClosedLoop
from simulator.prefix_cache import PrefixBlocks
from simulator.proposers import HeadProposer
from simulator.replica import Speculation, simulate
from simulator.result import Result
from simulator.routers import LeastOutstanding, PrefixAware, ReplicaSeen, RoundRobin, Routed
from tests.simulator.fingerprint import digest
from tests.strategies import PLAIN, affine_costs, head, limits, workload

COSTS = affine_costs(step_s=0.01, per_token_s=1e-4, kv_s_per_token=1e-7, draft_pass_s=0.001, round_extra_s=0.002)
ADAPTIVE = Speculation(HeadProposer(), ClosedLoop((Slot(1, (1, 3)), Slot(6, (0, 1)))), (IidAcceptance(0.7),))


def _load(requests=300, gap_s=0.1):
    index = np.arange(requests)
    return workload(index * gap_s, 1 + index * 53 % 400, 1 + index * 37 % 190)


def _serve(load, replicas=3, speculation=PLAIN, *, until_s=float("inf"), kv_blocks=100_000, **shape) -> ClusterResult:
    engine = Engine(COSTS, limits(kv_blocks=kv_blocks, max_sequences=12), speculation)
    return serve_cluster(load, ClusterShape(replicas, **shape), engine=engine, seed=5, until_s=until_s)


class FirstOfAll:
    """A user's router that writes down what it is shown."""

    def __init__(self) -> None:
        self.shown: list[list[ReplicaSeen]] = []

    def choose(self, request: Routed, replicas: list[ReplicaSeen]) -> int:
        self.shown.append(list(replicas))
        return min(replicas, key=lambda each: (each.outstanding, (each.replica - request.request) % 3)).replica


@pytest.mark.parametrize(
    "speculation",
    [
        pytest.param(PLAIN, id="plain"),
        pytest.param(head(3, IidAcceptance(0.6)), id="head"),
        pytest.param(ADAPTIVE, id="loop", marks=pytest.mark.slow),  # compiles the general loop
    ],
)
@pytest.mark.parametrize("kv_blocks", [60, 100_000], ids=["preempting", "roomy"])
def test_one_replica_is_a_replica(speculation, kv_blocks):
    load = _load(gap_s=0.3)
    alone = simulate(
        load, costs=COSTS, limits=limits(kv_blocks=kv_blocks, max_sequences=12), speculation=speculation, seed=5
    )
    assert digest(_serve(load, 1, speculation, kv_blocks=kv_blocks, router=RoundRobin()).result) == digest(alone)
    looked_at = _serve(load, 1, speculation, kv_blocks=kv_blocks).result
    assert looked_at.totals.system_request_s == pytest.approx(alone.totals.system_request_s, rel=1e-12)
    assert digest(_without_integral(looked_at)) == digest(_without_integral(alone))


def _without_integral(result: Result) -> Result:
    """The one sum whose order of adding depends on when a request becomes known."""
    return dataclasses.replace(result, totals=dataclasses.replace(result.totals, system_request_s=0.0))


@pytest.mark.parametrize("router", [RoundRobin(), LeastOutstanding(), FirstOfAll()])
@pytest.mark.parametrize("until_s", [4.0, float("inf")])
def test_every_request_is_somewhere(router, until_s):
    served = _serve(_load(), router=router, until_s=until_s, kv_blocks=40)
    counts = served.result.counts
    assert counts.arrived == counts.finished + counts.running + counts.waiting + counts.refused
    assert counts.arrived == np.count_nonzero(served.replica >= 0)
    assert counts.refused == np.count_nonzero(served.result.refused[served.replica >= 0])
    if until_s == float("inf"):
        assert counts.finished + counts.refused == 300
        done = ~served.result.refused
        assert np.array_equal(served.result.emitted_tokens[done], served.result.output_tokens[done])


def test_more_requests_than_first_places_find_room():
    load = workload(np.zeros(4000), 10, np.arange(4000) % 30 + 1)
    result = _serve(load, 1).result
    assert result.counts.finished == 4000
    assert digest(_serve(load, 1, router=RoundRobin()).result) == digest(result)


def test_round_robin_deals_in_turn():
    assert np.array_equal(_serve(_load(), router=RoundRobin()).replica, np.arange(300) % 3)


def test_least_outstanding_is_what_the_definition_says():
    served = _serve(_load())
    result, load_of = served.result, np.zeros(3, dtype=int)
    for request in range(300):
        now_s = result.arrival_s[request]
        inside = result.finished_s[:request] > now_s
        load_of = np.bincount(served.replica[:request][inside], minlength=3)
        assert load_of[served.replica[request]] == load_of.min()


def test_a_users_router_sees_what_the_built_in_one_counts():
    own = FirstOfAll()
    served = _serve(_load(), router=own)
    result = served.result
    for request in range(300):
        inside = result.finished_s[:request] > result.arrival_s[request]
        expected = np.bincount(served.replica[:request][inside], minlength=3)
        assert [each.outstanding for each in own.shown[request]] == expected.tolist()


def test_a_router_that_leaves_the_cluster_is_told_so():
    class Lost:
        def choose(self, request: Routed, replicas: list[ReplicaSeen]) -> int:
            return 7

    with pytest.raises(InvalidInput, match="must choose one of the replicas"):
        _serve(_load(5), router=Lost())


def test_luck_belongs_to_the_request_whatever_its_replica():
    few, many = (_serve(_load(gap_s=2.0), n, head(3, IidAcceptance(0.6))).result for n in (1, 4))
    assert np.array_equal(few.rounds, many.rounds)


def test_more_replicas_never_keep_requests_longer_here():
    latencies_s = [_serve(_load(gap_s=0.03), replicas).result.mean("latency") for replicas in (1, 2, 4, 8)]
    assert latencies_s == sorted(latencies_s, reverse=True)


def _conversations(turns=6, users=10) -> PrefixBlocks:
    """Each prompt is the user's last one with a block more."""
    lists = [[user * 100 + block for block in range(turn + 1)] for turn in range(turns) for user in range(users)]
    lengths = [len(each) for each in lists]
    return PrefixBlocks(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(lists), 16)


def _talk(router, kv_blocks=100_000) -> ClusterResult:
    turns = np.repeat(np.arange(6), 10)
    load = workload(np.arange(60) * 0.4, 16 * (turns + 1) + 3, 20)
    return _serve(load, 3, router=router, prefixes=_conversations(), kv_blocks=kv_blocks)


def test_prefix_aware_routing_sends_conversations_back_to_their_cache():
    sticky, spread = _talk(PrefixAware()), _talk(RoundRobin())
    homes = [set(sticky.replica[user::10].tolist()) for user in range(10)]
    assert all(len(home) == 1 for home in homes)
    assert sticky.result.totals.step_tokens < spread.result.totals.step_tokens
    assert sticky.result.totals.step_tokens == 60 * (20 - 1 + 16 + 3)


def test_a_full_prefix_cache_forgets_the_least_recently_used():
    assert _talk(PrefixAware(), kv_blocks=8).result.totals.step_tokens > _talk(PrefixAware()).result.totals.step_tokens


def test_out_of_balance_a_match_no_longer_counts():
    one_topic = PrefixBlocks(np.arange(61), np.zeros(60, dtype=int), 16)
    load = workload(np.zeros(60), 19, 20)
    served = _serve(load, 3, router=PrefixAware(imbalance_requests=4), prefixes=one_topic)
    assert np.bincount(served.replica, minlength=3).min() > 10
    assert set(_serve(load, 3, router=PrefixAware(), prefixes=one_topic).replica) == {0}


def _swing():
    busy, quiet = np.arange(400) * 0.02, 8.0 + np.arange(200) * 1.0
    return workload(np.concatenate([busy, quiet]), 20, 100)


SCALER = Autoscaler(
    target_outstanding=8, min_replicas=1, max_replicas=5, start_delay_s=3.0, cool_down_s=20, interval_s=1
)


def test_a_new_replica_takes_requests_only_after_its_start_delay():
    served = _serve(_swing(), 1, autoscaler=SCALER)
    assert served.result.counts.finished == 600
    first = min(served.result.arrival_s[served.replica == row].min() for row in range(1, 5))
    assert 4.0 <= first < 5.0  # decided at 1 s, ready at 4 s
    paid_from = served.changes[served.changes[:, 2] > 1][0, 0]
    assert paid_from == 1.0


def test_replicas_leave_after_the_cool_down_and_are_paid_until_empty():
    served = _serve(_swing(), 1, autoscaler=SCALER)
    serving = served.changes[:, 1]
    peak_until_s = served.changes[np.argmax(serving) + 1, 0]
    assert serving.max() == 5
    assert peak_until_s >= 8.0 + 20.0
    assert serving[-1] == 1
    assert 1.0 < served.mean_replicas < 5.0
    assert served.peak_replicas >= 5


def test_a_cluster_that_never_changes_is_paid_for_its_whole_time():
    served = _serve(_load(), 4)
    assert served.mean_replicas == pytest.approx(4.0)
    assert served.changes.tolist() == [[0.0, 4.0, 4.0]]


def test_results_are_identical_when_asked_twice():
    first, again = (_serve(_swing(), 1, autoscaler=SCALER) for _ in range(2))
    assert digest(first.result) == digest(again.result)
    assert np.array_equal(first.changes, again.changes)


def test_what_cannot_be_a_cluster_is_refused():
    with pytest.raises(InvalidInput, match="closed loop"):
        _serve(workload(np.zeros(5), 5, 5, concurrency=2))
    with pytest.raises(InvalidInput, match="replicas must be at least 1"):
        _serve(_load(), 0)
    with pytest.raises(InvalidInput, match="replicas at the start"):
        _serve(_load(), 9, autoscaler=SCALER)
    with pytest.raises(InvalidInput, match="prefixes must be of the 300 requests"):
        _serve(_load(), 2, prefixes=_conversations())
