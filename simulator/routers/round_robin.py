"""In turn, whatever they hold."""

from dataclasses import dataclass

from simulator.cluster_loop import ROUND_ROBIN
from simulator.routers.base import RouteRule


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Replicas take requests in turn."""

    def rule(self) -> RouteRule:
        """The rule in numbers."""
        return RouteRule(ROUND_ROBIN)
