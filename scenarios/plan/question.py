"""What is asked: which deployments to compare, within which limits, at which prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Literal

from roofline.errors import InvalidInput
from scenarios.schema import Scenario

Mode = Literal["off", "static", "schedule", "dynamic"]
MODES: tuple[Mode, ...] = ("off", "static", "schedule", "dynamic")
"""Plain decoding; the scenario's own K; the best K by batch size; the K with the most tokens per second, every step."""

RouterName = Literal["least_outstanding", "round_robin", "prefix_aware"]
ROUTERS: tuple[RouterName, ...] = ("least_outstanding", "round_robin", "prefix_aware")

AS_STORED = ("bf16", "as stored")
"""Precisions that leave the checkpoint as it is."""


@dataclass(frozen=True, slots=True)
class Price:
    """Money for one GPU and hour, in the user's currency; None is not known, and then no cost is shown."""

    per_gpu_hour: float | None = None
    reserved_per_gpu_hour: float | None = None

    def __post_init__(self) -> None:
        """Refuse prices nobody pays."""
        for name in ("per_gpu_hour", "reserved_per_gpu_hour"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidInput(f"a price must be above 0, got {value}; write it like --price H100-SXM=2.5")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The comparison. Empty tuples take what the scenario says.

    `max_gpus` bounds what one row may use. `max_seeds`: most paired repetitions behind a decision; it stops earlier
    where the interval allows, and the first rows get up to four times as many. With `start_delay_s` (from the decision
    to the first request a new replica takes) an autoscaler is planned too. With `own_caches`, and always with the
    prefix-aware router, each replica has a prefix cache of its own and hits what it was sent before.
    """

    gpus: tuple[str, ...] = ()
    tensor_parallel: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    modes: tuple[Mode, ...] = MODES
    at: str | None = None
    max_gpus: int = 4096
    max_seeds: int = 4
    prices: tuple[tuple[str, Price], ...] = ()
    start_delay_s: float | None = None
    cool_down_s: float = 300.0
    router: RouterName = "least_outstanding"
    own_caches: bool = False

    def __post_init__(self) -> None:
        """Refuse a comparison of nothing."""
        if not self.modes or any(mode not in MODES for mode in self.modes):
            raise InvalidInput(
                f"modes must be among {', '.join(MODES)}, got {', '.join(self.modes) or 'none'}; name some of them"
            )
        if self.router not in ROUTERS:
            raise InvalidInput(f"the router must be one of {', '.join(ROUTERS)}, got {self.router!r}; choose one")
        for name, least in (("max_gpus", 1), ("max_seeds", 1)):
            if getattr(self, name) < least:
                raise InvalidInput(f"{name} must be at least {least}, got {getattr(self, name)}; raise it")

    @property
    def caches_by_replica(self) -> bool:
        """Whether every replica has a prefix cache of its own."""
        return self.own_caches or self.router == "prefix_aware"

    def price(self, gpu: str) -> Price:
        """What the user pays for a GPU."""
        return dict(self.prices).get(gpu, Price())


@dataclass(frozen=True, slots=True)
class Choice:
    """One deployment to look at. `parts`: pipeline stages times data-parallel ranks of the scenario."""

    gpu: str
    tensor_parallel: int
    precision: str
    parts: int = 1

    @property
    def gpus_per_replica(self) -> int:
        """GPUs of one engine."""
        return self.tensor_parallel * self.parts

    def applied_to(self, scenario: Scenario) -> Scenario:
        """The scenario on this machine; a serve line is dropped, whose contents the tables already hold."""
        hardware = {"gpu": self.gpu, "tensor_parallel": self.tensor_parallel, "draft_tensor_parallel": None}
        quantization = scenario.target.quantization if self.precision in AS_STORED else self.precision
        return scenario.model_copy(
            update={
                "serve": None,
                "hardware": scenario.hardware.model_copy(update=hardware),
                "target": scenario.target.model_copy(update={"quantization": quantization}),
            }
        )


def choices(scenario: Scenario, options: PlanOptions) -> tuple[Choice, ...]:
    """Every combination, in the order given."""
    own = scenario.hardware
    precision = scenario.target.quantization or "as stored"
    return tuple(
        Choice(gpu, tensor, chosen, own.pipeline_parallel * own.data_parallel)
        for gpu, tensor, chosen in product(
            options.gpus or (own.gpu,),
            options.tensor_parallel or (own.tensor_parallel,),
            options.precisions or (precision,),
        )
    )
