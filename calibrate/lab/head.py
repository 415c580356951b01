"""An EAGLE-like head: one decoder layer that joins a token's embedding with the target's hidden state before it.

After EAGLE (arXiv 2401.15077) and EAGLE-3 (arXiv 2503.01840): the embedding is the target's, the LM head covers the ids
that are frequent in the training text only, and training unrolls the head on its own hidden states. Text outside those
ids is never proposed, so they bound acceptance from above.
"""

from dataclasses import asdict, dataclass

import torch
from torch import nn

from calibrate.engine.attention import attend, causal_mask
from calibrate.engine.model import KvCache
from calibrate.lab.language_model import LanguageModel, rotary_at, rotated

ROPE_BASE = 10_000.0


@dataclass(frozen=True, slots=True)
class HeadSize:
    """Widths of the head; `draft_vocab` is how many ids it can propose."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    draft_vocab: int
    vocab: int
    norm_eps: float

    @classmethod
    def beside(cls, target: LanguageModel, *, draft_vocab: int) -> "HeadSize":
        """The target's own widths, one layer of them."""
        sizes = target.shape
        return cls(
            hidden=sizes.hidden,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            ffn=sizes.ffn,
            draft_vocab=draft_vocab,
            vocab=sizes.vocab,
            norm_eps=target.lm_shape.norm_eps,
        )

    def as_dict(self) -> dict[str, float]:
        """For the file."""
        return asdict(self)


class Head(nn.Module):
    """The trainable head; offers `forward`, `logits` and `empty_cache` as the engine's proposers ask for them.

    Parameters
    ----------
    embedding
        The target's table `(vocab, hidden)`, shared and not trained.
    ids
        `(draft_vocab,)` ids of the target's vocabulary that can be proposed.
    """

    embedding: torch.Tensor
    ids: torch.Tensor

    def __init__(self, size: HeadSize, *, embedding: torch.Tensor, ids: torch.Tensor) -> None:
        """Draw small weights; the LM head starts as the target's rows."""
        super().__init__()
        self.size = size
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("ids", ids)
        width, kv_width = size.heads * size.head_dim, size.kv_heads * size.head_dim
        self.token_norm = nn.RMSNorm(size.hidden, size.norm_eps)
        self.feature_norm = nn.RMSNorm(size.hidden, size.norm_eps)
        self.attention_norm = nn.RMSNorm(size.hidden, size.norm_eps)
        self.ffn_norm = nn.RMSNorm(size.hidden, size.norm_eps)
        self.final_norm = nn.RMSNorm(size.hidden, size.norm_eps)
        self.fuse = nn.Linear(2 * size.hidden, size.hidden, bias=False)
        self.qkv = nn.Linear(size.hidden, width + 2 * kv_width, bias=False)
        self.o = nn.Linear(width, size.hidden, bias=False)
        self.gate_up = nn.Linear(size.hidden, 2 * size.ffn, bias=False)
        self.down = nn.Linear(size.ffn, size.hidden, bias=False)
        self.lm_head = nn.Linear(size.hidden, size.draft_vocab, bias=False)
        with torch.no_grad():
            self.lm_head.weight.copy_(embedding[ids])

    def scale_features(self, hidden: torch.Tensor, final_norm: torch.Tensor) -> None:
        """Start from features as the target's LM head sees them, at unit size.

        A hidden state is mostly one huge channel; the target's last norm is what makes the others count.
        """
        flat = hidden.reshape(-1, self.size.hidden).float()
        seen = nn.functional.rms_norm(flat, (self.size.hidden,), final_norm.float(), self.size.norm_eps)
        with torch.no_grad():
            self.feature_norm.weight.copy_(final_norm.float() / seen.square().mean().sqrt())

    def empty_cache(self, *, batch: int, capacity_tokens: int) -> KvCache:
        """Room for the one layer."""
        size = (1, batch, self.size.kv_heads, capacity_tokens, self.size.head_dim)
        dtype = self.fuse.weight.dtype
        return KvCache(*(torch.zeros(size, dtype=dtype, device=self.ids.device) for _ in ("keys", "values")))

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: KvCache | None,
        span: int,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)`; without a cache its rows are the last of `span` (training)."""
        assert features is not None, "a head joins the target's hidden states"
        size, (batch, new) = self.size, tokens.shape
        x = self.fuse(torch.cat((self.token_norm(self.embedding[tokens]), self.feature_norm(features)), dim=-1))
        qkv = self.qkv(self.attention_norm(x)).view(batch, new, -1, size.head_dim)
        query, key, value = qkv.split((size.heads, size.kv_heads, size.kv_heads), dim=2)
        rotary = rotary_at(positions, ROPE_BASE, head_dim=size.head_dim)
        query, key = rotated(query, rotary), rotated(key, rotary)
        if cache is None:
            # Slots before the first row stay empty, as they do in the cache of a running engine.
            before = (0, 0, span - new, 0)
            keys, values = (nn.functional.pad(part.transpose(1, 2), before) for part in (key, value))
        else:
            rows = torch.arange(batch, device=tokens.device)[:, None]
            cache.keys[0][rows, :, positions], cache.values[0][rows, :, positions] = key, value
            keys, values = cache.keys[0][:, :, :span], cache.values[0][:, :, :span]
        mask = causal_mask(positions, span=span, group=size.heads // size.kv_heads, dtype=query.dtype)
        x = x + self.o(attend(query, keys, values=values, mask=mask))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)

    def draft_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., draft_vocab)`."""
        return self.lm_head(self.final_norm(hidden))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., vocab)`, minus infinity where the head never proposes."""
        own = self.draft_logits(hidden)
        whole = torch.full((*own.shape[:-1], self.size.vocab), float("-inf"), dtype=own.dtype, device=own.device)
        whole[..., self.ids] = own
        return whole
