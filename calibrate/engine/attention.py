"""One attention kernel for plain steps and verification, so that their times can be compared.

The query heads of a KV head are folded into the rows of the product: `(batch, kv_heads, group * q, head_dim)`.
Never the library's own grouping: with one query row it is an order of magnitude slower on CPUs, and a plain step
built on it makes speculation look good.
"""

import torch


def causal_mask(
    positions: torch.Tensor, *, span: int, group: int, dtype: torch.dtype, window_tokens: int | None = None
) -> torch.Tensor:
    """Additive mask `(batch, 1, group * q, span)`: row i of a sequence sees cache slots 0..positions[i].

    With a window it sees the last `window_tokens` of them, itself included.

    Made once a pass and shared by its layers. Lengths stay on the device: nothing waits for the host.
    """
    slots = torch.arange(span, device=positions.device)
    hidden = slots[None, None, :] > positions[:, :, None]
    if window_tokens is not None:
        hidden |= slots[None, None, :] <= positions[:, :, None] - window_tokens
    return additive_mask(hidden, group=group, dtype=dtype)


def additive_mask(hidden: torch.Tensor, *, group: int, dtype: torch.dtype) -> torch.Tensor:
    """From what each row does not see `(batch, q, span)` to the mask `(batch, 1, group * q, span)` of `attend`."""
    mask = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, float("-inf"))
    return mask.repeat(1, group, 1)[:, None]


def attend(query: torch.Tensor, keys: torch.Tensor, *, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Attention of `(batch, q, heads, head_dim)` over caches `(batch, kv_heads, span, head_dim)`.

    Returns
    -------
    torch.Tensor
        `(batch, q, heads * head_dim)`.
    """
    batch, rows, heads, head_dim = query.shape
    kv_heads = keys.shape[1]
    group = heads // kv_heads
    folded = query.view(batch, rows, kv_heads, group, head_dim).permute(0, 2, 3, 1, 4)
    folded = folded.reshape(batch, kv_heads, group * rows, head_dim)
    out = torch.nn.functional.scaled_dot_product_attention(folded, keys, values, attn_mask=mask)
    out = out.view(batch, kv_heads, group, rows, head_dim).permute(0, 3, 1, 2, 4)
    return out.reshape(batch, rows, heads * head_dim)
