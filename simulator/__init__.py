"""What happens over time: workload, scheduler, acceptance, one replica on one clock, results."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.acceptance import IidAcceptance, LengthAcceptance
    from simulator.compare import paired_speedup
    from simulator.limits import EngineLimits
    from simulator.policy import DraftByBatch, FixedDraft
    from simulator.proposers import HeadProposer, NgramProposer, NoProposer
    from simulator.replica import Speculation, simulate
    from simulator.result import Result, Slo
    from simulator.workload import Workload, make_workload

__all__ = [
    "DraftByBatch",
    "EngineLimits",
    "FixedDraft",
    "HeadProposer",
    "IidAcceptance",
    "LengthAcceptance",
    "NgramProposer",
    "NoProposer",
    "Result",
    "Slo",
    "Speculation",
    "Workload",
    "make_workload",
    "paired_speedup",
    "simulate",
]

_HOME = {
    "DraftByBatch": "simulator.policy",
    "EngineLimits": "simulator.limits",
    "FixedDraft": "simulator.policy",
    "HeadProposer": "simulator.proposers",
    "IidAcceptance": "simulator.acceptance",
    "LengthAcceptance": "simulator.acceptance",
    "NgramProposer": "simulator.proposers",
    "NoProposer": "simulator.proposers",
    "Result": "simulator.result",
    "Slo": "simulator.result",
    "Speculation": "simulator.replica",
    "Workload": "simulator.workload",
    "make_workload": "simulator.workload",
    "paired_speedup": "simulator.compare",
    "simulate": "simulator.replica",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that importing the package costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'simulator' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
