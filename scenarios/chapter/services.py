"""The services that rows of the chapter are computed on: shipped scenarios with a few keys replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from roofline.calibration import Label
from roofline.cost import RoundCost, round_cost
from roofline.step_table import StepCostTable
from scenarios.build import Arm, Service, build_service
from scenarios.chapter.judging import weakest
from scenarios.files import preset_path, read_scenario_table, scenario_from_dict
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.break_even import simulate_arm, speculating_arm
from scenarios.questions.load_run import LoadOutcome, run_load
from simulator.acceptance import Acceptance
from simulator.replica import simulate
from simulator.result import Result
from simulator.workload import Workload

DENSE = "llama8b_h100_chat"
MIXTURE = "qwen3_30b_a3b_h100"
LARGE = "llama70b_h100_azure"


def service(preset: str, seed: int, *, slo: tuple[str, ...] = (), **sections: Mapping[str, Any]) -> Service:
    """A shipped scenario under these objectives, its tables updated key by key.

    The acceptance, and a table whose `kind` changes, is replaced as a whole.
    """
    table = read_scenario_table(preset_path(preset))
    table["slo"] = list(slo)
    table["run"] = {**table.get("run", {}), "seed": seed}
    for name, values in sections.items():
        before = cast("Mapping[str, Any]", table.get(name, {}))
        other = name == "acceptance" or values.get("kind", before.get("kind")) != before.get("kind")
        table[name] = dict(values) if other else {**before, **values}
    return build_service(scenario_from_dict(table, origin=f"chapter, {preset}"))


def closed(concurrency: int, requests: int, *, input_tokens: int = 512, output_tokens: int = 200) -> dict[str, Any]:
    """A closed loop of equal requests as a scenario's workload."""
    return {
        "kind": "closed",
        "concurrency": concurrency,
        "requests": requests,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }


def label_of(made: Service, *, acceptance: bool = True) -> Label:
    """What a number of this service rests on: its costs, and its acceptance where that matters."""
    given: tuple[Label, ...] = tuple(case.label for case in made.cases) if acceptance else ()
    return weakest(made.deployment.calibration.label, *given)


def at_load(made: Service, kind: Literal["rate", "concurrency"], value: float) -> LoadOutcome:
    """Both arms at one load."""
    return run_load(made, LoadPoint(0, kind, value))


def serve(made: Service, workload: Workload, *, arm: Literal["on", "off"]) -> Result:
    """One arm of a service under a workload of its own, with the scenario's seed and middle acceptance."""
    chosen, models = made.off, cast("tuple[Acceptance, ...]", ())
    if arm == "on":
        chosen, models = speculating_arm(made), made.middle_case.models
    return simulate_arm(chosen, workload, models=models, seed=made.scenario.run.seed)


def traced(made: Service, load: LoadPoint, **limits: int | bool) -> Result:
    """The speculating arm at one load with every step; `limits` lie over those of its engine."""
    arm = speculating_arm(made)
    return simulate(
        workload_at(made.scenario, load, trace=None, seed=0),
        costs=arm.costs,
        limits=arm.limits.model_copy(update=limits),
        speculation=arm.speculation(made.middle_case.models),
        seed=made.scenario.run.seed,
        trace_steps=True,
    )


def both_arms(made: Service, kind: Literal["rate", "concurrency"], value: float) -> tuple[Result, Result]:
    """Plain and speculating on the same requests with the same luck, first seed only and without the break-even."""
    workload = workload_at(made.scenario, LoadPoint(0, kind, value), trace=made.trace, seed=0)
    return serve(made, workload, arm="off"), serve(made, workload, arm="on")


def round_at(arm: Arm | StepCostTable, batch: int, *, draft_tokens: int, context_tokens: int = 600) -> RoundCost:
    """A round beside a plain step at a steady batch."""
    table = arm if isinstance(arm, StepCostTable) else arm.costs
    return round_cost(table, batch=batch, context_tokens=context_tokens, draft_tokens=draft_tokens)
