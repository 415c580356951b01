"""Whether a calibration was measured where the question takes it."""

from __future__ import annotations

import math

from scenarios.build import Service
from simulator.workload import Workload


def check_before(service: Service, requests: Workload, *, draft_tokens: int | None) -> None:
    """Refuse K, prompts and contexts outside the measured ranges before anything is simulated.

    `draft_tokens` is None for plain decoding.

    Raises
    ------
    OutsideDomain
        Something lies outside and the scenario does not accept extrapolation (`outside_domain = "clip"`).
    """
    calibration = service.deployment.calibration
    prompt_tokens, most = _step_of_prompts(service, requests), calibration.domain.tokens
    calibration.check_domain(
        # Short prompts alone say nothing: larger steps may come with the batch.
        tokens=prompt_tokens if most is not None and prompt_tokens > most[1] else None,
        context_tokens=_longest(requests),
        draft_tokens=draft_tokens,
        outside=service.scenario.hardware.outside_domain,
    )


def domain_findings(
    service: Service, requests: Workload, *, mean_batch: float, draft_tokens: int | None
) -> tuple[str, ...]:
    """Sentences about batches, steps, contexts and K outside the measured ranges.

    `mean_batch` is the largest of all runs; `draft_tokens` is None for plain decoding.

    Raises
    ------
    OutsideDomain
        There are some and the scenario does not accept extrapolation (`outside_domain = "clip"`).
    """
    batch = min(math.ceil(mean_batch), service.off.costs.max_sequences)
    budget = service.off.limits.max_batched_tokens
    return service.deployment.calibration.check_domain(
        tokens=max(min(budget, batch * ((draft_tokens or 0) + 1)), _step_of_prompts(service, requests)),
        batch=max(1, batch),
        context_tokens=_longest(requests),
        draft_tokens=draft_tokens,
        outside=service.scenario.hardware.outside_domain,
    )


def _step_of_prompts(service: Service, requests: Workload) -> int:
    return min(service.off.limits.max_batched_tokens, int(requests.prompt_tokens.max()))


def _longest(requests: Workload) -> int:
    return int((requests.prompt_tokens + requests.output_tokens).max())
