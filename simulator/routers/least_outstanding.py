"""The replica that holds the fewest requests."""

from dataclasses import dataclass

from simulator.cluster_loop import LEAST_OUTSTANDING
from simulator.routers.base import RouteRule


@dataclass(frozen=True, slots=True)
class LeastOutstanding:
    """Fewest requests routed and not finished; of several, the next after the last chosen."""

    def rule(self) -> RouteRule:
        """The rule in numbers."""
        return RouteRule(LEAST_OUTSTANDING)
