"""The replica that has most of the prompt cached, as long as the load stays balanced."""

from dataclasses import dataclass

from roofline.errors import InvalidInput
from simulator.cluster_loop import PREFIX_AWARE
from simulator.routers.base import RouteRule


@dataclass(frozen=True, slots=True)
class PrefixAware:
    """The longest cached prefix by blocks; of several, the fewest outstanding.

    The fewest outstanding altogether where less than `match_fraction` of the prompt is cached, or where the fullest
    replica holds more than `imbalance_requests` and more than `imbalance_ratio` times as many as the emptiest. Rule
    and defaults of the `cache_aware` policy of vLLM's router 0.1.15 and SGLang's gateway 0.3.1, as documented at
    https://docs.gpustack.ai/gpustack-operator/main/docs/modules/model-deployment/routing/; there the prefix is counted
    in characters.
    """

    match_fraction: float = 0.3
    imbalance_requests: int = 64
    imbalance_ratio: float = 1.5

    def __post_init__(self) -> None:
        """Refuse bounds without a meaning."""
        if not 0.0 <= self.match_fraction <= 1.0:
            raise InvalidInput(f"match_fraction must be in 0..1, got {self.match_fraction}; give a share, e.g. 0.3")
        if self.imbalance_requests < 0 or not self.imbalance_ratio >= 1.0:
            raise InvalidInput(
                "imbalance_requests must be 0 or more and imbalance_ratio at least 1, got "
                f"{self.imbalance_requests} and {self.imbalance_ratio}; e.g. 64 and 1.5"
            )

    def rule(self) -> RouteRule:
        """The rule in numbers."""
        return RouteRule(PREFIX_AWARE, self.match_fraction, self.imbalance_requests, self.imbalance_ratio)
