"""The ragged batch: token ids and how many of them each sequence has."""

from dataclasses import dataclass

import torch

from calibrate.engine.sampler import Verified


@dataclass(slots=True)
class Sequences:
    """Token ids `(batch, capacity)`, of which the first `lengths` count, and cache entries that are valid.

    The last token of a sequence is known but not yet in the target's cache: `cached = lengths - 1`.
    """

    tokens: torch.Tensor
    lengths: torch.Tensor
    cached: torch.Tensor

    @classmethod
    def from_prompts(cls, prompts: list[list[int]], *, capacity_tokens: int, device: str) -> "Sequences":
        """A batch of prompts of at least two tokens each."""
        tokens = torch.zeros(len(prompts), capacity_tokens, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        return cls(tokens.to(device), lengths.to(device), (lengths - 1).to(device))

    @property
    def batch(self) -> int:
        """Sequences."""
        return self.tokens.shape[0]

    def last(self, count: int = 1) -> torch.Tensor:
        """The last `count` tokens of each, `(batch, count)`."""
        return self.tokens.gather(1, self.places(count))

    def places(self, count: int = 1) -> torch.Tensor:
        """Where they stand, `(batch, count)`."""
        return self.lengths[:, None] + torch.arange(-count, 0, device=self.lengths.device)

    def append(self, verified: Verified, *, stale_entries: int = 0) -> None:
        """Add each sequence's emitted tokens; what is cached beyond them is forgotten.

        Writes all K + 1 places and lets the length decide: later rounds overwrite the rest.
        """
        width = verified.tokens.shape[1]
        places = self.lengths[:, None] + torch.arange(width, device=self.lengths.device)
        self.tokens.scatter_(1, places, verified.tokens)
        rejected = verified.accepted < width - 1
        self.lengths += verified.accepted + 1
        self.cached.copy_(self.lengths - 1 + stale_entries * rejected)
