"""How many replicas: bisection on paired seeds, each count simulated until its interval allows the decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from scenarios.plan.answer import CountTried
from scenarios.plan.attainment import ENOUGH_RUNS, met_by_request, reached, shares_by_block
from scenarios.plan.load import some_of
from scenarios.questions.load_run import percentiles_s
from simulator.cluster import ClusterShape, Engine, serve_cluster
from simulator.replica import simulate
from simulator.result import Result, Slo
from simulator.workload import Workload

GUESSED = 2
"""Replicas that stand for all in the guess."""


def _least_outstanding(replicas: int, _: int) -> ClusterShape:
    return ClusterShape(replicas)


@dataclass
class Trials:
    """Counts of one engine under one load; every count sees the same seeds.

    `requests(seed)` gives the load of a seed. Results are remembered by count. `strict`: a count that the interval does
    not decide does not meet; else its estimates decide. `shape(replicas, seed)` is the cluster.
    """

    engine: Engine
    slos: tuple[Slo, ...]
    requests: Callable[[int], Workload]
    first_seed: int
    max_seeds: int
    strict: bool = False
    shape: Callable[[int, int], ClusterShape] = field(default=_least_outstanding)
    tried: dict[int, CountTried] = field(default_factory=dict[int, CountTried])
    first_runs: dict[int, Result] = field(default_factory=dict[int, Result])

    def run(self, replicas: int, seed: int) -> Result:
        """All requests of a seed on so many replicas."""
        if seed == 0 and replicas in self.first_runs:
            return self.first_runs[replicas]
        served = serve_cluster(
            self.requests(seed), self.shape(replicas, seed), engine=self.engine, seed=self.first_seed + seed
        )
        if seed == 0:
            self.first_runs[replicas] = served.result
        return served.result

    def judge(self, replicas: int) -> CountTried:
        """Seeds until every objective is surely met or one is surely missed; then the estimates."""
        if replicas in self.tried:
            return self.tried[replicas]
        results: list[Result] = []
        while True:
            results.append(self.run(replicas, len(results)))
            tried = self._tried(replicas, results)
            if tried.decided or len(results) == self.max_seeds:
                self.tried[replicas] = tried
                return tried

    def measured(self, replicas: int, *, half_width_fraction: float, most_seeds: int) -> CountTried:
        """Seeds until no interval is wider on either side, whatever is decided by then."""
        results: list[Result] = []
        while True:
            results.append(self.run(replicas, len(results)))
            tried = self._tried(replicas, results)
            narrow = all(each.half_width_fraction <= half_width_fraction for each in tried.reached)
            if (narrow and len(results) >= ENOUGH_RUNS) or len(results) == most_seeds:
                return tried

    def _tried(self, replicas: int, results: Sequence[Result]) -> CountTried:
        found = reached([shares_by_block(result, self.slos) for result in results], self.slos)
        met, missed = all(each.surely_met for each in found), any(each.surely_missed for each in found)
        return CountTried(
            replicas=replicas,
            seeds=len(results),
            reached=found,
            meets=met or (not self.strict and not missed and all(each.holds for each in found)),
            decided=met or missed,
            saturated=2 * sum(result.saturation.saturated for result in results) > len(results),
            ttft_s=percentiles_s(results, "ttft"),
            tpot_s=percentiles_s(results, "tpot"),
            throughput_tokens_per_s=float(np.mean([result.throughput_tokens_per_s for result in results])),
            mean_batch=float(np.mean([result.mean_batch for result in results])),
            outstanding=float(np.mean([result.totals.system_request_s / result.span_s for result in results])),
            acceptance_length=float(np.mean([result.acceptance_length for result in results])),
        )

    def _one_of(self, replicas: int) -> bool:
        """A guess: whether replicas that get every so-manieth request meet the objectives."""
        load = self.requests(0)
        results = [
            simulate(
                some_of(load, replicas, first),
                costs=self.engine.costs,
                limits=self.engine.limits,
                speculation=self.engine.speculation,
                seed=self.first_seed,
            )
            for first in range(min(GUESSED, replicas))
        ]
        for slo in self.slos:
            met = np.concatenate([met_by_request(result, slo) for result in results])
            if len(met) and met.mean() < slo.quantile:
                return False
        return True

    def guess(self, lowest: int, highest: int) -> int:
        """The fewest replicas by the guess, in lowest..highest."""
        low, high = lowest - 1, lowest
        while high < highest and not self._one_of(high):
            low, high = high, min(highest, max(high + 1, math.ceil(high * 1.5)))
        while high - low > max(1, high // 16):
            middle = (low + high) // 2
            low, high = (low, middle) if self._one_of(middle) else (middle, high)
        return high

    def fewest(self, lowest: int, highest: int) -> CountTried | None:
        """The smallest count that meets every objective, its neighbour below missing one; None: not up to `highest`.

        Bisected on the first seed alone, then settled on all of them.
        """
        first_look = replace(self, max_seeds=1, tried={})
        low, high, step = lowest - 1, highest + 1, 1
        middle = self.guess(lowest, highest)
        while high - low > 1:
            if first_look.judge(middle).meets:
                high = middle
            else:
                low = middle
            if low < lowest:  # nothing misses yet: further down
                middle, step = max(lowest, high - step), 2 * step
            elif high > highest:  # nothing meets yet: further up
                middle, step = min(highest, low + step), 2 * step
            else:
                middle = (low + high) // 2
        return self.settled(min(high, highest), lowest, highest)

    def settled(self, replicas: int, lowest: int, highest: int) -> CountTried | None:
        """From a count that is nearly right to the smallest that meets every objective."""
        while replicas <= highest and not self.judge(replicas).meets:
            replicas += 1
        if replicas > highest:
            return None
        while replicas > lowest and self.judge(replicas - 1).meets:
            replicas -= 1
        return self.judge(replicas)
