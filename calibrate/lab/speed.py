"""End to end: the measured speed-up of the loop against what its step times and its acceptance predict.

The step times come from scrambled prompts, whose drafts are hardly ever right, so they know nothing of the text; the
acceptance comes from the rounds of the loop itself. What is tested is that a round costs what its parts cost, the
sampling over the whole vocabulary included, whatever is accepted.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from calibrate.engine.loop import Engine
from calibrate.engine.proposers import Proposer
from calibrate.engine.sequences import Sequences
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.measure import LoopPlan, ProposerFor


@dataclass(frozen=True, slots=True)
class SpeedCell:
    """Measured against predicted at batch 1; seconds are medians over repetitions.

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


@dataclass(frozen=True, slots=True)
class _Timed:
    """Seconds of one stretch of decoding, its steps, and its tokens."""

    seconds: float
    steps: int
    tokens: int


def measure_speed(
    target: LanguageModel,
    proposer_for: ProposerFor,
    *,
    prompts: Sequence[Sequence[int]],
    plan: LoopPlan,
    scrambled: int,
) -> SpeedCell:
    """Time both loops on every prompt in turn, plain and speculative and both on scrambled text next to each other.

    Parameters
    ----------
    scrambled
        Steps timed on each scrambled prompt.
    """
    shuffled = np.random.default_rng(plan.seed)
    real: list[tuple[_Timed, _Timed]] = []
    apart: list[tuple[_Timed, _Timed]] = []
    with torch.inference_mode():
        _stretch(target, proposer_for, list(prompts[0]), plan=plan, steps=2)  # warm
        for prompt in prompts:
            other = [*prompt[:1], *shuffled.permutation(prompt[1:]).tolist()]
            real.append(_pair(target, proposer_for, list(prompt), plan=plan, steps=None))
            apart.append(_pair(target, proposer_for, other, plan=plan, steps=scrambled))
    plain_s = _median(lambda pair: pair[0].seconds / pair[0].steps, apart)
    round_s = _median(lambda pair: pair[1].seconds / pair[1].steps, apart)
    rounds, tokens = sum(pair[1].steps for pair in real), sum(pair[1].tokens for pair in real)
    plain_rate = sum(pair[0].tokens for pair in real) / sum(pair[0].seconds for pair in real)
    speculative_rate = tokens / sum(pair[1].seconds for pair in real)
    return SpeedCell(plain_s, round_s, tokens / rounds, speculative_rate / plain_rate)


def _median(of: Callable[[tuple[_Timed, _Timed]], float], pairs: list[tuple[_Timed, _Timed]]) -> float:
    return float(np.median([of(pair) for pair in pairs]))


def _pair(
    target: LanguageModel, proposer_for: ProposerFor, prompt: list[int], *, plan: LoopPlan, steps: int | None
) -> tuple[_Timed, _Timed]:
    plain = _stretch(target, None, prompt, plan=plan, steps=steps)
    return plain, _stretch(target, proposer_for, prompt, plan=plan, steps=steps)


def _stretch(
    target: LanguageModel, proposer_for: ProposerFor | None, prompt: list[int], *, plan: LoopPlan, steps: int | None
) -> _Timed:
    """Decode one prompt for so many steps, or to the planned length; prompts are prefilled before the clock starts.

    The first step is not timed: a head's first draft pass runs over the whole prompt, which is prefill work.
    """
    capacity = len(prompt) + (plan.draft_tokens + 1) * (plan.answer_tokens + 2)
    sequences = Sequences.from_prompts([prompt], capacity_tokens=capacity, device=target.device)
    generator = torch.Generator(device=target.device).manual_seed(plan.seed)
    cache = target.empty_cache(batch=1, capacity_tokens=capacity)
    engine = Engine(target, cache, plan.temperature, generator)
    ids = torch.tensor([prompt], device=target.device)
    proposer = None if proposer_for is None else proposer_for(ids, (1, capacity))
    engine.prefill(sequences)
    _step(engine, sequences, proposer, plan)
    begun, length, done = time.perf_counter(), int(sequences.lengths[0]), 0
    while done < steps if steps is not None else int(sequences.lengths[0]) < length + plan.answer_tokens:
        _step(engine, sequences, proposer, plan)
        done += 1
    return _Timed(time.perf_counter() - begun, done, int(sequences.lengths[0]) - length)


def _step(engine: Engine, sequences: Sequences, proposer: Proposer | None, plan: LoopPlan) -> None:
    longest = int(sequences.lengths[0])
    if proposer is None:
        engine.plain_step(sequences, span=longest)
    else:
        engine.speculative_round(
            sequences, proposer, draft_tokens=plan.draft_tokens, span=longest + plan.draft_tokens + 1
        )
