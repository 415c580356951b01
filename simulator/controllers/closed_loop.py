"""K by the measured acceptance length: SGLang's adaptive speculative decoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.controllers.base import CLOSED_LOOP, Slot, StepControl

SGLANG_SLOTS = (
    Slot(1, (1, 3, 5, 7)),
    Slot(8, (0, 1, 3), down_hysteresis=0.0),
    Slot(32, (0, 1), down_hysteresis=0.0),
    Slot(64, (0,), down_hysteresis=0.0),
)
"""Defaults of SGLang 0.5.23; https://docs.sglang.io/advanced_features/adaptive_speculative_decoding.html, 2026-11."""


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A slot per range of batch sizes, each with its own moving average of accepted drafts and its own K.

    `start` is the K a slot begins with where it is a candidate, else the middle candidate.
    """

    slots: tuple[Slot, ...] = SGLANG_SLOTS
    start: int = 3

    def __post_init__(self) -> None:
        """Refuse slots the engine would refuse."""
        batches = [slot.batch for slot in self.slots]
        if not batches or batches != sorted(set(batches)) or batches[0] < 1:
            raise InvalidInput(f"slots must rise from batch size 1 or more, got {batches}; sort them, one each")
        for slot in self.slots:
            steps = slot.candidate_steps
            if not steps or min(steps) < 0 or list(steps) != sorted(set(steps)):
                raise InvalidInput(
                    f"candidate_steps of batch {slot.batch} must be rising K of 0 or more, got {list(steps)}; "
                    "write e.g. [0, 1, 3]"
                )
            if not 0.0 < slot.ema_alpha <= 1.0 or slot.update_interval < 1 or slot.warmup_batches < 0:
                raise InvalidInput(
                    f"slot of batch {slot.batch}: ema_alpha must be in (0, 1], update_interval at least 1, "
                    f"warmup_batches at least 0, got {slot.ema_alpha}, {slot.update_interval}, {slot.warmup_batches}"
                )
        if self.max_draft_tokens < 1:
            raise InvalidInput("candidate_steps are all 0, so nothing is ever drafted; give a larger K to choose from")

    @property
    def max_draft_tokens(self) -> int:
        """The largest candidate."""
        return max(slot.candidate_steps[-1] for slot in self.slots)

    def start_index(self, slot: Slot) -> int:
        """Candidate a slot begins with."""
        steps = slot.candidate_steps
        return steps.index(self.start) if self.start in steps else len(steps) // 2

    def by_batch(self, max_sequences: int) -> NDArray[np.int64]:
        """Where every batch size starts."""
        table = np.zeros(max_sequences + 1, dtype=np.int64)
        for index, slot in enumerate(self.slots):
            first = slot.batch if index else 0
            table[min(first, max_sequences + 1) :] = slot.candidate_steps[self.start_index(slot)]
        return table

    def control(self) -> StepControl:
        """The rule."""
        return StepControl(CLOSED_LOOP, self.max_draft_tokens, slots=self.slots)


def closed_loop_from_config(config: Mapping[str, Any], *, start: int = 3) -> ClosedLoop:
    """From SGLang's `--speculative-adaptive-config`: batch sizes as keys; other keys are defaults of every slot.

    Raises
    ------
    InvalidInput
        No batch size, or a key that SGLang does not know.
    """
    known = {field.name for field in fields(Slot)} - {"batch"}
    shared = {key: value for key, value in config.items() if not key.isdigit() and key != "strategy"}
    slots: list[Slot] = []
    for key in sorted((key for key in config if key.isdigit()), key=int):
        values = {**shared, **config[key]}
        if set(values) - known or "candidate_steps" not in values:
            raise InvalidInput(
                f"adaptive config, batch {key}: keys must be candidate_steps and among {sorted(known)}, "
                f"got {sorted(values)}; remove or rename the others"
            )
        steps = tuple(sorted(set(values.pop("candidate_steps"))))
        slots.append(Slot(batch=int(key), candidate_steps=steps, **values))
    if not slots:
        raise InvalidInput(
            f"adaptive config needs batch sizes as keys, got {sorted(config)}; e.g. "
            '{"1": {"candidate_steps": [1, 3]}}'
        )
    return ClosedLoop(tuple(slots), start)
