"""What the engine allows at once: token budget, sequences, cache blocks, context."""

from pydantic import NonNegativeInt, PositiveInt

from roofline.specs import Frozen


class EngineLimits(Frozen):
    """Limits of one replica's scheduler (vLLM V1 names in brackets).

    `max_batched_tokens` (max_num_batched_tokens): new tokens of a step, drafts included.
    `max_sequences` (max_num_seqs). `kv_blocks` of `block_tokens` (block_size) tokens each.
    `lookahead_tokens`: slots reserved beyond the scheduled tokens (K for heads and draft models, 0 for n-gram).
    `max_context_tokens` (max_model_len): longer requests are refused; 0 is no limit.
    `draft_window_tokens`: beyond this context the drafter's proposals are never accepted (their cost is paid);
    0 is no limit. `long_prefill_tokens` (long_prefill_token_threshold): largest prefill chunk, 0 is off.
    `reserve_full_prompt` (scheduler_reserve_full_isl): a prompt is admitted only when all of it fits.
    `reserve_full_output`: a request is admitted only when its whole output and its drafts fit too, and holds the blocks
    from then on: the worst case, never preempted (TensorRT-LLM GUARANTEED_NO_EVICT).
    `alternate_prefill`: a step holds prompts or decodes, never both, prompts first (SGLang without mixed chunks).
    """

    max_batched_tokens: PositiveInt
    max_sequences: PositiveInt
    kv_blocks: PositiveInt
    block_tokens: PositiveInt = 16
    lookahead_tokens: NonNegativeInt = 0
    max_context_tokens: NonNegativeInt = 0
    draft_window_tokens: NonNegativeInt = 0
    long_prefill_tokens: NonNegativeInt = 0
    chunked_prefill: bool = True
    reserve_full_prompt: bool = True
    reserve_full_output: bool = False
    alternate_prefill: bool = False
