"""Who chooses the number of drafts while the engine runs, one file each; fixed and by batch: `simulator.policy`."""

from simulator.controllers.adaptive_budget import AdaptiveBudget
from simulator.controllers.base import Controller, Observation, Slot
from simulator.controllers.closed_loop import SGLANG_SLOTS, ClosedLoop, closed_loop_from_config
from simulator.controllers.export import ranges_of, sglang_config, vllm_config
from simulator.controllers.off_above import OffAbove
from simulator.controllers.throughput_optimal import ThroughputOptimal

__all__ = [
    "SGLANG_SLOTS",
    "AdaptiveBudget",
    "ClosedLoop",
    "Controller",
    "Observation",
    "OffAbove",
    "Slot",
    "ThroughputOptimal",
    "closed_loop_from_config",
    "ranges_of",
    "sglang_config",
    "vllm_config",
]
