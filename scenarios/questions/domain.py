"""Whether a calibration was measured where the question takes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scenarios.build import Service
from scenarios.questions.load_run import LoadOutcome
from simulator.workload import Workload


def domain_findings(service: Service, loads: Sequence[LoadOutcome], requests: Workload) -> tuple[str, ...]:
    """Sentences about batches, steps, contexts and K outside the measured ranges.

    Raises
    ------
    OutsideDomain
        There are some and the scenario does not accept extrapolation (`outside_domain = "clip"`).
    """
    arms = [load.off for load in loads] + [case.on for load in loads for case in load.cases]
    batch = min(math.ceil(max(arm.mean_batch for arm in arms)), service.off.costs.max_sequences)
    budget = service.off.limits.max_batched_tokens
    prompt_tokens = min(budget, int(requests.prompt_tokens.max()))
    return service.deployment.calibration.check_domain(
        tokens=max(min(budget, batch * (service.draft_tokens + 1)), prompt_tokens),
        batch=max(1, batch),
        context_tokens=int((requests.prompt_tokens + requests.output_tokens).max()),
        draft_tokens=service.draft_tokens,
        outside=service.scenario.hardware.outside_domain,
    )
