"""`StepCostTable`: one deployment (models, GPUs, engine) tabulated once; all the simulator knows of hardware."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ForwardCosts:
    """Lookup arrays of one model's forward pass.

    Attributes
    ----------
    trunk_s : (max_tokens + 1,)
        Everything but attention and logits, by new tokens in the pass, collectives and padding included.
    logits_s : (max_rows + 1,)
        LM head by rows.
    window_tokens : (W,)
        Attention classes; 0 means unlimited context.
    kv_s_per_token, decode_s_per_pair : (W,)
        Decode/verify group: reading one cached token once per sequence; one query row against one cached token.
    prefill_kv_s_per_token, prefill_s_per_pair : (W,)
        The same for rows of prefill chunks.
    state_s_per_sequence
        Reading and writing the fixed state of recurrent layers, per sequence and pass.
    decode_base_s, prefill_base_s
        Launches of the group, paid once per step that has such rows.
    decode_p, prefill_p
        Exponent joining the memory and compute terms; 0.0 is the textbook maximum.
    trunk_bytes, trunk_flops, logits_bytes, logits_flops, kv_bytes_per_token, flops_per_pair, prefill_flops_per_pair
        What those times move and compute on one GPU, unpadded: for utilisation and the roofline floor.
    decode_tile_rows
        Rows a decoding sequence counts for at least, in its arithmetic, when not every sequence of the step has one
        row: kernels for ragged batches compute whole tiles.
    """

    trunk_s: FloatArray
    logits_s: FloatArray
    window_tokens: IntArray
    kv_s_per_token: FloatArray
    decode_s_per_pair: FloatArray
    prefill_kv_s_per_token: FloatArray
    prefill_s_per_pair: FloatArray
    state_s_per_sequence: float
    decode_base_s: float
    prefill_base_s: float
    decode_p: float
    prefill_p: float
    trunk_bytes: FloatArray
    trunk_flops: FloatArray
    logits_bytes: FloatArray
    logits_flops: FloatArray
    kv_bytes_per_token: FloatArray
    flops_per_pair: FloatArray
    prefill_flops_per_pair: FloatArray
    decode_tile_rows: float = 1.0


@dataclass(frozen=True, slots=True)
class StepCostTable:
    """Seconds of any step, as arrays. See `roofline.cost` for how they are made.

    A step of T new tokens, B decoding sequences (each K + 1 rows when verifying) takes

        target.trunk_s[T] + target attention + target.logits_s[rows]
        + sampler (plain or verify) + host
        + draft: first pass over all T tokens of the step, then passes - 1 passes over B tokens.

    Attributes
    ----------
    sample_plain_s : (max_sequences + 1,)
        Choosing one token for each of that many sequences.
    verify_base_s, verify_per_sequence_s, verify_per_row_s
        Rejection sampling over B sequences and B(K+1) rows.
    step_host_s, host_per_sequence_s, round_host_s, idle_speculation_s
        See `roofline.calibration.HostFit`.
    draft
        None where the proposer runs no model.
    draft_chain_s : (max_draft_tokens + 1, max_sequences + 1)
        Everything of one round's drafting that does not depend on context and is not the trunk of the first
        pass: its logits, the later passes, draft sampling, host and launch gaps, n-gram matching. Row 0 is 0.
    draft_passes : (max_draft_tokens + 1,)
        Forward passes that K drafts take (K for a chain, 1 for a parallel head, 0 for n-gram).
    draft_reads_whole_step
        The first pass runs over all tokens of the step, prefill included (heads, draft models).
    first_pass_extra_tokens : (max_draft_tokens + 1,)
        Tokens per drafting sequence the first pass adds to the step's (chain: 1 for a separate draft model, 0 for
        heads; parallel drafters: the K or K - 1 mask tokens).
    mask_rows : (max_draft_tokens + 1,)
        Rows per drafting sequence of a parallel drafter's one pass that attend to its whole cache beside the step's
        own; None: none. Where the pass does not run over the step they are all its rows.
    draft_pass_rows : (max_draft_tokens + 1, passes)
        Rows per sequence of each draft pass over a tree; None: one row in every pass.
    draft_leaves_out_rejected
        The first pass skips the positions whose drafts were rejected in this step (unpadded drafter batches).
    prompt_trunk_s, prompt_draft_s
        Least time of the target's trunk and of the draft's first pass in a step that holds prompt tokens, where such
        steps are launched operator by operator.
    stages, ranks
        Pipeline stages, and ranks of attention data parallelism (`roofline.stages`); a step's arrays are then read at
        one part: a micro-batch, or the busiest rank.
    between_s : (max_tokens + 1,)
        Stages: handing a micro-batch to the next, by its tokens. Ranks: routed experts and their exchange, by the
        tokens of all ranks. None where there is one part.
    peak_hbm_bytes_per_s, peak_flops_per_s
        The ceilings of one GPU (of the fastest number format in use), for utilisation.
    """

    label: str
    target: ForwardCosts
    sample_plain_s: FloatArray
    verify_base_s: float
    verify_per_sequence_s: float
    verify_per_row_s: float
    step_host_s: float
    host_per_sequence_s: float
    round_host_s: float
    idle_speculation_s: float
    draft: ForwardCosts | None
    draft_chain_s: FloatArray
    draft_passes: IntArray
    draft_reads_whole_step: bool
    first_pass_extra_tokens: IntArray
    peak_hbm_bytes_per_s: float
    peak_flops_per_s: float
    draft_pass_rows: IntArray | None = None
    mask_rows: IntArray | None = None
    draft_leaves_out_rejected: bool = False
    prompt_trunk_s: float = 0.0
    prompt_draft_s: float = 0.0
    stages: int = 1
    ranks: int = 1
    between_s: FloatArray | None = None

    @property
    def max_tokens(self) -> int:
        """Largest step, in new tokens, the table covers."""
        return len(self.target.trunk_s) - 1

    @property
    def max_sequences(self) -> int:
        """Largest batch the table covers."""
        return len(self.sample_plain_s) - 1

    @property
    def max_draft_tokens(self) -> int:
        """Largest K the table covers."""
        return len(self.draft_passes) - 1
