"""One deployment in every mode: built, tried, judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline.errors import DoesNotFit, InvalidInput, OutsideDomain
from scenarios.build import Service, build_service
from scenarios.plan.answer import CountTried, Floor, PlanRow, Status
from scenarios.plan.bound import least_busy_s, perfect_replicas
from scenarios.plan.counting import Trials
from scenarios.plan.floor import floors, most_at_once, out_of_reach, served_alone
from scenarios.plan.load import planned_point, planned_prefixes, planned_requests
from scenarios.plan.modes import ModeEngine, check_modes, engine_of
from scenarios.plan.question import Choice, Mode, PlanOptions, RouterName
from scenarios.questions.domain import check_before
from scenarios.questions.load_run import slos_of
from scenarios.schema import Scenario
from simulator.cluster import ClusterShape
from simulator.result import Slo
from simulator.routers import LeastOutstanding, PrefixAware, RoundRobin, Router
from simulator.workload import Workload

_ROUTERS: dict[RouterName, Router] = {
    "least_outstanding": LeastOutstanding(),
    "round_robin": RoundRobin(),
    "prefix_aware": PrefixAware(),
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A deployment with its load by seed, and the cluster of so many replicas for it."""

    service: Service
    slos: tuple[Slo, ...]
    requests: Callable[[int], Workload]
    shape: Callable[[int, int], ClusterShape]

    def trials(self, mode: ModeEngine, max_seeds: int) -> Trials:
        """Nothing tried yet."""
        return Trials(
            engine=mode.engine,
            slos=self.slos,
            requests=self.requests,
            first_seed=self.service.scenario.run.seed,
            max_seeds=max_seeds,
            shape=self.shape,
        )


def planned(scenario: Scenario, options: PlanOptions) -> Planned:
    """Build the service and remember the loads that were made.

    Where replicas have caches of their own, the hits of the load itself are those of one cache that never evicts: the
    most that any could have, so that floor and bound stay bounds.
    """
    if options.caches_by_replica and scenario.workload.kind == "trace":
        workload = scenario.workload.model_copy(update={"prefix_hits": "unlimited_cache"})
        scenario = scenario.model_copy(update={"workload": workload})
    service = build_service(scenario)
    point = planned_point(scenario, service.trace, options.at)
    made: dict[int, Workload] = {}

    def requests(seed: int) -> Workload:
        if seed not in made:
            made[seed] = planned_requests(scenario, point, trace=service.trace, seed=seed)
        return made[seed]

    def shape(replicas: int, seed: int) -> ClusterShape:
        prefixes = planned_prefixes(scenario, service.trace, seed) if options.caches_by_replica else None
        return ClusterShape(replicas, router=_ROUTERS[options.router], prefixes=prefixes)

    return Planned(service, slos_of(service), requests, shape)


def rows_of(scenario: Scenario, choice: Choice, options: PlanOptions) -> tuple[PlanRow, ...]:
    """A row for every mode, counted on the first seed; what cannot be built or calibrated is a row with its reason."""
    chosen = choice.applied_to(scenario)
    try:
        here = planned(chosen, options)
    except DoesNotFit as error:
        speculates = chosen.speculation.method != "none"
        if speculates and "off" in options.modes:
            plain = chosen.model_copy(update={"speculation": type(chosen.speculation)(), "acceptance": None})
            off = rows_of(plain, choice, replace(options, modes=("off",)))
            drafting: list[Mode] = [mode for mode in options.modes if mode != "off"]
            return (*off, *(_no_row(choice, mode, "INFEASIBLE", str(error)) for mode in drafting))
        return tuple(_no_row(choice, mode, "INFEASIBLE", str(error)) for mode in options.modes)
    except InvalidInput as error:
        if not str(error).startswith("hardware."):  # wrong everywhere, not only on this machine
            raise
        return tuple(_no_row(choice, mode, "INFEASIBLE", str(error)) for mode in options.modes)
    modes = check_modes(here.service, options.modes)
    return tuple(_row(here, choice, mode, options) for mode in modes)


def _no_row(choice: Choice, mode: Mode, status: Status, reason: str) -> PlanRow:
    return PlanRow(choice, mode, status, reason, 0, None, None, math.nan, (), ())


def _row(here: Planned, choice: Choice, mode: Mode, options: PlanOptions) -> PlanRow:
    load = here.requests(0)
    try:
        check_before(here.service, load, draft_tokens=None if mode == "off" else here.service.draft_tokens)
    except OutsideDomain as error:
        return _no_row(choice, mode, "CANNOT SAY", str(error))
    engine = engine_of(here.service, mode, load)
    alone = served_alone(engine.engine, load, here.service.scenario.run.seed)
    found = floors(alone, here.slos)
    busy_s = least_busy_s(
        load,
        costs=engine.engine.costs,
        max_batched_tokens=engine.engine.limits.max_batched_tokens,
        draft_tokens=engine.draft_tokens if mode == "static" else 0,
        length=engine.length,
    )
    bound = perfect_replicas(busy_s, load)
    row = PlanRow(choice, mode, "MEETS", "", engine.draft_tokens, None, None, bound, found, ())
    missed = out_of_reach(found, len(alone.arrival_s), len(load))
    if missed is not None:
        return replace(row, status="INFEASIBLE", reason=missed)
    at_once = max(most_at_once(load, alone), fewest_for_the_work(row))
    return _counted(row, here.trials(engine, 1), at_once, options)


def _counted(row: PlanRow, trials: Trials, at_once: int, options: PlanOptions) -> PlanRow:
    """The row with the fewest replicas that do, or with the reason why none does."""
    affordable = options.max_gpus // row.choice.gpus_per_replica
    highest = min(at_once, affordable)
    if highest < 1:
        reason = f"one replica takes {row.choice.gpus_per_replica} GPUs, at most {options.max_gpus} may be used"
        return replace(row, status="TOO MANY GPUS", reason=reason)
    lowest = fewest_for_the_work(row)
    if lowest > highest:
        reason = f"the work alone takes {lowest} replicas, {highest} are allowed"
        return replace(row, status="SATURATED", reason=reason)
    count = trials.fewest(lowest, highest)
    tried = tuple(trials.tried[replicas] for replicas in sorted(trials.tried))
    if count is None:
        status, reason = _why_not(trials.judge(highest), row.floors, at_once, affordable)
        return replace(row, status=status, reason=reason, tried=tried)
    fewer = trials.tried.get(count.replicas - 1)
    return replace(row, count=count, one_fewer=fewer, tried=tried)


def fewest_for_the_work(row: PlanRow) -> int:
    """Replicas below which the backlog of a load that goes on would grow for ever, whoever schedules."""
    return max(1, math.ceil(row.bound_replicas)) if math.isfinite(row.bound_replicas) else 1


def _why_not(last: CountTried, found: tuple[Floor, ...], at_once: int, affordable: int) -> tuple[Status, str]:
    missed = next(each for each in last.reached if each.fraction < each.wanted_fraction)
    what = f"{last.replicas} replicas reach {100 * missed.fraction:.1f} % of {missed.objective}"
    if affordable < at_once:
        if last.saturated:
            return "SATURATED", f"{what}, and their backlog grows; no more GPUs are allowed"
        return "TOO MANY GPUS", f"{what}; no more GPUs are allowed"
    floor = next(each for each in found if each.objective == missed.objective)
    alone = f"alone on a replica it is {100 * floor.fraction:.1f} %"
    return "INFEASIBLE", f"{what}, as many as requests there are at once ({alone}); more do not change that"
