"""Routers of a cluster, one a file."""

from simulator.routers.base import BuiltInRouter, OwnRouter, ReplicaSeen, Routed, Router, RouteRule
from simulator.routers.least_outstanding import LeastOutstanding
from simulator.routers.prefix_aware import PrefixAware
from simulator.routers.round_robin import RoundRobin

__all__ = [
    "BuiltInRouter",
    "LeastOutstanding",
    "OwnRouter",
    "PrefixAware",
    "ReplicaSeen",
    "RoundRobin",
    "RouteRule",
    "Routed",
    "Router",
]
