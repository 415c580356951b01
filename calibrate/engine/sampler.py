"""Choosing tokens from logits, and lossless rejection sampling (Leviathan et al. 2023, arXiv 2211.17192, Algorithm 1).

Nothing here waits for the host: counts stay tensors, so a round can be captured as one graph.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from calibrate.engine.steering import Steering

NOT_DRAFTED = -1
"""Token id of a place where a proposer had nothing to offer; always rejected."""


@dataclass(frozen=True, slots=True)
class RejectionRule:
    """What makes speculation lossless, as replaceable parts: the tests break each and must notice.

    Attributes
    ----------
    accept : (p, q, u) -> bool
        Probability of the draft under target and draft, uniform; elementwise.
    residual : (p, q) -> weights
        Unnormalised law of the token at the first rejection, `(batch, vocab)`.
    bonus_from_draft
        Draw the bonus token from the draft's last distribution instead of the target's.
    stale_entries
        Cache entries of rejected drafts that rolling back leaves in place.
    """

    accept: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
    residual: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    bonus_from_draft: bool = False
    stale_entries: int = 0


def _accept(p: torch.Tensor, q: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return u * q < p


def _residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return (p - q).clamp_min_(0.0)


LOSSLESS = RejectionRule(accept=_accept, residual=_residual)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Proposed tokens `(batch, K)` and their laws `(batch, K, vocab)`, None where each draft is certain."""

    tokens: torch.Tensor
    laws: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Verified:
    """Emitted tokens `(batch, K + 1)`, of which the first `accepted + 1` count; accepted drafts `(batch,)`."""

    tokens: torch.Tensor
    accepted: torch.Tensor


def law_of(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Probabilities in fp32, `(..., vocab)`."""
    if temperature != 1.0:
        logits = logits.float() / temperature
    return torch.softmax(logits, dim=-1, dtype=torch.float32)


def draw(weights: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Index drawn from unnormalised weights `(rows, vocab)` by inverting the cumulative sum, `(rows,)`."""
    cumulative = torch.cumsum(weights, dim=-1)
    uniform = torch.rand(weights.shape[0], 1, device=weights.device, generator=generator)
    chosen = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    return chosen.squeeze(1).clamp_max_(weights.shape[-1] - 1)


def choose(
    logits: torch.Tensor, temperature: float, *, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Next token of each row `(rows, vocab)` and the law it was drawn from (None when greedy, temperature 0)."""
    if temperature == 0.0:
        return logits.max(dim=-1).indices, None
    law = law_of(logits, temperature)
    return draw(law, generator), law


def verify(
    logits: torch.Tensor,
    drafts: Drafts,
    *,
    temperature: float,
    generator: torch.Generator,
    rule: RejectionRule = LOSSLESS,
    steering: Steering | None = None,
) -> Verified:
    """Accept a prefix of each sequence's drafts and draw the token after it.

    Parameters
    ----------
    logits
        Target logits `(batch, K + 1, vocab)`; row i judges draft i, the last row gives the bonus token.
    steering
        Decides acceptance by coin instead; everything is computed all the same, so that times are real.
    """
    if temperature == 0.0:
        return _verify_greedy(logits, drafts, generator=generator, steering=steering)
    draft_tokens = drafts.tokens.shape[1]
    laws = law_of(logits, temperature)
    drafted = drafts.tokens.clamp_min(0)
    p = laws[:, :draft_tokens].gather(2, drafted[..., None]).squeeze(2)
    q = torch.ones_like(p) if drafts.laws is None else drafts.laws.gather(2, drafted[..., None]).squeeze(2)
    uniform = torch.rand(p.shape, device=p.device, generator=generator)
    accept = rule.accept(p, q, uniform) & (drafts.tokens != NOT_DRAFTED)
    if steering is not None:
        accept = steering.decide(accept, generator)
    accepted = accept.long().cumprod(dim=1).sum(dim=1)
    weights = _last_weights(laws, drafts, accepted, rule=rule)
    return _assemble(drafts.tokens, accepted, draw(weights, generator))


def _last_weights(laws: torch.Tensor, drafts: Drafts, accepted: torch.Tensor, *, rule: RejectionRule) -> torch.Tensor:
    """Law of the token after the accepted prefix: residual at a rejection, target's last row after none."""
    batch, draft_tokens = drafts.tokens.shape
    rows = torch.arange(batch, device=laws.device)
    p = laws[rows, accepted]
    place = accepted.clamp_max(draft_tokens - 1)
    if drafts.laws is None:
        drafted = drafts.tokens[rows, place]
        q = torch.zeros_like(p).scatter_(1, drafted.clamp_min(0)[:, None], (drafted != NOT_DRAFTED).float()[:, None])
    else:
        q = drafts.laws[rows, place]
    bonus = q if rule.bonus_from_draft else p
    residual = rule.residual(p, q)
    # Rounding can empty a residual whose exact mass is below 1e-7; the target's law is then the right limit.
    residual = torch.where(residual.sum(dim=1, keepdim=True) > 0.0, residual, p)
    return torch.where((accepted == draft_tokens)[:, None], bonus, residual)


def _verify_greedy(
    logits: torch.Tensor, drafts: Drafts, *, generator: torch.Generator, steering: Steering | None
) -> Verified:
    best = logits.max(dim=-1).indices
    accept = best[:, :-1] == drafts.tokens
    if steering is not None:
        accept = steering.decide(accept, generator)
    accepted = accept.long().cumprod(dim=1).sum(dim=1)
    return _assemble(drafts.tokens, accepted, best.gather(1, accepted[:, None]).squeeze(1))


def _assemble(drafted: torch.Tensor, accepted: torch.Tensor, last: torch.Tensor) -> Verified:
    tokens = torch.cat((drafted.clamp_min(0), torch.zeros_like(last)[:, None]), dim=1)
    return Verified(tokens.scatter_(1, accepted[:, None], last[:, None]), accepted)
