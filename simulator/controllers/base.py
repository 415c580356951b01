"""What the simulator asks of whoever chooses K while it runs."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from simulator.control import BUDGET, CLOSED_LOOP, OPTIMAL, STATIC
from simulator.policy import DraftPolicy

__all__ = [
    "BUDGET",
    "CLOSED_LOOP",
    "OPTIMAL",
    "STATIC",
    "Controller",
    "Observation",
    "Slot",
    "StepControl",
    "StepPolicy",
]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a controller sees: the state now, and what happened since it was last asked.

    `acceptance_length` is 1 where no draft was verified; `draft_tokens` is K at the present batch.
    """

    now_s: float
    running: int
    waiting: int
    draft_tokens: int
    rounds: int
    acceptance_length: float
    emitted_tokens: int
    busy_s: float


class Controller(Protocol):
    """A user's controller: a Python object that is asked every `interval_s` of simulated time."""

    @property
    def interval_s(self) -> float:
        """Seconds between two questions."""
        ...

    def decide(self, seen: Observation) -> DraftPolicy:
        """The policy from now on, e.g. `FixedDraft(3)`; its K must not exceed that of the policy it started with."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """Closed loop from a batch size on: the K it may choose and SGLang's constants, by their names there."""

    batch: int
    candidate_steps: tuple[int, ...]
    up_hysteresis: float = 0.0
    down_hysteresis: float = -0.25
    ceiling_coeff: float = 0.0
    ema_alpha: float = 0.2
    update_interval: int = 5
    warmup_batches: int = 10


@dataclass(frozen=True, slots=True)
class StepControl:
    """A compiled rule with its parameters; `kind` is one of `simulator.control`'s."""

    kind: int
    max_draft_tokens: int
    least_gain_fraction: float = 0.0
    slots: tuple[Slot, ...] = ()


@runtime_checkable
class StepPolicy(DraftPolicy, Protocol):
    """A policy that decides in every step, in compiled code; `by_batch` is where it starts."""

    def control(self) -> StepControl:
        """The rule."""
        ...
