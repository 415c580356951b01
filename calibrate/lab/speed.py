"""End to end: the measured speed-up of the loop against what its step times and its acceptance predict.

The step times come from scrambled prompts, whose drafts are hardly ever right, so they know nothing of the text; the
acceptance comes from the rounds of the loop itself. What is tested is that a round costs what its parts cost, the
sampling over the whole vocabulary included, whatever is accepted.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibrate.engine.loop import Engine
from calibrate.engine.sequences import Sequences
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.measure import LoopPlan, ProposerFor


@dataclass(frozen=True, slots=True)
class SpeedCell:
    """Measured against predicted at batch 1; seconds are means.

    Attributes
    ----------
    plain_s, round_s
        One plain step and one speculative round on scrambled prompts.
    acceptance_length
        AL of the timed rounds.
    """

    plain_s: float
    round_s: float
    acceptance_length: float
    measured_speedup: float

    @property
    def round_cost(self) -> float:
        """R: a round in plain steps."""
        return self.round_s / self.plain_s

    @property
    def predicted_speedup(self) -> float:
        """`S = AL / R`."""
        return self.acceptance_length / self.round_cost

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted_speedup / self.measured_speedup - 1.0


def measure_speed(
    target: LanguageModel, proposer_for: ProposerFor, *, prompts: Sequence[Sequence[int]], plan: LoopPlan
) -> SpeedCell:
    """Time plain steps and speculative rounds in turn, on every prompt and on the same tokens scrambled.

    Four loops take turns step by step, whichever of the two on real text is behind in tokens going first, so that what
    else this machine does falls on all of them alike.
    """
    shuffled = np.random.default_rng(plan.seed)
    real: list[_Pair] = []
    apart: list[_Pair] = []
    with torch.inference_mode():
        for prompt in prompts:
            other = [*prompt[:1], *shuffled.permutation(prompt[1:]).tolist()]
            real.append(_pair(target, proposer_for, list(prompt), plan=plan))
            apart.append(_pair(target, proposer_for, other, plan=plan))
            _take_turns(real[-1], apart[-1], tokens=plan.answer_tokens)
    plain_rate = _sum(real, 0, "tokens") / _sum(real, 0, "seconds")
    speculative_rate = _sum(real, 1, "tokens") / _sum(real, 1, "seconds")
    return SpeedCell(
        plain_s=_sum(apart, 0, "seconds") / _sum(apart, 0, "steps"),
        round_s=_sum(apart, 1, "seconds") / _sum(apart, 1, "steps"),
        acceptance_length=_sum(real, 1, "tokens") / _sum(real, 1, "steps"),
        measured_speedup=speculative_rate / plain_rate,
    )


class _Loop:
    """One loop on one prompt, stepped by hand; the first step is not timed.

    A head's first draft pass runs over the whole prompt, which is prefill work.
    """

    def __init__(
        self, target: LanguageModel, proposer_for: ProposerFor | None, prompt: list[int], *, plan: LoopPlan
    ) -> None:
        self._draft_tokens = plan.draft_tokens
        # Scrambled text may be so predictable that a loop on it overtakes the one on real text.
        capacity = len(prompt) + (plan.draft_tokens + 1) * (plan.answer_tokens + 2)
        self._sequences = Sequences.from_prompts([prompt], capacity_tokens=capacity, device=target.device)
        generator = torch.Generator(device=target.device).manual_seed(plan.seed)
        cache = target.empty_cache(batch=1, capacity_tokens=capacity)
        self._engine = Engine(target, cache, plan.temperature, generator)
        ids = torch.tensor([prompt], device=target.device)
        self._proposer = None if proposer_for is None else proposer_for(ids, (1, capacity))
        self._engine.prefill(self._sequences)
        self._run()
        self._start = self._length
        self.seconds, self.steps = 0.0, 0

    @property
    def tokens(self) -> int:
        """Emitted since the clock started."""
        return self._length - self._start

    @property
    def _length(self) -> int:
        return int(self._sequences.lengths[0])

    def step(self) -> None:
        """One step or round, timed."""
        begun = time.perf_counter()
        self._run()
        self.seconds += time.perf_counter() - begun
        self.steps += 1

    def _run(self) -> None:
        longest = self._length
        if self._proposer is None:
            self._engine.plain_step(self._sequences, span=longest)
        else:
            span = longest + self._draft_tokens + 1
            self._engine.speculative_round(self._sequences, self._proposer, draft_tokens=self._draft_tokens, span=span)


_Pair = tuple[_Loop, _Loop]
"""The plain and the speculative loop on one prompt."""


def _pair(target: LanguageModel, proposer_for: ProposerFor, prompt: list[int], *, plan: LoopPlan) -> _Pair:
    return _Loop(target, None, prompt, plan=plan), _Loop(target, proposer_for, prompt, plan=plan)


def _take_turns(real: _Pair, apart: _Pair, *, tokens: int) -> None:
    while min(real[0].tokens, real[1].tokens) < tokens:
        behind = 0 if real[0].tokens <= real[1].tokens else 1
        real[behind].step()
        apart[behind].step()


def _sum(pairs: list[_Pair], which: int, what: str) -> float:
    return float(sum(getattr(pair[which], what) for pair in pairs))
