"""What a million output tokens cost, where the user gave prices."""

from __future__ import annotations

from roofline.units import SECONDS_PER_HOUR
from scenarios.plan.answer import Cost, CountTried, PlanRow, Scaled
from scenarios.plan.question import PlanOptions

NO_COST = Cost(None, None, None, None)
MILLION = 1e6


def cost_of(row: PlanRow, options: PlanOptions, scaled: Scaled | None = None) -> Cost:
    """Per million output tokens; all None without prices or a count."""
    price = options.price(row.choice.gpu)
    count = row.count
    if count is None:
        return NO_COST
    mean = scaled.mean_replicas if scaled is not None else float(count.replicas)

    def cost(per_gpu_hour: float | None, replicas: float) -> float | None:
        if per_gpu_hour is None:
            return None
        return _per_million(per_gpu_hour, replicas * row.choice.gpus_per_replica, count)

    return Cost(
        usage_per_million_tokens=cost(price.per_gpu_hour, mean),
        reserved_per_million_tokens=cost(price.reserved_per_gpu_hour, count.replicas),
        usage_spare_per_million_tokens=cost(price.per_gpu_hour, mean + 1),
        reserved_spare_per_million_tokens=cost(price.reserved_per_gpu_hour, count.replicas + 1),
    )


def _per_million(per_gpu_hour: float, gpus: float, count: CountTried) -> float:
    tokens_per_hour = count.throughput_tokens_per_s * SECONDS_PER_HOUR
    return per_gpu_hour * gpus * MILLION / tokens_per_hour
