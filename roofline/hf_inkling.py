"""Layers of Inkling (huggingface/transformers, models/inkling): grouped-query attention with a relative bias
instead of rotary positions, a window in most layers, four short convolutions a layer, and experts.

The query-key norms count as for other families. The bias of a head comes out of a matrix d_rel wide per head.
A convolution reads, per channel, its last inputs and writes one output; its weights and its few cached inputs
are counted as numbers moved.
"""

from roofline.hf_defaults import Family
from roofline.hf_families import mtp_projection
from roofline.hf_fields import Fields
from roofline.hf_layers import FeedForward, Heads, decoder_layer, dense, grouped, routed, routing_of
from roofline.specs import Layer, Linear


def inkling_layers(fields: Fields, family: Family) -> tuple[Layer, ...]:
    """Two kinds of attention (`local_layer_ids` see a window), dense layers first, then routed and shared experts."""
    del family
    local, first_dense = set(fields.numbers("local_layer_ids")), fields.count("dense_mlp_idx")
    experts = _experts(fields)
    return grouped(
        _layer(fields, local=index in local, feed=_dense(fields) if index < first_dense else experts)
        for index in range(fields.size("num_hidden_layers"))
    )


def inkling_mtp(fields: Fields) -> tuple[tuple[Layer, ...], tuple[Linear, ...], int]:
    """MTP layers, chained: all dense, of attention as `mtp_local_layer_ids` says."""
    count = fields.count("num_mtp_layers")
    if not count:
        return (), (), 0
    local, hidden = set(fields.numbers("mtp_local_layer_ids")), fields.size("hidden_size")
    layers = grouped(_layer(fields, local=index in local, feed=_dense(fields)) for index in range(count))
    return layers, (mtp_projection(hidden),), 3 * hidden * count


def _layer(fields: Fields, *, local: bool, feed: FeedForward) -> Layer:
    hidden, kernel = fields.size("hidden_size"), fields.size("sconv_kernel_size")
    kind = "swa_" if local else ""
    mixer = Heads(
        hidden=hidden,
        heads=fields.size(f"{kind}num_attention_heads"),
        kv_heads=fields.size(f"{kind}num_key_value_heads"),
        head_dim=fields.size(f"{kind}head_dim"),
        inputs=hidden,
        qk_norm="head",
    )
    bias = Linear(name="relative", inputs=hidden, outputs=mixer.heads * fields.size("d_rel"))
    layer = decoder_layer(mixer, feed, window_tokens=fields.size("sliding_window_size") if local else None)
    channels = 2 * mixer.key + 2 * hidden
    return layer.model_copy(
        update={
            "linears": (bias, *layer.linears),
            "other_parameters": layer.other_parameters
            + kernel * channels
            + fields.size("d_rel") * fields.size("rel_extent"),
            "elementwise_elements": layer.elementwise_elements + (kernel + 1) * channels,
        }
    )


def _dense(fields: Fields) -> FeedForward:
    return dense(fields.size("hidden_size"), fields.size("dense_intermediate_size"))


def _experts(fields: Fields) -> FeedForward:
    hidden, width = fields.size("hidden_size"), fields.size("moe_intermediate_size", "intermediate_size")
    shared = dense(hidden, fields.size("n_shared_experts") * width, name="shared_")
    return routed(hidden, width, routing=routing_of(fields), shared=shared)
