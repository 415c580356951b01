"""The draft head a method usually trains for a target, where nobody published its config: shapes follow the target's.

Rules are those that the catalogue's published heads follow: width, query and cached heads of the target; feed-forward
width of a dense target, 6 x hidden size for EAGLE heads and 3 x for block drafters of mixtures of experts; 32,000
draft tokens for EAGLE-3 and P-EAGLE; one layer (P-EAGLE 4, DFlash and DSpark 5, 8 for mixtures of experts).
"""

from roofline.errors import InvalidInput
from roofline.hf_fields import Config
from roofline.hf_heads import METHODS, head_from_config
from roofline.specs import Attention, Layer, Model

TYPICAL = "typical"
"""As a draft's name: the head of this module."""

DRAFT_VOCABULARY = 32_000
EAGLE_WIDTHS = 6
BLOCK_WIDTHS = 3
BLOCK_SIZE = 16
BLOCK_STATES = 5
HEAD_ELEMENTS = 128
LATENT_KV_HEADS = 8


def typical_head(target: Model, method: str) -> Model:
    """Head of a method for a target, shaped as such heads usually are; its note says that it is assumed.

    Raises
    ------
    InvalidInput
        The method has no head of its own to shape (`mtp` ships with the target).
    """
    asked = METHODS.get(method, "")
    if asked not in ("eagle", "eagle3", "p_eagle", "dflash", "dspark"):
        raise InvalidInput(f"a typical head is known for eagle, eagle3, p_eagle, dflash and dspark, got {method!r}")
    config: Config = {**_layer(target), **_of_method(target, asked)}
    head = head_from_config(config, f"typical {asked} head of {target.name}", method=asked, target=target)
    return head.model_copy(update={"notes": (*head.notes, "shape assumed: as such heads usually are")})


def _layer(target: Model) -> Config:
    hidden = target.hidden_size
    attention = next((layer.attention for layer in target.layers if layer.attention is not None), None)
    heads, kv_heads, elements = _heads(attention, hidden)
    return {
        "hidden_size": hidden,
        "vocab_size": target.vocab_size,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": elements,
        "max_position_embeddings": target.max_context_tokens or 4096,
    }


def _heads(attention: Attention | None, hidden: int) -> tuple[int, int, int]:
    if attention is None or attention.kind == "mla":
        return max(1, hidden // HEAD_ELEMENTS), LATENT_KV_HEADS, HEAD_ELEMENTS
    return attention.heads, attention.kv_heads, attention.kv_elements_per_token // (2 * attention.kv_heads)


def _of_method(target: Model, method: str) -> Config:
    routed = any(layer.experts is not None for layer in target.layers)
    widest = max((_feed_width(layer) for layer in target.layers), default=0)
    if method in ("eagle", "eagle3", "p_eagle"):
        feed = EAGLE_WIDTHS * target.hidden_size if routed or not widest else widest
        own: Config = {} if method == "eagle" else {"draft_vocab_size": min(DRAFT_VOCABULARY, target.vocab_size)}
        return {"intermediate_size": feed, "num_hidden_layers": 4 if method == "p_eagle" else 1, "bias": False, **own}
    feed = BLOCK_WIDTHS * target.hidden_size if routed or not widest else widest
    layers = 8 if routed else 5
    options = {"target_layer_ids": list(range(1, BLOCK_STATES + 1)), "mask_token_id": 0}
    return {
        "intermediate_size": feed,
        "num_hidden_layers": layers,
        "block_size": BLOCK_SIZE,
        "dflash_config": options,
        "layer_types": ["full_attention"] * layers,
    }


def _feed_width(layer: Layer) -> int:
    return max((linear.inputs for linear in layer.linears if linear.name == "down"), default=0)
