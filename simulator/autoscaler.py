"""How many replicas a load gets while it changes: a target of requests per replica, held by starting and stopping."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What a scaler sees: requests in all replicas, replicas that take requests, and those that are starting."""

    now_s: float
    outstanding: int
    serving: int
    starting: int


class Scaling(Protocol):
    """A decision asked for at every interval; its own memory starts with the run."""

    def wanted(self, seen: ClusterSeen) -> int:
        """Replicas that should be serving or starting."""
        ...


class Scaler(Protocol):
    """Settings of an autoscaler, a user's own too. `begin` gives the object that decides in one run."""

    @property
    def min_replicas(self) -> int:
        """Replicas there from the start and never stopped."""
        ...

    @property
    def max_replicas(self) -> int:
        """Most that are ever paid at once, those that empty out left aside."""
        ...

    @property
    def interval_s(self) -> float:
        """Seconds between decisions."""
        ...

    @property
    def start_delay_s(self) -> float:
        """From the decision to the first request a new replica takes; paid."""
        ...

    def begin(self) -> Scaling:
        """A decider without memory."""
        ...


@dataclass(frozen=True, slots=True)
class Autoscaler:
    """As many replicas as hold `target_outstanding` requests each; down only to the most of the last `cool_down_s`.

    The rule of Kubernetes' horizontal autoscaler on a metric per pod, without its tolerance, and its stabilisation
    window for scaling down (https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/).
    `start_delay_s` is the user's to know: scheduling, pulling weights, loading, capturing graphs.
    """

    target_outstanding: float
    min_replicas: int
    max_replicas: int
    start_delay_s: float
    cool_down_s: float = 300.0
    interval_s: float = 15.0

    def __post_init__(self) -> None:
        """Refuse settings under which nothing could be decided."""
        if not 1 <= self.min_replicas <= self.max_replicas:
            raise InvalidInput(
                f"replicas must satisfy 1 <= min <= max, got {self.min_replicas} and {self.max_replicas}; correct them"
            )
        if not (math.isfinite(self.target_outstanding) and self.target_outstanding > 0):
            raise InvalidInput(f"target_outstanding must be above 0, got {self.target_outstanding}; e.g. 20 requests")
        for name in ("start_delay_s", "cool_down_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InvalidInput(f"{name} must be 0 or more seconds, got {getattr(self, name)}; e.g. 120")
        if not (math.isfinite(self.interval_s) and self.interval_s > 0):
            raise InvalidInput(f"interval_s must be above 0, got {self.interval_s}; e.g. 15")

    def begin(self) -> Scaling:
        """A decider without memory."""
        return _TargetHolder(self)


class _TargetHolder:
    """Remembers what was wanted within the cool-down."""

    def __init__(self, settings: Autoscaler) -> None:
        self._settings = settings
        self._wanted: deque[tuple[float, int]] = deque()

    def wanted(self, seen: ClusterSeen) -> int:
        """Up at once, down to the most that was wanted within the cool-down."""
        settings, present = self._settings, seen.serving + seen.starting
        needed = math.ceil(seen.outstanding / settings.target_outstanding)
        needed = min(max(needed, settings.min_replicas), settings.max_replicas)
        if not self._wanted:
            self._wanted.append((seen.now_s, present))
        self._wanted.append((seen.now_s, needed))
        while self._wanted[0][0] < seen.now_s - settings.cool_down_s:
            self._wanted.popleft()
        lately = max(count for _, count in self._wanted)
        return max(needed, min(present, lately))
