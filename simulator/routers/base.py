"""What a router is: built in, as a rule of the compiled loop, or a user's own object asked at every arrival."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A built-in router in numbers: `kind` of `simulator.cluster_loop`, and the bounds of the prefix-aware one."""

    kind: int
    match_fraction: float = 0.0
    imbalance_requests: int = 0
    imbalance_ratio: float = 1.0


@runtime_checkable
class BuiltInRouter(Protocol):
    """A router that the compiled loop follows."""

    def rule(self) -> RouteRule:
        """The rule in numbers."""
        ...


@dataclass(frozen=True, slots=True)
class Routed:
    """The request to route, as a router sees it: nobody knows its output yet."""

    request: int
    now_s: float
    prompt_tokens: int
    class_id: int


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """A replica that takes requests: those in it, those of them in its batch, and what of this prompt it has cached."""

    replica: int
    outstanding: int
    running: int
    cached_tokens: int


@runtime_checkable
class OwnRouter(Protocol):
    """A user's router: a Python call for every request."""

    def choose(self, request: Routed, replicas: Sequence[ReplicaSeen]) -> int:
        """`replica` of the one that gets the request."""
        ...


Router = BuiltInRouter | OwnRouter
