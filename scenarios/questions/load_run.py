"""Both arms of a service at one load: simulated on the same requests with the same luck, compared in pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from roofline.cost import round_cost
from scenarios import notation
from scenarios.acceptance import AcceptanceCase
from scenarios.build import Arm, Service
from scenarios.loads import LoadPoint, kinds, workload_at
from scenarios.questions.advice import Advice, following
from scenarios.questions.break_even import BreakEven, break_even, simulate_arm, speculating_arm
from scenarios.questions.verdict import Word
from simulator.compare import Interval, paired_speedup
from simulator.result import Metric, Result, Slo
from simulator.workload import Workload

QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class ArmAtLoad:
    """What users of one arm see; times are (p50, p95, p99) over the requests of all seeds, the rest means of seeds.

    `meets_slo` is None where no objective was given. `saturation_known` is False where the runs are too short to tell
    whether the arm keeps up; it is then taken to.
    """

    ttft_s: tuple[float, float, float]
    tpot_s: tuple[float, float, float]
    throughput_tokens_per_s: float
    throughput_requests_per_s: float
    goodput_requests_per_s: float
    goodput_fraction: float
    mean_batch: float
    acceptance_length: float
    saturated: bool
    saturation_known: bool
    meets_slo: bool | None
    refused_fraction: float
    preemptions: float


@dataclass(frozen=True, slots=True)
class RoundSplit:
    """R at the mean batch of the speculating arm, and its parts: verify, draft and host over the plain step."""

    batch: int
    draft_tokens: int
    plain_s: float
    verify: float
    draft: float
    host: float

    @property
    def ratio(self) -> float:
        """R: speculation pays at this batch iff the acceptance length exceeds it."""
        return self.verify + self.draft + self.host


@dataclass(frozen=True, slots=True)
class CaseAtLoad:
    """The speculating arm under one acceptance, against plain decoding."""

    name: str
    on: ArmAtLoad
    tpot_speedup: Interval
    throughput_speedup: Interval
    word: Word
    reason: str


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """Everything found at one load. `cases` is empty where no acceptance was given.

    `advised` serves with the best K by batch size, under the middle acceptance, on the first seed.
    """

    point: LoadPoint
    off: ArmAtLoad
    cases: tuple[CaseAtLoad, ...]
    round: RoundSplit
    break_even: BreakEven
    advised: CaseAtLoad | None = None

    @property
    def middle(self) -> CaseAtLoad | None:
        """The case to report: the one given, or the median of a preset."""
        return self.cases[len(self.cases) // 2] if self.cases else None


def slos_of(service: Service) -> tuple[Slo, ...]:
    """The objectives of the scenario and of its request classes, as the simulator reads them.

    Without a quantile every request must meet it.
    """
    own = [(text, None) for text in service.scenario.slo]
    of_classes = [(text, index) for index, kind in enumerate(kinds(service.scenario.workload)) for text in kind.slo]
    found: list[Slo] = []
    for text, class_id in own + of_classes:
        slo = notation.slo(text)
        for metric in ("ttft", "tpot", "latency"):
            if metric == slo.metric:
                found.append(Slo(metric, quantile=slo.quantile or 1.0, limit_s=slo.limit_s, class_id=class_id))
    return tuple(found)


def run_load(service: Service, point: LoadPoint, advice: Advice | None = None) -> LoadOutcome:
    """Simulate plain and speculating arms at a load over all seeds, and look for the break-even."""
    on = speculating_arm(service)
    seeds = range(service.scenario.run.seeds)
    one_workload = service.trace is not None
    workloads = [
        workload_at(service.scenario, point, trace=service.trace, seed=seed)
        for seed in (range(1) if one_workload else seeds)
    ]
    first_seed = service.scenario.run.seed
    plain = [simulate_arm(service.off, workload, seed=first_seed + seed) for seed, workload in enumerate(workloads)]
    if one_workload:
        # The luck of drafts does not touch plain decoding: one run serves every seed.
        workloads = workloads * len(seeds)
        plain = [replace(plain[0], seed=first_seed + seed) for seed in seeds]
    off = _summary(plain, slos_of(service))
    cases = tuple(_case(service, on, case, workloads, plain) for case in service.cases)
    advised = None
    if advice is not None and service.cases:
        middle = replace(service.middle_case, name="best K")
        advised = _case(service, following(on, advice), middle, workloads[:1], plain[:1])
    both_full = off.saturated and all(case.on.saturated for case in cases)
    metric = "throughput" if both_full and cases else "tpot"
    mean_batch = cases[len(cases) // 2].on.mean_batch if cases else off.mean_batch
    split = round_split(
        service, on, batch=max(1, round(mean_batch)), context_tokens=decode_context_tokens(workloads[0])
    )
    return LoadOutcome(
        point=point,
        off=off,
        cases=cases,
        round=split,
        break_even=break_even(service, workloads[0], plain=plain[0], guess=split.ratio, metric=metric),
        advised=advised,
    )


def _case(
    service: Service, arm: Arm, case: AcceptanceCase, workloads: Sequence[Workload], plain: Sequence[Result]
) -> CaseAtLoad:
    speculating = [
        simulate_arm(arm, workload, models=case.models, seed=result.seed)
        for workload, result in zip(workloads, plain, strict=True)
    ]
    slos = slos_of(service)
    off, on = _summary(plain, slos), _summary(speculating, slos)
    tpot_speedup = paired_speedup(plain, speculating, metric="tpot")
    word, reason = _word(off, on, tpot_speedup)
    return CaseAtLoad(
        name=case.name,
        on=on,
        tpot_speedup=tpot_speedup,
        throughput_speedup=paired_speedup(plain, speculating, metric="throughput"),
        word=word,
        reason=reason,
    )


def _word(off: ArmAtLoad, on: ArmAtLoad, speedup: Interval) -> tuple[Word, str]:
    """The answer at one load: capacity first, then the objectives, then time per token."""
    if off.saturated and on.saturated:
        return "SATURATED", "neither arm keeps up"
    if on.saturated:
        return "OFF", "only plain decoding keeps up"
    if off.saturated:
        return "ON", "only speculation keeps up"
    if on.meets_slo and off.meets_slo is False:
        return "ON", "only speculation meets the SLO"
    if off.meets_slo and on.meets_slo is False:
        return "OFF", "only plain decoding meets the SLO"
    missed = "; both miss the SLO" if off.meets_slo is False else ""
    if not math.isfinite(speedup.estimate):
        return "CANNOT SAY", "outputs of one token have no time between tokens"
    if speedup.low > 1.0:
        return "ON", f"faster tokens{missed}"
    if speedup.high < 1.0:
        return "OFF", f"slower tokens{missed}"
    return "TIE", f"difference within the interval{missed}"


def _summary(results: Sequence[Result], slos: tuple[Slo, ...]) -> ArmAtLoad:
    inside = [result.goodput(slos) for result in results]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    return ArmAtLoad(
        ttft_s=percentiles_s(results, "ttft"),
        tpot_s=percentiles_s(results, "tpot"),
        throughput_tokens_per_s=mean([result.throughput_tokens_per_s for result in results]),
        throughput_requests_per_s=mean([result.throughput_requests_per_s for result in results]),
        goodput_requests_per_s=mean([good.requests_per_s for good in inside]),
        goodput_fraction=mean([good.fraction for good in inside]),
        mean_batch=mean([result.mean_batch for result in results]),
        acceptance_length=mean([result.acceptance_length for result in results]),
        saturated=2 * sum(result.saturation.saturated for result in results) > len(results),
        saturation_known=all(result.saturation.enough_data for result in results),
        meets_slo=2 * sum(result.meets(slos) for result in results) > len(results) if slos else None,
        refused_fraction=mean([result.counts.refused / len(result.arrival_s) for result in results]),
        preemptions=mean([float(result.preemptions.sum()) for result in results]),
    )


def percentiles_s(results: Sequence[Result], metric: Metric) -> tuple[float, float, float]:
    """A time at `QUANTILES` over the requests of all results; NaN where no request has it."""
    values = np.concatenate([result.metric_s(metric) for result in results])
    values = values[~np.isnan(values)]
    if not len(values):
        return (math.nan, math.nan, math.nan)
    p50, p95, p99 = (float(value) for value in np.quantile(values, QUANTILES))
    return (p50, p95, p99)


def decode_context_tokens(workload: Workload) -> int:
    """Mean context of a decoding sequence: every output token weighs alike."""
    weights = workload.output_tokens.astype(float)
    contexts = workload.prompt_tokens + workload.output_tokens / 2
    return max(1, round(float((weights * contexts).sum() / weights.sum())))


def round_split(service: Service, arm: Arm, *, batch: int, context_tokens: int) -> RoundSplit:
    """R from the cost table at a batch, with the K the policy uses there."""
    table = arm.costs
    drafts = int(arm.policy.by_batch(table.max_sequences)[min(batch, table.max_sequences)]) or service.draft_tokens
    fitting = max(1, min(batch, table.max_sequences, table.max_tokens // (drafts + 1)))
    cost = round_cost(table, batch=fitting, context_tokens=context_tokens, draft_tokens=drafts)
    return RoundSplit(
        batch=fitting,
        draft_tokens=drafts,
        plain_s=cost.plain_s,
        verify=cost.verify_s / cost.plain_s,
        draft=cost.draft_s / cost.plain_s,
        host=cost.host_s / cost.plain_s,
    )
