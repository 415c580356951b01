"""The checks of public cases, computed: each run simulated as it was made, put beside its band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofline.errors import InvalidInput, SpecdecError
from roofline.speculation import crossover_batches
from scenarios.build import Arm, Service, build_service
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.break_even import simulate_arm
from scenarios.validate.checks import COMBINED, Check, scenario_of
from simulator.result import Result
from simulator.workload import Workload


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check with its prediction, or with the reason why there is none.

    `in_band`, `direction_right` are None where the row has no band, or no direction.
    """

    check: Check
    status: Literal["computed", "not computed"]
    reason: str = ""
    predicted: float = math.nan
    label: str = ""

    @property
    def in_band(self) -> bool | None:
        """Whether the prediction lies in the published band, both ends included."""
        low, high = self.check.low, self.check.high
        if self.status != "computed" or (low is None and high is None):
            return None
        return (low is None or self.predicted >= low) and (high is None or self.predicted <= high)

    @property
    def direction_right(self) -> bool | None:
        """Whether the prediction lies on the reported side of 1."""
        if self.status != "computed" or not self.check.direction:
            return None
        return self.predicted > 1.0 if self.check.direction == "above" else self.predicted < 1.0


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The checks of one case. None where nothing of it is computed or nothing has a direction or a band."""

    case: str
    grade: str
    checks: tuple[CheckResult, ...]

    @property
    def computed(self) -> bool:
        """Whether some check of it is."""
        return any(one.status == "computed" for one in self.checks)

    @property
    def direction_right(self) -> bool | None:
        """Every direction of it is right."""
        told = [one.direction_right for one in self.checks if one.direction_right is not None]
        return all(told) if told else None

    @property
    def in_band(self) -> bool | None:
        """Every band of it holds."""
        told = [one.in_band for one in self.checks if one.in_band is not None]
        return all(told) if told else None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why checks are not computed, each once."""
        return tuple(dict.fromkeys(one.reason for one in self.checks if one.reason))


def run_check(check: Check) -> CheckResult:
    """One row that describes a run."""
    if check.reason:
        return CheckResult(check, "not computed", check.reason)
    try:
        return _simulated(check)
    except (SpecdecError, ValueError) as error:
        return CheckResult(check, "not computed", str(error).splitlines()[0])


def judge_cases(checks: Sequence[Check], simulated: Mapping[str, CheckResult]) -> tuple[CaseResult, ...]:
    """Cases in the order of the file. `simulated`: results of `run_check` by the check's name."""
    by_case: dict[str, list[CheckResult]] = {}
    for check in checks:
        known = by_case.setdefault(check.case, [])
        known.append(_combined(check, known) if check.metric in COMBINED else simulated[check.name])
    return tuple(CaseResult(case, results[0].check.grade, tuple(results)) for case, results in by_case.items())


def _simulated(check: Check) -> CheckResult:
    service = build_service(scenario_of(check))
    value = _metric(check, service)
    return CheckResult(check, "computed", predicted=value, label=service.deployment.calibration.label)


def _metric(check: Check, service: Service) -> float:
    workload = _requests(service)
    on = _run(service, workload, speculating=service.on is not None)
    if check.metric == "acceptance_length":
        return on.acceptance_length
    if check.metric == "tpot_s":
        return on.mean("tpot")
    if check.metric == "tokens_per_s":
        return on.throughput_tokens_per_s
    plain = service if not check.cells["on_options"] else build_service(scenario_of(check, speculating=False))
    off = _run(plain, workload if plain is service else _requests(plain), speculating=False)
    if check.metric == "throughput_speedup":
        return on.throughput_tokens_per_s / off.throughput_tokens_per_s
    return off.mean("tpot") / on.mean("tpot")


def _requests(service: Service) -> Workload:
    workload = service.scenario.workload
    if workload.kind == "closed":
        point = LoadPoint(0, "concurrency", float(workload.concurrency or 1))
    else:
        point = LoadPoint(0, "rate", getattr(workload, "rate_per_s", None) or 1.0)
    return workload_at(service.scenario, point, trace=service.trace, seed=0)


def _run(service: Service, workload: Workload, *, speculating: bool) -> Result:
    arm: Arm = service.off
    if speculating and service.on is not None:
        arm = service.on
    if not speculating or service.on is None:
        return simulate_arm(arm, workload, seed=0)
    if not service.cases:
        raise InvalidInput("acceptance is not given, and none was assumed")
    middle = service.cases[len(service.cases) // 2]
    return simulate_arm(arm, workload, models=middle.models, seed=0)


def _combined(check: Check, known: Sequence[CheckResult]) -> CheckResult:
    """`best_k`: the K of the arm with the largest value. `ratio`: the first over the second. `crossover`: the load at
    which the values fall through 1.
    """
    by_arm = {one.check.arm: one for one in known}
    missing = [arm for arm in check.of if arm not in by_arm or by_arm[arm].status != "computed"]
    if check.reason or missing or not check.of:
        return CheckResult(check, "not computed", check.reason or f"needs {', '.join(missing) or 'arms in `of`'}")
    arms = [by_arm[arm] for arm in check.of]
    found = CheckResult(check, "computed", label=arms[0].label)
    if check.metric == "ratio":
        return replace(found, predicted=arms[0].predicted / arms[1].predicted)
    if check.metric == "best_k":
        best = max(arms, key=lambda one: one.predicted)
        return replace(found, predicted=float(best.check.cells["k"]))
    loads = [float(one.check.cells["load"].split()[1]) for one in arms]
    crossings = crossover_batches(loads, [one.predicted for one in arms])
    if crossings:
        return replace(found, predicted=crossings[0])
    # Never below 1 over the loads tried: later than the last; never above: before the first.
    return replace(found, predicted=math.inf if arms[0].predicted > 1.0 else 0.0)
