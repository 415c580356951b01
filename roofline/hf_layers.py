"""The parts layers are made of: attention, feed-forward and expert matrices, and the numbers moved between
them.

`elementwise_elements` of a layer counts, per token, numbers read plus numbers written outside the matrix
products and the attention kernel, each kernel fused the way serving engines fuse it:

- a norm reads and writes the hidden state (2 h); the two residual adds, fused into norms, read and write it
  once more (2 h each);
- the rotary embedding reads and writes query and key, a query-key norm does so again;
- writing the cache reads and writes what is cached;
- a gated activation reads two and writes one per intermediate entry, an ungated one reads one and writes one,
  for each expert a token uses;
- combining experts reads one hidden state per expert used and writes one;
- an output gate of attention reads two and writes one per entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from roofline.errors import InvalidInput
from roofline.hf_defaults import Family
from roofline.hf_fields import Fields
from roofline.specs import Attention, Experts, Layer, Linear


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of one grouped-query attention. `gated`: a gate as wide as the query comes out of the query
    matrix too.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inputs: int
    qkv_bias: bool = False
    o_bias: bool = False
    qk_norm: str = "none"
    gated: bool = False
    shared_values: bool = False

    @property
    def query(self) -> int:
        """Width of all query heads."""
        return self.heads * self.head_dim

    @property
    def key(self) -> int:
        """Width of all key heads."""
        return self.kv_heads * self.head_dim

    @property
    def norm_parameters(self) -> int:
        """Weights of the query-key norms."""
        return {"none": 0, "head": 2 * self.head_dim, "all": self.query + self.key}[self.qk_norm]

    def linears(self) -> tuple[Linear, ...]:
        """Fused query-key-value matrix (no values where keys are reused as such) and output matrix."""
        outputs = self.query * (2 if self.gated else 1) + self.key * (1 if self.shared_values else 2)
        return (
            Linear(name="qkv", inputs=self.inputs, outputs=outputs, bias=self.qkv_bias),
            Linear(name="o", inputs=self.query, outputs=self.hidden, bias=self.o_bias, shard="row"),
        )

    def attention(self, window_tokens: int | None = None) -> Attention:
        """What is cached and computed per token of context."""
        pair_flops = 4 * self.heads * self.head_dim
        return Attention(
            kind="gqa",
            heads=self.heads,
            kv_heads=self.kv_heads,
            kv_elements_per_token=2 * self.key,
            flops_per_pair=pair_flops,
            prefill_flops_per_pair=pair_flops,
            kv_shards=self.kv_heads,
            window_tokens=window_tokens,
        )

    @property
    def elementwise(self) -> int:
        """Rotary embedding, query-key norm, cache write, gate."""
        rotations = 1 if self.qk_norm == "none" else 2
        return rotations * 2 * (self.query + self.key) + 2 * 2 * self.key + (3 * self.query if self.gated else 0)


def heads_of(fields: Fields, family: Family, *, inputs: int | None = None) -> Heads:
    """Grouped-query attention as the config says; raises where heads do not divide."""
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    kv_heads = fields.size_or(heads, "num_key_value_heads")
    head_dim = fields.size_or_none("head_dim")
    if head_dim is None:
        if hidden % heads:
            raise InvalidInput(
                f"{fields.name}: `num_attention_heads` must divide hidden_size {hidden} where `head_dim` is "
                "not given, "
                f"got {heads}; correct one of the three in config.json"
            )
        head_dim = hidden // heads
    if heads % kv_heads:
        raise InvalidInput(
            f"{fields.name}: `num_key_value_heads` must divide num_attention_heads {heads}, got {kv_heads}; "
            "correct config.json"
        )
    asked = family.qk_norm not in ("all", "head_if_asked") or fields.flag("use_qk_norm")
    qk_norm = family.qk_norm.removesuffix("_if_asked") if asked else "none"
    return Heads(
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        inputs=inputs or hidden,
        qkv_bias=_has_bias(family.qkv_bias, fields),
        o_bias=_has_bias(family.o_bias, fields),
        qk_norm=qk_norm,
    )


def _has_bias(rule: str, fields: Fields) -> bool:
    return rule == "always" or (rule == "config" and fields.flag("attention_bias"))


@dataclass(frozen=True, slots=True)
class Latent:
    """Shape of one multi-head latent attention (DeepSeek-V2, arXiv 2405.04434).

    The cache holds the compressed keys and values and the rotated part of the key, one copy for all heads.
    Decoding multiplies queries into the compressed space (absorbed form); prefill expands keys and values
    instead. Both run the weights of `kv_b` once per token.
    """

    hidden: int
    heads: int
    query_rank: int | None
    latent: int
    nope: int
    rope: int
    value: int
    inputs: int
    bias: bool = False

    @property
    def norm_parameters(self) -> int:
        """Weights of the norms of the compressed query and the compressed keys and values."""
        return (self.query_rank or 0) + self.latent

    def linears(self) -> tuple[Linear, ...]:
        """Down- and up-projections of queries, keys and values, and the output matrix."""
        width = self.heads * (self.nope + self.rope)
        compressed = self.latent + self.rope
        if self.query_rank is None:
            first = (
                Linear(name="q", inputs=self.inputs, outputs=width),
                Linear(name="kv_a", inputs=self.inputs, outputs=compressed, bias=self.bias, shard="replicated"),
            )
        else:
            rank = self.query_rank
            first = (
                Linear(
                    name="qkv_a",
                    inputs=self.inputs,
                    outputs=rank + compressed,
                    bias=self.bias,
                    shard="replicated",
                ),
                Linear(name="q_b", inputs=rank, outputs=width),
            )
        return (
            *first,
            Linear(name="kv_b", inputs=self.latent, outputs=self.heads * (self.nope + self.value)),
            Linear(name="o", inputs=self.heads * self.value, outputs=self.hidden, bias=self.bias, shard="row"),
        )

    def attention(self, window_tokens: int | None = None) -> Attention:
        """What is cached and computed per token of context."""
        return Attention(
            kind="mla",
            heads=self.heads,
            kv_heads=1,
            kv_elements_per_token=self.latent + self.rope,
            flops_per_pair=2 * self.heads * (2 * self.latent + self.rope),
            prefill_flops_per_pair=2 * self.heads * (self.nope + self.rope + self.value),
            kv_shards=1,
            window_tokens=window_tokens,
        )

    @property
    def elementwise(self) -> int:
        """Norms of the compressed parts, rotary embedding, cache write."""
        rotated = (self.heads + 1) * self.rope
        return 2 * self.norm_parameters + 2 * rotated + 2 * (self.latent + self.rope)


def latent_of(fields: Fields, *, inputs: int | None = None) -> Latent:
    """Latent attention as the config says."""
    hidden = fields.size("hidden_size")
    return Latent(
        hidden=hidden,
        heads=fields.size("num_attention_heads"),
        query_rank=fields.size_or_none("q_lora_rank"),
        latent=fields.size("kv_lora_rank"),
        nope=fields.size("qk_nope_head_dim"),
        rope=fields.size("qk_rope_head_dim"),
        value=fields.size("v_head_dim"),
        inputs=inputs or hidden,
        bias=fields.flag("attention_bias"),
    )


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Matrices of a feed-forward part, what a token moves through it, and small weights besides."""

    linears: tuple[Linear, ...]
    experts: Experts | None = None
    other_parameters: int = 0
    elementwise: int = 0


def dense(hidden: int, intermediate: int, *, bias: bool = False, gated: bool = True, name: str = "") -> FeedForward:
    """An ordinary feed-forward part; `name` prefixes its matrices (`shared_` for a shared expert)."""
    up = Linear(
        name=f"{name}gate_up" if gated else f"{name}up",
        inputs=hidden,
        outputs=intermediate * (2 if gated else 1),
        bias=bias,
        kind="ffn",
    )
    down = Linear(name=f"{name}down", inputs=intermediate, outputs=hidden, bias=bias, kind="ffn", shard="row")
    return FeedForward((up, down), elementwise=(3 if gated else 2) * intermediate)


@dataclass(frozen=True, slots=True)
class Routing:
    """Routed experts: how many there are, how many a token uses, and the small weights of the choice."""

    count: int
    per_token: int
    correction: bool = False
    router_bias: bool = False
    expert_bias: bool = False
    gated: bool = True


def routed(hidden: int, intermediate: int, *, routing: Routing, shared: FeedForward | None = None) -> FeedForward:
    """Routed experts, and shared ones that every token passes."""
    one = dense(hidden, intermediate, bias=routing.expert_bias, gated=routing.gated)
    router = Linear(
        name="router",
        inputs=hidden,
        outputs=routing.count,
        bias=routing.router_bias,
        kind="ffn",
        shard="replicated",
        quantised=False,
    )
    always = shared.linears if shared else ()
    return FeedForward(
        linears=(router, *always),
        experts=Experts(count=routing.count, per_token=routing.per_token, linears=one.linears),
        other_parameters=routing.count if routing.correction else 0,
        elementwise=routing.per_token * (one.elementwise + hidden) + hidden + (shared.elementwise if shared else 0),
    )


def routing_of(fields: Fields, *, correction: bool = False, bias: bool = False, gated: bool = True) -> Routing:
    """Expert counts under any name configs use; raises if a token uses more experts than there are."""
    count = fields.size("num_experts", "num_local_experts", "n_routed_experts")
    per_token = fields.size("num_experts_per_tok", "experts_per_token", "top_k_experts")
    if per_token > count:
        raise InvalidInput(
            f"{fields.name}: `num_experts_per_tok` must be at most the number of experts {count}, got "
            f"{per_token}; "
            "correct config.json"
        )
    return Routing(
        count=count,
        per_token=per_token,
        correction=correction,
        router_bias=bias,
        expert_bias=bias,
        gated=gated,
    )


def decoder_layer(
    mixer: Heads | Latent,
    feed: FeedForward,
    *,
    window_tokens: int | None = None,
    norms: int = 2,
    other_parameters: int = 0,
) -> Layer:
    """One layer of attention and feed-forward part with `norms` norms as wide as the hidden state."""
    hidden = mixer.hidden
    return Layer(
        count=1,
        linears=(*mixer.linears(), *feed.linears),
        attention=mixer.attention(window_tokens),
        experts=feed.experts,
        other_parameters=norms * hidden + mixer.norm_parameters + feed.other_parameters + other_parameters,
        elementwise_elements=(2 * norms + 4) * hidden + mixer.elementwise + feed.elementwise,
    )


def grouped(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Equal layers counted together, in order of first appearance."""
    counts: dict[Layer, int] = {}
    for layer in layers:
        key = layer.model_copy(update={"count": 1})
        counts[key] = counts.get(key, 0) + layer.count
    return tuple(layer.model_copy(update={"count": count}) for layer, count in counts.items())
