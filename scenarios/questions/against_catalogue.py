"""How a calibration moves the answer: break-even and speed-up of a steady batch, beside catalogue efficiencies."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.calibration import Calibration
from roofline.cost import TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.errors import OutsideDomain
from roofline.step_table import StepCostTable
from scenarios.build import Service
from scenarios.questions.assumptions import Assumption


def moved_from_catalogue(service: Service, batches: Sequence[float], context_tokens: int) -> tuple[Assumption, ...]:
    """One sentence for a calibrated service: R, and the speed-up AL / R, at these batches under both constants.

    Empty where the service already runs on catalogue constants, or no batch of drafts fits a step.
    """
    deployment, on = service.deployment, service.on
    if on is None or deployment.calibration.label != "calibrated" or service.draft_tokens == 0:
        return ()
    fitting = sorted({_steady(service, batch) for batch in batches})
    try:
        published = _table(service, catalogue_calibration(deployment.gpu, service.engine), fitting[-1])
        fitted = _table(service, deployment.calibration, fitting[-1])
    except OutsideDomain as error:
        return (Assumption("calibrated", f"not compared with catalogue efficiencies: {error}"),)
    length = service.middle_case.length(service.draft_tokens) if service.cases else None
    parts: list[str] = []
    flipped = False
    for batch in fitting:
        ratios = [
            round_cost(table, batch=batch, context_tokens=context_tokens, draft_tokens=service.draft_tokens).ratio
            for table in (published, fitted)
        ]
        flipped |= length is not None and (length > ratios[0]) != (length > ratios[1])
        parts.append(f"{batch}: {_change(ratios, length)}")
    what = "AL needed" if length is None else "speed-up"
    verdict = "" if length is None else f"; the verdict {'moves' if flipped else 'stays'} at these batches"
    text = f"against catalogue efficiencies, {what} of a steady batch of {'; '.join(parts)}{verdict}"
    return (Assumption("calibrated", text),)


def _change(ratios: list[float], length: float | None) -> str:
    before, after = ratios if length is None else [length / ratio for ratio in ratios]
    return f"{before:.2f} -> {after:.2f}"


def _steady(service: Service, batch: float) -> int:
    """The batch as a whole number whose verification fits a step."""
    assert service.on is not None
    most = service.on.limits.max_batched_tokens // (service.draft_tokens + 1)
    return max(1, min(round(batch), most, service.on.limits.max_sequences))


def _table(service: Service, calibration: Calibration, batch: int) -> StepCostTable:
    assert service.on is not None
    return step_cost_table(
        service.target,
        service.deployment.model_copy(update={"calibration": calibration}),
        size=TableSize(
            max_tokens=batch * (service.draft_tokens + 1),
            max_sequences=batch,
            max_draft_tokens=service.draft_tokens,
        ),
        draft=service.draft,
        work=service.on.proposer.work,
    )
