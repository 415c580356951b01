"""The two loops: plain decoding, and draft -> verify -> accept -> roll back."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from calibrate.engine.model import KvCache, Runs
from calibrate.engine.proposers import Proposer, TargetPass
from calibrate.engine.sampler import LOSSLESS, Drafts, RejectionRule, Verified, choose, verify
from calibrate.engine.sequences import Sequences
from calibrate.engine.steering import Steering

Watch = Callable[[torch.Tensor, Drafts, Verified], None]
"""Sees each round: target logits `(batch, K + 1, vocab)`, what was drafted, what came of it."""


@dataclass(slots=True)
class Engine:
    """A target with its cache, and the state both loops share.

    `span` arguments are host numbers: the largest length a pass may see. On CUDA they are a bucket's upper bound,
    so one captured graph serves every length below it.
    """

    target: Runs
    cache: KvCache
    temperature: float
    generator: torch.Generator
    rule: RejectionRule = LOSSLESS
    last: TargetPass | None = field(default=None)
    watch: Watch | None = None

    def prefill(self, sequences: Sequences) -> None:
        """Fill the cache with all tokens but the last of each sequence, padded to the longest."""
        longest = int(sequences.lengths.max())
        places = torch.arange(longest - 1, device=sequences.tokens.device).repeat(sequences.batch, 1)
        hidden = self.target.forward(sequences.tokens[:, : longest - 1], places, cache=self.cache, span=longest)
        self.last = TargetPass(hidden, places)

    def plain_step(self, sequences: Sequences, *, span: int) -> None:
        """One token for every sequence."""
        hidden = self.target_pass(sequences.last(), sequences.cached[:, None], span=span)
        chosen, _ = choose(self.target.logits(hidden[:, -1]), self.temperature, generator=self.generator)
        sequences.append(Verified(chosen[:, None], torch.zeros_like(chosen)))

    def speculative_round(
        self,
        sequences: Sequences,
        proposer: Proposer,
        *,
        draft_tokens: int,
        span: int,
        steering: Steering | None = None,
    ) -> Verified:
        """Between 1 and K + 1 tokens for every sequence."""
        drafts = proposer.propose(sequences, draft_tokens, span=span, generator=self.generator, last=self.last)
        fed = torch.cat((sequences.last(), drafts.tokens.clamp_min(0)), dim=1)
        places = sequences.cached[:, None] + torch.arange(draft_tokens + 1, device=fed.device)
        logits = self.target.logits(self.target_pass(fed, places, span=span))
        verified = verify(
            logits, drafts, temperature=self.temperature, generator=self.generator, rule=self.rule, steering=steering
        )
        if self.watch is not None:
            self.watch(logits, drafts, verified)
        sequences.append(verified, stale_entries=self.rule.stale_entries)
        return verified

    def target_pass(self, fed: torch.Tensor, places: torch.Tensor, *, span: int) -> torch.Tensor:
        """Hidden states of new rows, kept for a head."""
        hidden = self.target.forward(fed, places, cache=self.cache, span=span)
        self.last = TargetPass(hidden, places)
        return hidden


def generate_plain(engine: Engine, sequences: Sequences, *, new_tokens: int) -> None:
    """Extend every sequence by exactly `new_tokens`."""
    engine.prefill(sequences)
    longest = int(sequences.lengths.max())
    for step in range(new_tokens):
        engine.plain_step(sequences, span=longest + step)


def generate_speculative(
    engine: Engine,
    sequences: Sequences,
    *,
    proposer: Proposer,
    draft_tokens: int,
    new_tokens: int,
    steering: Steering | None = None,
) -> int:
    """Extend every sequence by at least `new_tokens`; the number of rounds it took."""
    engine.prefill(sequences)
    wanted = sequences.lengths + new_tokens
    rounds = 0
    while bool((sequences.lengths < wanted).any()):
        span = int(sequences.lengths.max()) + draft_tokens + 1
        engine.speculative_round(sequences, proposer, draft_tokens=draft_tokens, span=span, steering=steering)
        rounds += 1
    return rounds
