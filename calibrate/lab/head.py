"""A small head that drafts: one trained layer over the target's first layers and its last hidden state.

After EAGLE (arXiv 2401.15077) it joins a token with the target's hidden state before it; after Kangaroo (arXiv
2404.18911) the token comes as the target's own first layers see it, which need no training and let a head be distilled
in minutes. The LM head is the target's, frozen; as in EAGLE-3 (arXiv 2503.01840) it covers the ids that are frequent in
the training text only, and training unrolls the head on its own hidden states. Text outside those ids is never
proposed, so they bound acceptance from above.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn

from calibrate.engine.model import KvCache
from calibrate.engine.sampler import choose
from calibrate.lab.decoder_layer import Layer, Places, normed, run_layer
from calibrate.lab.language_model import LanguageModel


@dataclass(frozen=True, slots=True)
class HeadSize:
    """Widths of the head.

    Attributes
    ----------
    layers
        Of the target.
    first_layers
        Those that a drafted token runs through before the head's own.
    draft_vocab
        Ids it can propose.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    layers: int
    first_layers: int
    draft_vocab: int
    vocab: int

    @classmethod
    def beside(cls, target: LanguageModel, *, first_layers: int, draft_vocab: int) -> "HeadSize":
        """The target's widths."""
        sizes = target.shape
        return cls(
            hidden=sizes.hidden,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_dim=sizes.head_dim,
            ffn=sizes.ffn,
            layers=sizes.layers,
            first_layers=first_layers,
            draft_vocab=draft_vocab,
            vocab=sizes.vocab,
        )

    def as_dict(self) -> dict[str, int]:
        """For the file."""
        return asdict(self)


class Head(nn.Module):
    """The trainable head; offers `forward`, `logits` and `empty_cache` to a proposer.

    Untrained it is the target without its middle: the first layers, then a copy of the last. The hidden state that it
    joins counts for nothing until training says how.

    Parameters
    ----------
    target
        Gives the first layers, shared and not trained, and what the head starts from.
    first_layers
        How many of them.
    ids
        `(draft_vocab,)` ids of the target's vocabulary that can be proposed.
    """

    ids: torch.Tensor
    lm_rows: torch.Tensor

    def __init__(self, target: LanguageModel, *, first_layers: int, ids: torch.Tensor) -> None:
        """Copy the target's last layer and last norm."""
        super().__init__()
        self.size = HeadSize.beside(target, first_layers=first_layers, draft_vocab=len(ids))
        self.first = target.with_layers(range(first_layers))
        self.shape, self.kind = target.lm_shape, target.lm_shape.kinds[-1]
        self.register_buffer("ids", ids)
        self.register_buffer("lm_rows", target.lm_rows(ids), persistent=False)
        last, vectors = target.last_layer, target.layers[-1].vectors
        self.qkv = _linear(torch.cat([last["q"], last["k"], last["v"]]))
        self.o = _linear(last["o"])
        self.gate_up = _linear(torch.cat([last["gate"], last["up"]]))
        self.down = _linear(last["down"])
        self.vectors = nn.ParameterDict({name: vector.float().clone() for name, vector in vectors.items()})
        self.final_norm = nn.Parameter(target.final_norm.float().clone())
        self.feature_norm = nn.Parameter(torch.ones(self.size.hidden))
        self.fuse = _linear(torch.zeros(self.size.hidden, self.size.hidden))

    def scale_features(self, first: torch.Tensor) -> None:
        """Bring joined hidden states to the size of the states after the first layers, which differs by model.

        Training steps are equally large for all weights; too small a scale and the joined states never count.
        """
        with torch.no_grad():
            self.feature_norm.fill_(first.abs().mean(dtype=torch.float32))

    def empty_cache(self, *, batch: int, capacity_tokens: int) -> KvCache:
        """Room for the first layers and, last, the head's own."""
        size = (self.size.first_layers + 1, batch, self.size.kv_heads, capacity_tokens, self.size.head_dim)
        dtype, device = self.fuse.weight.dtype, self.ids.device
        return KvCache(*(torch.zeros(size, dtype=dtype, device=device) for _ in ("keys", "values")))

    def begin(self, tokens: torch.Tensor, *, cache: KvCache) -> None:
        """Run the first token of each sequence `(batch, 1)` through the first layers.

        The head's own rows begin at the second, which has a hidden state before it; but the layers below attend to the
        first token most of all.
        """
        self.first.forward(tokens, torch.zeros_like(tokens), cache=self._below(cache), span=1)

    def forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        *,
        cache: KvCache,
        span: int,
        features: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states `(batch, q, hidden)` of new tokens `(batch, q)`; fills the cache."""
        assert features is not None, "a head joins the target's hidden states"
        x = self.first.forward(tokens, positions, cache=self._below(cache), span=span)
        at = Places.of(self.shape, positions, kinds=[self.kind], span=span, dtype=cache.keys.dtype)
        return self._own_layer(x, features, cache=KvCache(cache.keys[-1], cache.values[-1]), at=at)

    def unrolled_pass(
        self,
        x: torch.Tensor,
        positions: torch.Tensor,
        *,
        features: torch.Tensor,
        span: int,
        before: Sequence[KvCache],
        dtype: torch.dtype,
    ) -> tuple[torch.Tensor, KvCache]:
        """All places of a text in one pass, for training: what draft `len(before) + 1` computes at each.

        Parameters
        ----------
        x
            States `(batch, q, hidden)` after the first layers of the rows at `positions`, the last of `span`.
        features
            The target's last hidden states one place before, or what the pass before this one computed there.
        before
            The caches of the passes before, each `span` long.

        Returns
        -------
        tuple[torch.Tensor, KvCache]
            Hidden states `(batch, q, hidden)`, and this pass's own cache.
        """
        size = (len(x), self.size.kv_heads, span, self.size.head_dim)
        parts = [*before, KvCache(*(torch.zeros(size, dtype=dtype, device=x.device) for _ in ("keys", "values")))]
        whole = KvCache(torch.cat([part.keys for part in parts], 2), torch.cat([part.values for part in parts], 2))
        at = Places.of_unrolled(self.shape, positions, kind=self.kind, index=len(before), span=span, dtype=dtype)
        out = self._own_layer(x, features, cache=whole, at=at)
        return out, KvCache(whole.keys[:, :, -span:], whole.values[:, :, -span:])

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """`(..., hidden) -> (..., draft_vocab)`: of `ids` alone."""
        return nn.functional.linear(normed(hidden, self.final_norm, self.shape.norm_eps), self.lm_rows)

    def draw(
        self, hidden: torch.Tensor, temperature: float, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Drafts of rows `(rows, hidden)`, drawn among `ids`, and their law `(rows, vocab)`; None when greedy."""
        chosen, law = choose(self.logits(hidden), temperature, generator=generator)
        if law is None:
            return self.ids[chosen], None
        whole = torch.zeros((len(law), self.size.vocab), dtype=law.dtype, device=law.device)
        whole[:, self.ids] = law
        return self.ids[chosen], whole

    def _own_layer(self, x: torch.Tensor, features: torch.Tensor, *, cache: KvCache, at: Places) -> torch.Tensor:
        layer = Layer(self.qkv, self.o, self.gate_up, self.down, dict(self.vectors.items()))
        x = x + self.fuse(normed(features, self.feature_norm, self.shape.norm_eps))
        return run_layer(self.shape, layer, x, cache=(cache.keys, cache.values), kind=self.kind, at=at)

    def _below(self, cache: KvCache) -> KvCache:
        return KvCache(cache.keys[:-1], cache.values[:-1])


def _linear(weight: torch.Tensor) -> nn.Linear:
    """A trainable copy of `(outputs, inputs)` weights."""
    outputs, inputs = weight.shape
    linear = nn.Linear(inputs, outputs, bias=False)
    linear.weight = nn.Parameter(weight.float().clone())
    return linear
