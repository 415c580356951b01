"""Who drafts: a draft model, a one-layer head on the target's hidden states, or n-gram matching of the ids."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from calibrate.engine.model import KvCache, Runs
from calibrate.engine.sampler import NOT_DRAFTED, Drafts, choose
from calibrate.engine.sequences import Sequences


@dataclass(slots=True)
class TargetPass:
    """What the last target pass left for a head: hidden states `(batch, q, hidden)` of its rows and their positions."""

    hidden: torch.Tensor
    positions: torch.Tensor


class Proposer(Protocol):
    """Drafts K tokens for every sequence of a batch."""

    def propose(
        self, sequences: Sequences, draft_tokens: int, *, span: int, generator: torch.Generator, last: TargetPass | None
    ) -> Drafts:
        """Drafts after the present end of each sequence; `span` is the cache that may be read, K included."""
        ...


@dataclass(slots=True)
class ModelProposer:
    """A separate small decoder with its own cache.

    The first pass runs over the last two tokens of a sequence: after a round that accepted everything, the last
    draft was never fed back; at other times one entry is rewritten with itself.
    """

    model: Runs
    cache: KvCache
    temperature: float

    def propose(
        self, sequences: Sequences, draft_tokens: int, *, span: int, generator: torch.Generator, last: TargetPass | None
    ) -> Drafts:
        """K forward passes, one drawn token per sequence each."""
        fed, places = sequences.last(2), sequences.places(2)
        tokens: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        for _ in range(draft_tokens):
            chosen, law = self.draft_pass(fed, places, span=span, generator=generator)
            tokens.append(chosen)
            if law is not None:
                laws.append(law)
            fed, places = chosen[:, None], places[:, -1:] + 1
        return Drafts(torch.stack(tokens, dim=1), torch.stack(laws, dim=1) if laws else None)

    def draft_pass(
        self, fed: torch.Tensor, places: torch.Tensor, *, span: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """One forward pass and the draw after its last row."""
        hidden = self.model.forward(fed, places, cache=self.cache, span=span)
        return choose(self.model.logits(hidden[:, -1]), self.temperature, generator=generator)


Draw = Callable[[torch.Tensor, float, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
"""From hidden states `(rows, hidden)` at a temperature: drafts of the rows, their laws over the vocabulary or None."""


@dataclass(slots=True)
class HeadProposer:
    """An EAGLE-like head: joins each token's embedding with the target's hidden state one place before it.

    The first pass runs over all rows of the last target pass (rejected ones too: their entries are overwritten),
    the later ones feed the head its own hidden state.

    Attributes
    ----------
    draw
        For a head with a vocabulary of its own; None draws from its logits.
    """

    head: Runs
    cache: KvCache
    temperature: float
    draw: Draw | None = None

    def propose(
        self, sequences: Sequences, draft_tokens: int, *, span: int, generator: torch.Generator, last: TargetPass | None
    ) -> Drafts:
        """K passes of the head."""
        assert last is not None
        places = last.positions + 1
        fed = sequences.tokens.gather(1, places)
        hidden = self.head.forward(fed, places, cache=self.cache, span=span, features=last.hidden)
        row = sequences.lengths - 1 - places[:, 0]
        hidden = hidden[torch.arange(sequences.batch, device=row.device), row][:, None]
        places = sequences.places(1)
        tokens: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        for index in range(draft_tokens):
            chosen, law = self._draw(hidden[:, -1], generator)
            tokens.append(chosen)
            if law is not None:
                laws.append(law)
            if index + 1 < draft_tokens:
                places = places + 1
                hidden = self.head.forward(chosen[:, None], places, cache=self.cache, span=span, features=hidden)
        return Drafts(torch.stack(tokens, dim=1), torch.stack(laws, dim=1) if laws else None)

    def _draw(self, hidden: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        if self.draw is not None:
            return self.draw(hidden, self.temperature, generator)
        return choose(self.head.logits(hidden), self.temperature, generator=generator)


@dataclass(frozen=True, slots=True)
class NgramProposer:
    """Looks for the last `match_tokens` ids earlier in the same sequence and proposes what followed them there."""

    match_tokens: int = 2

    def propose(
        self, sequences: Sequences, draft_tokens: int, *, span: int, generator: torch.Generator, last: TargetPass | None
    ) -> Drafts:
        """Drafts are certain where they exist, and `NOT_DRAFTED` elsewhere."""
        size = self.match_tokens
        pattern = sequences.last(size)
        ids = sequences.tokens[:, :span]
        windows = ids.unfold(1, size, 1)
        starts = torch.arange(windows.shape[1], device=ids.device)
        earlier = starts[None] + size < sequences.lengths[:, None]
        found = (windows == pattern[:, None]).all(dim=2) & earlier
        best = torch.where(found, starts[None], NOT_DRAFTED).max(dim=1).values
        places = best[:, None] + size + torch.arange(draft_tokens, device=ids.device)
        known = (best[:, None] >= 0) & (places < sequences.lengths[:, None])
        proposed = sequences.tokens.gather(1, places.clamp(0, sequences.tokens.shape[1] - 1))
        return Drafts(torch.where(known, proposed, NOT_DRAFTED), None)
