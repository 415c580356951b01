"""What a lab run measures."""

from __future__ import annotations

from dataclasses import dataclass, field

from calibrate.lab.plans import GEMMA, LoopPlan, ProposerKind, TrainingPlan


@dataclass(frozen=True, slots=True)
class LabPlan:
    """What is measured; two runs with the same plan write the same bytes but for times.

    `prompts` passages of `prompt_tokens` real tokens per slice are continued by the model.
    """

    model: str = GEMMA
    proposer: ProposerKind = "head"
    draft_model: str | None = None
    head: str | None = None
    tasks: str | None = None
    temperatures: tuple[float, ...] = (0.8,)
    prompts: int = 24
    prompt_tokens: int = 96
    loop: LoopPlan = field(default_factory=LoopPlan)
    training: TrainingPlan = field(default_factory=TrainingPlan)
