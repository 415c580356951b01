"""Where the GPU memory of a deployment goes, and how many tokens of KV cache are left."""

from __future__ import annotations

from roofline.counts import end_bytes, expert_bytes, kv_bytes_for_context, kv_bytes_per_token, weight_bytes
from roofline.errors import DoesNotFit
from roofline.specs import Frozen, Gpu, Model, Parallelism
from roofline.units import gib_from_bytes


class MemoryAccount(Frozen):
    """Bytes on one GPU of a replica.

    `workspace_bytes` is what activations, logits and captured graphs take at the largest step; `kv_tokens` is the
    capacity of the cache with the draft loaded, `kv_tokens_without_draft` without it.
    """

    usable_bytes: float
    weights_bytes: float
    draft_weights_bytes: float
    workspace_bytes: float
    kv_bytes_per_token: float
    draft_kv_bytes_per_token: float
    kv_tokens: int
    kv_tokens_without_draft: int

    @property
    def kv_tokens_lost(self) -> int:
        """Tokens of cache that the draft's weights and its own cache cost."""
        return self.kv_tokens_without_draft - self.kv_tokens

    def sentences(self) -> str:
        """The account in one line, GiB per GPU."""
        parts = {
            "usable": self.usable_bytes,
            "weights": self.weights_bytes,
            "draft weights": self.draft_weights_bytes,
            "workspace": self.workspace_bytes,
        }
        text = ", ".join(f"{name} {gib_from_bytes(count):.1f} GiB" for name, count in parts.items())
        return f"{text}, KV {self.kv_bytes_per_token + self.draft_kv_bytes_per_token:.0f} bytes/token per GPU"


def memory_account(
    target: Model,
    *,
    gpu: Gpu,
    parallel: Parallelism,
    draft: Model | None = None,
    utilization_fraction: float,
    max_step_tokens: int,
    max_logit_rows: int,
    context_tokens: float | None = None,
) -> MemoryAccount:
    """Account of one GPU; raises `DoesNotFit` with the account when the longest-lived parts leave no cache.

    The workspace counts the two widest activations of the largest step (16-bit residual and feed-forward rows)
    and the logits in 32 bit over `max_logit_rows`, the part that grows with B(K+1). Engines hold a
    few GB more (contexts, communication buffers): that is what `utilization_fraction` leaves out.

    Over pipeline stages the account is that of the last, which also holds the draft; ranks of attention data
    parallelism hold a cache each, and `kv_tokens` is that of all of them.

    `context_tokens`: tokens a sequence typically holds. Layers with a full window stop growing and recurrent layers
    hold a fixed state, so bytes per token are those of such a sequence over its tokens; None charges every layer
    every token and no state.
    """
    weights_bytes = _weights_bytes(target, parallel)
    draft_bytes = weight_bytes(draft) / parallel.draft_tensor if draft is not None else 0.0
    workspace_bytes = _workspace_bytes(target, parallel.tensor, max_step_tokens, max_logit_rows)
    usable_bytes = gpu.memory_bytes * utilization_fraction
    kv_bytes = _kv_bytes_per_token(target, parallel.tensor, context_tokens) / parallel.pipeline
    draft_kv_bytes = 0.0 if draft is None else _kv_bytes_per_token(draft, parallel.draft_tensor, context_tokens)
    free_bytes = usable_bytes - weights_bytes - workspace_bytes
    account = MemoryAccount(
        usable_bytes=usable_bytes,
        weights_bytes=weights_bytes,
        draft_weights_bytes=draft_bytes,
        workspace_bytes=workspace_bytes,
        kv_bytes_per_token=kv_bytes,
        draft_kv_bytes_per_token=draft_kv_bytes,
        kv_tokens=parallel.data * max(0, int((free_bytes - draft_bytes) / (kv_bytes + draft_kv_bytes))),
        kv_tokens_without_draft=parallel.data * max(0, int(free_bytes / kv_bytes)),
    )
    if account.kv_tokens < 1:
        missing_bytes = weights_bytes + draft_bytes + workspace_bytes - usable_bytes
        raise DoesNotFit(
            f"{target.name} does not fit {parallel.gpus} x {gpu.name}: {account.sentences()}; "
            f"{gib_from_bytes(max(0.0, missing_bytes)):.1f} GiB per GPU are missing; "
            "use more GPUs, a larger GPU, or a quantised checkpoint"
        )
    return account


def _weights_bytes(model: Model, parallel: Parallelism) -> float:
    """Of the fullest GPU: on the last stage, which holds the LM head beside its layers."""
    shared = expert_bytes(model) if parallel.data > 1 else 0.0
    own = weight_bytes(model) - shared
    if parallel.pipeline > 1:
        embedding, head = end_bytes(model)
        held = embedding + (head if model.owns_lm_head else 0.0)
        own = (own - held) / parallel.pipeline + head
    return own / parallel.tensor + shared / (parallel.tensor * parallel.data)


def _kv_bytes_per_token(model: Model, tensor: int, context_tokens: float | None) -> float:
    """Per GPU; the cache is cut into at most `kv_shards` parts, MLA's is copied to every GPU."""
    shards = min((layer.attention.kv_shards for layer in model.layers if layer.attention), default=1)
    whole_bytes = kv_bytes_per_token(model)
    if context_tokens is not None:
        whole_bytes = kv_bytes_for_context(model, context_tokens) / context_tokens
    return max(whole_bytes / min(tensor, shards), 1e-9)


def _workspace_bytes(model: Model, tensor: int, tokens: int, logit_rows: int) -> float:
    widest = max((linear.outputs for layer in model.layers for linear in layer.linears), default=model.hidden_size)
    activations = tokens * (2 * model.hidden_size + 2 * widest / tensor) * model.precision.activation_bytes
    return activations + 4.0 * logit_rows * model.lm_head.outputs
