"""Published times of passes and rounds beside the cost table: `cost_curves.csv`, rows that nothing was fitted to.

Quantities: `step_s` seconds of a step (a whole round where a method is given); `verify_ratio` the target's pass over
`rows` rows of one sequence over its plain pass; `batch_ratio` a plain step of `batch` sequences over one of a single
sequence, `batch_scaling` the tokens per second that gains; `draft_share` drafting over the whole round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from roofline.cost import round_cost
from roofline.errors import InvalidInput, SpecdecError
from scenarios.build import Arm, Service, build_service
from scenarios.schema import Scenario
from scenarios.validate.checks import given, speculation_of, whole
from scenarios.validate.rows import DATA_FOLDER, Problem, is_blank, number, read_table

CURVES = DATA_FOLDER / "cost_curves.csv"
COLUMNS = (
    "curve", "source", "url", "quantity", "x", "measured", "low", "high", "hardware", "tensor_parallel", "engine",
    "target", "target_quantization", "method", "draft", "k", "tree", "batch", "rows", "context_tokens", "assumed",
    "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One published point, its prediction or the reason for none. `low`, `high`: where a range was published."""

    curve: str
    source: str
    quantity: str
    x: str
    measured: float
    low: float
    high: float
    assumed: str
    status: Literal["computed", "not computed"]
    reason: str = ""
    predicted: float = math.nan
    label: str = ""

    @property
    def error(self) -> float:
        """Predicted over measured minus 1; 0 inside a published range, counted from its nearer end outside."""
        nearest = min(max(self.predicted, self.low), self.high) if self.low < self.high else self.measured
        return self.predicted / nearest - 1.0


def curve_points(path: Path = CURVES) -> tuple[tuple[CurvePoint, ...], tuple[Problem, ...]]:
    """Every point of a file with its prediction, and what was wrong with the file."""
    table = read_table(path, columns=COLUMNS)
    return tuple(_point(cells) for cells in table.rows), table.problems


def _point(cells: dict[str, str]) -> CurvePoint:
    found = number(cells["measured"])
    measured = found.value if found else math.nan
    low, high = ((number(cells[name]) or found) for name in ("low", "high"))
    status: Literal["computed", "not computed"] = "computed"
    reason, predicted, label = cells["reason"], math.nan, ""
    if not reason:
        try:
            service = _service(*(cells[name] for name in _DEPLOYMENT))
            predicted, label = _predicted(cells, service), service.deployment.calibration.label
        except (SpecdecError, ValueError) as error:
            reason = str(error).splitlines()[0]
    if reason:
        status = "not computed"
    return CurvePoint(
        curve=cells["curve"],
        source=cells["source"],
        quantity=cells["quantity"],
        x=cells["x"],
        measured=measured,
        low=low.value if low else measured,
        high=high.value if high else measured,
        assumed=cells["assumed"],
        status=status,
        reason=reason,
        predicted=predicted,
        label=label,
    )


_DEPLOYMENT = ("hardware", "tensor_parallel", "engine", "target", "target_quantization", "method", "draft", "k", "tree")


@lru_cache(maxsize=8)
def _service(*deployment: str) -> Service:
    cells = dict(zip(_DEPLOYMENT, deployment, strict=True))
    speculates = not is_blank(cells["method"])
    table: dict[str, Any] = {
        "target": given({"model": cells["target"], "quantization": cells["target_quantization"]}),
        "hardware": {"gpu": cells["hardware"], "tensor_parallel": whole(cells["tensor_parallel"]) or 1},
        "engine": {"profile": cells["engine"], "max_sequences": 64},
        "speculation": speculation_of({**cells, "draft_quantization": ""}) if speculates else {},
        "workload": {"kind": "closed", "concurrency": 1, "input_tokens": 256, "output_tokens": 256},
        "run": {"max_draft_tokens": 1},
    }
    return build_service(Scenario.model_validate(table))


def _predicted(cells: dict[str, str], service: Service) -> float:
    batch, context = whole(cells["batch"]) or 1, whole(cells["context_tokens"]) or 0
    quantity = cells["quantity"]
    if quantity == "step_s":
        return _round_s(service.on or service.off, service, batch, context)
    if quantity == "draft_share":
        assert service.on is not None
        cost = round_cost(service.on.costs, batch=batch, context_tokens=context, draft_tokens=service.draft_tokens)
        return cost.draft_s / cost.round_s
    if quantity == "verify_ratio":
        return _pass_ratio(service, whole(cells["rows"]) or 1, context)
    one_s, batch_s = (_round_s(service.off, service, size, context) for size in (1, batch))
    if quantity == "batch_ratio":
        return batch_s / one_s
    if quantity == "batch_scaling":
        return batch * one_s / batch_s
    raise InvalidInput(f"quantity {quantity!r} is not known; use step_s, verify_ratio, batch_ratio, batch_scaling or "
                       "draft_share")  # fmt: skip


def _round_s(arm: Arm, service: Service, batch: int, context: int) -> float:
    drafts = service.draft_tokens if arm is service.on else 0
    return round_cost(arm.costs, batch=batch, context_tokens=context, draft_tokens=drafts).round_s


def _pass_ratio(service: Service, rows: int, context: int) -> float:
    """A verification of so many rows of one sequence over a plain pass, drafting and host left out of the first."""
    costs = service.off.costs
    plain_s = round_cost(costs, batch=1, context_tokens=context, draft_tokens=0)
    verify_s = verification_s(service, rows=rows, context_tokens=context)
    return verify_s / (plain_s.plain_s - plain_s.host_s)


def verification_s(service: Service, *, rows: int, context_tokens: int) -> float:
    """Seconds of the target's pass over `rows` rows of one sequence, host time left out."""
    from roofline.account import pass_account

    account = pass_account(
        service.target, service.deployment.shard(), batch=1, rows_each=rows, context_tokens=context_tokens
    )
    return sum(row.seconds for row in account)


def computed(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    """The points that have a prediction."""
    return tuple(point for point in points if point.status == "computed")
