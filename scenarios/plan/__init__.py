"""How many GPUs does a service need: replicas for a load and its objectives, over GPU types, splits and precisions."""

from scenarios.plan.answer import Plan, PlanRow, Reached
from scenarios.plan.planning import plan
from scenarios.plan.question import MODES, Mode, PlanOptions, Price

__all__ = ["MODES", "Mode", "Plan", "PlanOptions", "PlanRow", "Price", "Reached", "plan"]
