"""The accept and reject loop over passages of real text, with every round written down."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from calibrate.engine.loop import Engine
from calibrate.engine.proposers import HeadProposer, ModelProposer, Proposer
from calibrate.engine.sampler import NOT_DRAFTED, Drafts, Verified, law_of
from calibrate.engine.sequences import Sequences
from calibrate.lab.head import Head
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.plans import LoopPlan
from calibrate.lab.rounds import RoundLog


@dataclass(frozen=True, slots=True)
class Answers:
    """What came out: token ids of prompts and answers `(sequences, prompt + answer)`, and the rounds."""

    tokens: NDArray[np.int64]
    prompt_tokens: int
    rounds: RoundLog


class NothingProposed:
    """No drafts: the plain loop through the same code."""

    def propose(
        self, sequences: Sequences, draft_tokens: int, *, span: int, generator: torch.Generator, last: object
    ) -> Drafts:
        """Places without a draft."""
        empty = torch.full((sequences.batch, draft_tokens), NOT_DRAFTED, device=sequences.tokens.device)
        return Drafts(empty, None)


Room = tuple[int, int]
"""Sequences, and cache slots of each."""


def head_proposer(head: Head, prompts: torch.Tensor, room: Room, *, temperature: float) -> HeadProposer:
    """A trained head with its cache, begun on the prompts."""
    batch, capacity_tokens = room
    cache = head.empty_cache(batch=batch, capacity_tokens=capacity_tokens)
    head.begin(prompts[:, :1], cache=cache)
    return HeadProposer(head, cache, temperature, draw=head.draw)


def model_proposer(model: LanguageModel, prompts: torch.Tensor, room: Room, *, temperature: float) -> Proposer:
    """A language model as draft, its cache filled with the prompts."""
    batch, capacity_tokens = room
    cache = model.empty_cache(batch=batch, capacity_tokens=capacity_tokens)
    places = torch.arange(prompts.shape[1] - 1, device=prompts.device).repeat(batch, 1)
    model.forward(prompts[:, :-1], places, cache=cache, span=prompts.shape[1])
    return ModelProposer(model, cache, temperature)


ProposerFor = Callable[[torch.Tensor, Room], Proposer]
"""From prompts `(sequences, prompt_tokens)` and room to a fresh proposer."""


def measure(
    target: LanguageModel, proposer_for: ProposerFor, *, prompts: torch.Tensor, plan: LoopPlan, end_id: int | None
) -> Answers:
    """Generate an answer to every prompt, all in one batch; an answer ends at its length or at `end_id`.

    Parameters
    ----------
    prompts
        `(sequences, prompt_tokens)` ids, at least two tokens each.
    """
    batch, prompt_tokens = prompts.shape
    # The slowest answer takes a round a token; the quickest may have gone on by K + 1 a round all that time.
    capacity = prompt_tokens + (plan.draft_tokens + 1) * (plan.answer_tokens + 1)
    with torch.inference_mode():
        sequences = Sequences.from_prompts(prompts.tolist(), capacity_tokens=capacity, device=target.device)
        generator = torch.Generator(device=target.device).manual_seed(plan.seed)
        notes = _Notes(sequences, prompt_tokens, plan=plan, end_id=end_id)
        engine = Engine(
            target,
            target.empty_cache(batch=batch, capacity_tokens=capacity),
            plan.temperature,
            generator,
            watch=notes.take,
        )
        proposer = proposer_for(prompts, (batch, capacity))
        engine.prefill(sequences)
        while bool(notes.open.any()):
            span = int(sequences.lengths.max()) + plan.draft_tokens + 1
            engine.speculative_round(sequences, proposer, draft_tokens=plan.draft_tokens, span=span)
            notes.close_finished()
    return Answers(notes.answers(), prompt_tokens, notes.log())


class _Notes:
    """Watches a loop: one entry for every round of every answer that is still open.

    Answers that have ended go on in the batch, so that the others keep their shapes, but nothing of them counts.
    """

    def __init__(self, sequences: Sequences, prompt_tokens: int, *, plan: LoopPlan, end_id: int | None) -> None:
        self._sequences, self._prompt_tokens, self._plan, self._end_id = sequences, prompt_tokens, plan, end_id
        self.open = torch.ones(sequences.batch, dtype=torch.bool, device=sequences.tokens.device)
        self._entries: list[tuple[torch.Tensor, ...]] = []

    def take(self, logits: torch.Tensor, drafts: Drafts, verified: Verified) -> None:
        """Write down one round, before its tokens are appended."""
        lengths = self._sequences.lengths
        law = law_of(logits[:, 0], self._plan.temperature or 1.0)
        entropy = torch.special.entr(law).sum(dim=-1)
        drafted = (drafts.tokens != NOT_DRAFTED).sum(dim=1)
        overlap = self._overlap(law, logits, drafts)
        row = torch.arange(len(lengths), device=lengths.device)
        entry = (row, lengths.clone(), lengths - self._prompt_tokens, drafted, verified.accepted, entropy, overlap)
        self._entries.append(tuple(part[self.open].cpu() for part in entry))

    def _overlap(self, law: torch.Tensor, logits: torch.Tensor, drafts: Drafts) -> torch.Tensor:
        first = drafts.tokens[:, :1]
        if self._plan.temperature == 0.0:
            shared = (logits[:, 0].argmax(dim=-1, keepdim=True) == first).float().squeeze(1)
        elif drafts.laws is None:
            shared = law.gather(1, first.clamp_min(0)).squeeze(1)
        else:
            shared = torch.minimum(law, drafts.laws[:, 0]).sum(dim=-1)
        return torch.where(first.squeeze(1) != NOT_DRAFTED, shared, float("nan"))

    def close_finished(self) -> None:
        """Close answers that are long enough or have emitted the end."""
        sequences = self._sequences
        long_enough = sequences.lengths >= self._prompt_tokens + self._plan.answer_tokens
        self.open &= ~long_enough
        if self._end_id is not None:
            places = torch.arange(sequences.tokens.shape[1], device=sequences.tokens.device)
            answered = (places >= self._prompt_tokens) & (places < sequences.lengths[:, None])
            self.open &= ~((sequences.tokens == self._end_id) & answered).any(dim=1)

    def answers(self) -> NDArray[np.int64]:
        """Prompts and answers, cut to the planned length."""
        return self._sequences.tokens[:, : self._prompt_tokens + self._plan.answer_tokens].cpu().numpy()

    def log(self) -> RoundLog:
        """All rounds, in order."""
        columns = [torch.cat(column).numpy() for column in zip(*self._entries, strict=True)]
        sequence, context, depth, drafted, accepted = (column.astype(np.int64) for column in columns[:5])
        entropy, overlap = (column.astype(np.float64) for column in columns[5:])
        return RoundLog(sequence, context, depth, drafted, accepted, entropy, overlap)
