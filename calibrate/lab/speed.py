"""End to end: the measured speed-up of the loop against the one predicted from step times and acceptance.

Neither half of the prediction has seen the text that is timed: step times come from scrambled prompts, acceptance from
the lab's own answers, given in one batch with other random numbers. It holds where a round costs the same whatever its
text and whatever is accepted, the sampling over the whole vocabulary included.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibrate.engine.loop import Engine
from calibrate.engine.sequences import Sequences
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.measure import ProposerFor
from calibrate.lab.plans import LoopPlan

Clock = Callable[[], float]
"""Seconds since whenever."""


@dataclass(frozen=True, slots=True)
class SpeedCell:
    """Measured against predicted at batch 1; seconds are means over steps.

    Attributes
    ----------
    plain_s, round_s
        One plain step and one speculative round on scrambled prompts.
    acceptance_length
        AL of the lab's answers.
    timed_acceptance_length
        AL of the timed rounds: how far it is off the other is chance, and part of the error.
    measured_low, measured_high
        Quartiles over prompts.
    """

    plain_s: float
    round_s: float
    acceptance_length: float
    timed_acceptance_length: float
    measured_speedup: float
    measured_low: float
    measured_high: float

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
    target: LanguageModel,
    proposer_for: ProposerFor,
    *,
    prompts: Sequence[Sequence[int]],
    plan: LoopPlan,
    acceptance_length: float,
    clock: Clock = time.perf_counter,
) -> SpeedCell:
    """Time plain steps and speculative rounds in turn, on every prompt and on the tokens of every second one scrambled.

    The loops take turns step by step, so that what else this machine does falls on all of them alike.

    Parameters
    ----------
    acceptance_length
        Of the lab's answers at the same temperature.
    """
    shuffled = np.random.default_rng(plan.seed)

    def loops(prompt: Sequence[int]) -> _Loops:
        return _Loops(*(_Loop(target, each, list(prompt), plan=plan, clock=clock) for each in (None, proposer_for)))

    real: list[_Loops] = []
    scrambled: list[_Loops] = []
    with torch.inference_mode():
        for index, prompt in enumerate(prompts):
            real.append(loops(prompt))
            if index % 2 == 0:
                scrambled.append(loops([*prompt[:1], *shuffled.permutation(prompt[1:]).tolist()]))
            _take_turns(real[-1], scrambled[-1] if index % 2 == 0 else None, tokens=plan.answer_tokens)
    plain, speculative = [pair.plain for pair in real], [pair.speculative for pair in real]
    each = [pair.speculative.tokens_per_s / pair.plain.tokens_per_s for pair in real]
    low, high = np.quantile(each, (0.25, 0.75))
    return SpeedCell(
        plain_s=_mean_step_s(pair.plain for pair in scrambled),
        round_s=_mean_step_s(pair.speculative for pair in scrambled),
        acceptance_length=acceptance_length,
        timed_acceptance_length=sum(loop.tokens for loop in speculative) / sum(loop.steps for loop in speculative),
        measured_speedup=_tokens_per_s(speculative) / _tokens_per_s(plain),
        measured_low=float(low),
        measured_high=float(high),
    )


class _Loop:
    """One loop on one prompt, stepped by hand; it goes on past an end of text.

    The first step is not timed: a head's first draft pass runs over the whole prompt, which is prefill work.
    """

    def __init__(
        self,
        target: LanguageModel,
        proposer_for: ProposerFor | None,
        prompt: list[int],
        *,
        plan: LoopPlan,
        clock: Clock,
    ) -> None:
        self._draft_tokens, self._clock = plan.draft_tokens, clock
        # Scrambled text may happen to be predictable, and its loop then overtakes the one on real text.
        capacity = len(prompt) + (plan.draft_tokens + 1) * (plan.answer_tokens + 2)
        self._sequences = Sequences.from_prompts([prompt], capacity_tokens=capacity, device=target.device)
        generator = torch.Generator(device=target.device).manual_seed(plan.seed)
        cache = target.empty_cache(batch=1, capacity_tokens=capacity)
        self._engine = Engine(target, cache, plan.temperature, generator)
        ids = torch.tensor([prompt], device=target.device)
        self._proposer = None if proposer_for is None else proposer_for(ids, (1, capacity))
        self._engine.prefill(self._sequences)
        self._run()
        self._begun_at_tokens = self._length
        self.elapsed_s, self.steps = 0.0, 0

    @property
    def tokens(self) -> int:
        """Emitted since the clock started."""
        return self._length - self._begun_at_tokens

    @property
    def tokens_per_s(self) -> float:
        """Of the timed steps."""
        return self.tokens / self.elapsed_s

    @property
    def _length(self) -> int:
        return int(self._sequences.lengths[0])

    def step(self) -> None:
        """One step or round, timed."""
        begun_s = self._clock()
        self._run()
        self.elapsed_s += self._clock() - begun_s
        self.steps += 1

    def _run(self) -> None:
        longest = self._length
        if self._proposer is None:
            self._engine.plain_step(self._sequences, span=longest)
        else:
            span = longest + self._draft_tokens + 1
            self._engine.speculative_round(self._sequences, self._proposer, draft_tokens=self._draft_tokens, span=span)


@dataclass(frozen=True, slots=True)
class _Loops:
    """Both loops on one prompt."""

    plain: _Loop
    speculative: _Loop


def _take_turns(real: _Loops, scrambled: _Loops | None, *, tokens: int) -> None:
    """Step until both loops on real text are through, the one behind in tokens first, each with its double."""
    turn = 0
    while min(real.plain.tokens, real.speculative.tokens) < tokens:
        behind = real.plain.tokens <= real.speculative.tokens
        pair = [real.plain if behind else real.speculative]
        if scrambled is not None:
            pair.append(scrambled.plain if behind else scrambled.speculative)
        for loop in pair if turn % 2 == 0 else reversed(pair):
            loop.step()
        turn += 1


def _mean_step_s(loops: Iterable[_Loop]) -> float:
    timed = list(loops)
    return sum(loop.elapsed_s for loop in timed) / sum(loop.steps for loop in timed)


def _tokens_per_s(loops: list[_Loop]) -> float:
    return sum(loop.tokens for loop in loops) / sum(loop.elapsed_s for loop in loops)
