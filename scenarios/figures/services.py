"""From the assumptions of the figures to the services they are computed with, through the border of all scenarios."""

from __future__ import annotations

from typing import Any

from roofline.cost import TableSize, step_cost_table
from roofline.step_table import StepCostTable
from scenarios.build import Service, build_service
from scenarios.figures.assumptions import Assumptions
from scenarios.files import scenario_from_dict
from scenarios.questions.break_even import speculating_arm
from scenarios.schema import Scenario

LARGEST_K = 8
LARGEST_BATCH = 512


def course_scenario(assumptions: Assumptions, **sections: dict[str, Any]) -> Scenario:
    """The service of the figures: a chat over one replica with an EAGLE-3 head. `sections` lie over its tables."""
    table: dict[str, dict[str, Any]] = {
        "target": {"model": assumptions.model},
        "hardware": {
            "gpu": assumptions.gpu, "tensor_parallel": assumptions.tensor_parallel, "outside_domain": "clip",
        },
        "engine": {"profile": assumptions.engine},
        "speculation": {"method": "eagle3", "draft": assumptions.head, "draft_tokens": assumptions.draft_tokens},
        "acceptance": {"alpha": assumptions.alpha},
        "workload": {
            "kind": "poisson",
            "rate_per_s": 1.0,
            "requests": 1000,
            "input_tokens": {"mean_tokens": assumptions.input_tokens, "sigma": 0.8, "max_tokens": 8192},
            "output_tokens": {"mean_tokens": assumptions.output_tokens, "sigma": 0.7, "max_tokens": 2048},
        },
        "run": {"max_draft_tokens": LARGEST_K},
    }  # fmt: skip
    for name, section in sections.items():
        table[name] = {**table.get(name, {}), **section}
    return scenario_from_dict({"schema_version": 1, "name": "course", **table}, origin="figures")


def course_service(assumptions: Assumptions, **sections: dict[str, Any]) -> Service:
    """`course_scenario`, built."""
    return build_service(course_scenario(assumptions, **sections))


def wide_costs(service: Service) -> StepCostTable:
    """Costs of both arms of the service far beyond what its scheduler would admit: for curves over the batch."""
    arm = speculating_arm(service)
    size = TableSize(
        max_tokens=LARGEST_BATCH * (LARGEST_K + 1), max_sequences=LARGEST_BATCH, max_draft_tokens=LARGEST_K
    )
    return step_cost_table(
        service.target, service.deployment, size=size, draft=service.draft, work=arm.proposer.work
    )  # fmt: skip


def machine_text(assumptions: Assumptions) -> str:
    """Model and GPUs in one clause."""
    count = f"{assumptions.tensor_parallel} × " if assumptions.tensor_parallel > 1 else ""
    return f"{assumptions.model.rpartition('/')[2]}, {count}{assumptions.gpu}, {assumptions.engine}"
