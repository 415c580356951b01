"""Layers of decoders with attention in every layer: from one config's fields to `Layer`s."""

from roofline.errors import InvalidInput, UnsupportedModel
from roofline.hf_defaults import Family
from roofline.hf_fields import Fields
from roofline.hf_layers import (
    FeedForward,
    Heads,
    Latent,
    decoder_layer,
    dense,
    grouped,
    heads_of,
    latent_of,
    routed,
    routing_of,
)
from roofline.specs import Layer, Linear

EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts")


def has_experts(fields: Fields) -> bool:
    """Whether the config names a number of routed experts."""
    return any(fields.value(key) for key in EXPERT_KEYS)


def decoder_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Llama, Mistral, Mixtral, Qwen2/3 (MoE), Phi-3, Gemma-2/3, gpt-oss, MiniMax-M2, MiMo, GLM-4 MoE, OPT,
    StarCoder2.
    """
    _refuse_projected_embeddings(fields)
    if "num_experts" in family.handles and not has_experts(fields):
        raise InvalidInput(
            f"{fields.name}: the number of experts ({', '.join(f'`{key}`' for key in EXPERT_KEYS)}) is missing; "
            "take config.json as published by the model's authors, complete"
        )
    mixer = heads_of(fields, family)
    sinks = mixer.heads if fields.value("model_type") == "gpt_oss" else 0
    dense_part = (
        None
        if is_all_experts(fields)
        else dense(
            mixer.hidden,
            fields.size("intermediate_size", "ffn_dim"),
            bias=family.mlp_bias == "always" or fields.flag("mlp_bias"),
            gated=family.gated,
        )
    )
    expert_part = _experts(fields, mixer.hidden) if has_experts(fields) else None
    layers: list[Layer] = []
    for index, window in enumerate(layer_windows(fields, family)):
        feed = expert_part if expert_part and _is_expert_layer(fields, index) else dense_part
        assert feed is not None
        layers.append(decoder_layer(mixer, feed, window_tokens=window, norms=family.norms, other_parameters=sinks))
    return grouped(layers)


def _refuse_projected_embeddings(fields: Fields) -> None:
    """OPT-350M embeds in fewer dimensions than its layers have."""
    width = fields.size_or_none("word_embed_proj_dim")
    if width is not None and width != fields.size("hidden_size"):
        raise UnsupportedModel(f"{fields.name}: projected embeddings (`word_embed_proj_dim` {width}) are not computed")


def is_all_experts(fields: Fields) -> bool:
    """Whether every layer has routed experts, so that no dense width is needed."""
    if not has_experts(fields):
        return False
    return all(_is_expert_layer(fields, index) for index in range(fields.size("num_hidden_layers")))


def _is_expert_layer(fields: Fields, index: int) -> bool:
    """`first_k_dense_replace` and `moe_layer_freq` (DeepSeek), `decoder_sparse_step` and `mlp_only_layers`
    (Qwen).
    """
    if index < fields.count("first_k_dense_replace") or index in fields.numbers("mlp_only_layers"):
        return False
    if "moe_layer_freq" in fields.config:
        return index % fields.size("moe_layer_freq") == 0
    return (index + 1) % fields.size_or(1, "decoder_sparse_step") == 0


def _experts(fields: Fields, hidden: int) -> FeedForward:
    model_type = fields.value("model_type")
    routing = routing_of(
        fields,
        correction=fields.flag("use_routing_bias") or fields.value("topk_method") == "noaux_tc",
        bias=model_type == "gpt_oss",
    )
    intermediate = fields.size("moe_intermediate_size", "intermediate_size")
    return routed(hidden, intermediate, routing=routing, shared=_shared(fields, hidden, intermediate))


def _shared(fields: Fields, hidden: int, intermediate: int) -> FeedForward | None:
    if fields.count("shared_intermediate_size") or fields.count("shared_expert_intermediate_size"):
        raise UnsupportedModel(
            f"{fields.name}: shared experts of `model_type` {fields.value('model_type')!r} are not computed"
        )
    shared = fields.count("n_shared_experts")
    return dense(hidden, shared * intermediate, name="shared_") if shared else None


def latent_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """DeepSeek-V2/V3/R1 and Kimi-K2: latent attention; dense layers first, then routed and shared experts."""
    del family
    return grouped(latent_layer(fields, index) for index in range(fields.size("num_hidden_layers")))


def latent_layer(fields: Fields, index: int) -> Layer:
    """Layer `index` of a model with latent attention; the layers after the last are its MTP layers."""
    mixer = latent_of(fields)
    if has_experts(fields) and _is_expert_layer(fields, index):
        feed = _experts(fields, mixer.hidden)
    else:
        feed = dense(mixer.hidden, fields.size("intermediate_size"))
    return decoder_layer(mixer, feed)


def llama4_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Llama-4: experts every `interleave_moe_layer_step` layers with one shared expert, dense layers between,
    chunked attention.
    """
    mixer = heads_of(fields, family)
    step = fields.size("interleave_moe_layer_step")
    expert_layers = fields.numbers("moe_layers") or tuple(range(step - 1, fields.size("num_hidden_layers"), step))
    width = fields.size("intermediate_size")
    feed_dense = dense(mixer.hidden, fields.size("intermediate_size_mlp"))
    feed_experts = routed(
        mixer.hidden, width, routing=routing_of(fields), shared=dense(mixer.hidden, width, name="shared_")
    )
    return grouped(
        decoder_layer(mixer, feed_experts if index in expert_layers else feed_dense, window_tokens=window)
        for index, window in enumerate(layer_windows(fields, family))
    )


def layer_windows(fields: Fields, family: Family) -> list[int | None]:
    """Tokens each layer's rows see, None for all: from `layer_types`, else by the rule of the family."""
    layers = fields.size("num_hidden_layers")
    types = fields.texts("layer_types")
    if types and len(types) != layers:
        raise InvalidInput(
            f"{fields.name}: `layer_types` must have num_hidden_layers {layers} entries, got {len(types)}; "
            "correct config.json"
        )
    limit = fields.size_or_none("max_position_embeddings")
    windows = [_typed_window(fields, kind) for kind in types] if types else _ruled_windows(fields, family, layers)
    return [None if window is None or (limit is not None and window >= limit) else window for window in windows]


def _typed_window(fields: Fields, kind: str) -> int | None:
    if kind == "full_attention":
        return None
    if kind == "sliding_attention":
        return fields.size("sliding_window")
    if kind == "chunked_attention":
        return fields.size("attention_chunk_size")
    raise UnsupportedModel(f"{fields.name}: layers of type {kind!r} (`layer_types`) are not computed")


def _ruled_windows(fields: Fields, family: Family, layers: int) -> list[int | None]:
    """Windows of a config without `layer_types`.

    `switched` (Qwen2, Qwen3): only if `use_sliding_window`, and only from layer `max_window_layers` on.
    `even` (Gemma-2, gpt-oss): every other layer, the first included. `pattern` (Gemma-3): all but every n-th.
    `chunks` (Llama-4): all but every fourth, a chunk counted as a window.
    """
    rule = family.windows
    if rule == "none" or (rule.startswith("switched") and not fields.flag("use_sliding_window")):
        return [None] * layers
    if rule == "chunks":
        return _llama4_windows(fields, layers)
    window = fields.size_or_none("sliding_window")
    if rule == "switched":
        first = fields.count("max_window_layers")
        return [window if index >= first else None for index in range(layers)]
    if rule == "even":
        return [window if index % 2 == 0 else None for index in range(layers)]
    if rule == "pattern":
        period = fields.size("sliding_window_pattern")
        return [window if (index + 1) % period else None for index in range(layers)]
    return [window] * layers


def _llama4_windows(fields: Fields, layers: int) -> list[int | None]:
    chunk = fields.size_or_none("attention_chunk_size")
    rotated = fields.numbers("no_rope_layers") or tuple(int((index + 1) % 4 != 0) for index in range(layers))
    if len(rotated) != layers:
        raise InvalidInput(
            f"{fields.name}: `no_rope_layers` must have num_hidden_layers {layers} entries, got "
            f"{len(rotated)}; correct config.json"
        )
    return [chunk if flag else None for flag in rotated]


def gemma4_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Gemma-4: local layers with a window, global ones with wider heads whose keys serve as values; experts
    beside the dense part.
    """
    local = heads_of(fields, family)
    types = fields.texts("layer_types")
    if not types:
        raise InvalidInput(f"{fields.name}: `layer_types` is missing; take config.json as published, complete")
    reuses = fields.flag("attention_k_eq_v")
    whole = Heads(
        hidden=local.hidden,
        heads=local.heads,
        kv_heads=fields.size_or(local.kv_heads, "num_global_key_value_heads") if reuses else local.kv_heads,
        head_dim=fields.size_or(local.head_dim, "global_head_dim"),
        inputs=local.hidden,
        qkv_bias=local.qkv_bias,
        o_bias=local.o_bias,
        qk_norm=local.qk_norm,
        shared_values=reuses,
    )
    feed, norms, other = _gemma4_feed(fields, local.hidden)
    return grouped(
        decoder_layer(
            whole if kind == "full_attention" else local,
            feed,
            window_tokens=window,
            norms=norms,
            other_parameters=other,
        )
        for kind, window in zip(types, layer_windows(fields, family), strict=True)
    )


def _gemma4_feed(fields: Fields, hidden: int) -> tuple[FeedForward, int, int]:
    """Feed-forward part, norms of a layer, and small weights: the router's input scale and one scale per
    expert.
    """
    plain = dense(hidden, fields.size("intermediate_size"))
    if not fields.flag("enable_moe_block"):
        return plain, 4, 0
    routing = routing_of(fields)
    return (
        routed(hidden, fields.size("moe_intermediate_size"), routing=routing, shared=plain),
        7,
        hidden + routing.count,
    )


def mtp_parts(fields: Fields, family: Family) -> tuple[tuple[Layer, ...], tuple[Linear, ...], int]:
    """Multi-token-prediction layers shipped with a checkpoint: layers, the projection before them, and norm
    weights.

    DeepSeek and MiMo: one layer like the model's last, fed with embedding and hidden state (two norms, a
    projection 2h -> h) and a norm after it. Embedding and LM head are the model's own.
    """
    count = fields.count("num_nextn_predict_layers")
    if not count:
        return (), (), 0
    hidden = fields.size("hidden_size")
    if family.blocks == "mla":
        layer = latent_layer(fields, fields.size("num_hidden_layers"))
    else:
        layer = decoder_layers(fields, family)[-1]
    return (layer.model_copy(update={"count": count}),), (mtp_projection(hidden),), 3 * hidden * count


def mtp_projection(hidden: int) -> Linear:
    """Matrix that joins the token's embedding with the hidden state, kept in 16 bits."""
    return Linear(name="mtp_projection", inputs=2 * hidden, outputs=hidden, shard="replicated", quantised=False)


def mixer_of(fields: Fields, family: Family, *, inputs: int | None = None) -> Heads | Latent:
    """Latent attention where the config has a `kv_lora_rank`, grouped-query attention otherwise."""
    return latent_of(fields, inputs=inputs) if fields.value("kv_lora_rank") else heads_of(fields, family, inputs=inputs)
