"""What a lab run does, as numbers; no torch here, so that a command line can show them."""

import math
from dataclasses import dataclass
from typing import Literal

GEMMA = "gemma"
"""The model that needs no folder."""
ProposerKind = Literal["ngram", "suffix", "head", "layer-skip", "draft"]


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """How answers are generated.

    `temperature` 0 is greedy; entropies are then those of temperature 1, for a greedy law has none.
    """

    draft_tokens: int = 4
    answer_tokens: int = 48
    temperature: float = 0.8
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How a head is trained.

    Attributes
    ----------
    first_layers_fraction
        Share of the target's layers that the head stands on.
    draft_vocab
        Ids the head can propose: the most frequent of the training text.
    unrolled
        Drafts trained per step in the last `unrolled_fraction` of the steps, the first on the target's hidden states,
        each later one on those of the draft before it; the steps before train the first draft only.
    window_count
        Windows of text taken from the slices together.
    """

    window_tokens: int = 192
    window_count: int = 900
    batch_windows: int = 2
    epochs: int = 2
    unrolled: int = 2
    unrolled_fraction: float = 0.25
    first_layers_fraction: float = 0.67
    draft_vocab: int = 8192
    learning_rate: float = 5e-4
    warmup_fraction: float = 0.05
    seed: int = 0

    def first_layers(self, layers: int) -> int:
        """Of a target with so many: at least one where there are two, at most all but one."""
        return min(max(1, round(self.first_layers_fraction * layers)), layers - 1)

    def rate(self, step: int, steps: int) -> float:
        """Share of the learning rate in a step: a linear warm-up under a falling cosine."""
        warm = min(1.0, (step + 1) / max(1.0, self.warmup_fraction * steps))
        return warm * 0.5 * (1.0 + math.cos(math.pi * step / steps))
