"""From a deployment to seconds: tabulates it once (`step_cost_table`); `roofline.rounds` prices rounds from the table.

Equations: docs/model.md. The table and the account of one step come from the same operators
(`roofline.operators`, `roofline.attention`), so what `--explain` prints is what the simulator charges.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roofline.attention import attention_coefficients
from roofline.calibration import Calibration, HostFit, SamplerFit
from roofline.errors import InvalidInput
from roofline.operators import (
    OperatorCost,
    Shard,
    forward_operators,
    launches,
    logits_operators,
    padded_tokens,
)
from roofline.rounds import RoundCost, decode_attention_s, round_cost
from roofline.specs import Frozen, Gpu, Model, Parallelism
from roofline.stages import exchange_s, hop_s
from roofline.step_table import ForwardCosts, StepCostTable
from roofline.units import BITS_PER_BYTE

__all__ = [
    "Deployment",
    "DraftWork",
    "FloatArray",
    "RoundCost",
    "TableSize",
    "decode_attention_s",
    "forward_costs",
    "own_operators",
    "round_cost",
    "step_cost_table",
    "trunk_s",
]

FloatArray = NDArray[np.float64]


class Deployment(Frozen):
    """Everything hardware that a cost depends on: machine, its constants, spread, captured graph sizes.

    `graph_tokens`: sizes a step is padded to (empty: eager). `routing_skew`: see `counts.experts_touched`.
    `eager_prompts`: no graph is captured for steps that hold prompt tokens. `drafts_one_by_one`: sequences are drafted
    for in turn.
    """

    gpu: Gpu
    calibration: Calibration
    parallel: Parallelism = Parallelism()
    graph_tokens: tuple[int, ...] = ()
    draft_graph_tokens: tuple[int, ...] = ()
    routing_skew: float = 0.0
    eager_prompts: bool = False
    drafts_one_by_one: bool = False

    @property
    def host(self) -> HostFit:
        """Host times with what sending inputs to several GPUs adds to steps and draft passes."""
        fitted, parallel = self.calibration.host, self.parallel
        sharded_s = [fitted.sharded_pass_s * (gpus > 1) for gpus in (parallel.tensor, parallel.draft_tensor)]
        return fitted.model_copy(
            update={"step_s": fitted.step_s + sharded_s[0], "draft_pass_s": fitted.draft_pass_s + sharded_s[1]}
        )

    def shard(self, *, draft: bool = False) -> Shard:
        """One GPU's part of the target, or of the draft."""
        return Shard(
            gpu=self.gpu,
            calibration=self.calibration,
            tensor=self.parallel.draft_tensor if draft else self.parallel.tensor,
            graph_tokens=self.draft_graph_tokens if draft else self.graph_tokens,
            routing_skew=self.routing_skew,
            whole_experts=self.parallel.whole_experts and not (draft and self.parallel.draft_tensor == 1),
            data=1 if draft else self.parallel.data,
        )


class DraftWork(Frozen):
    """What a proposer runs for K drafts per sequence.

    chain: K forward passes, one token per sequence each (heads, draft models). parallel: one pass with
    `first_pass_extra_tokens` + K mask tokens per sequence. heads: K small heads side by side in one pass (the draft
    model is one of them). matching: no model, only host work. none: nothing.
    `reads_whole_step`: the first pass runs over all tokens of the step, prefill included.
    `pass_rows`: drafts form a tree, entry K - 1 holds the rows per sequence of each pass (of each position, for
    heads) for K nodes; empty is a chain of one row each. `unpadded`: rejected positions of the step are left out
    of the first pass.
    """

    kind: Literal["none", "chain", "parallel", "heads", "matching"]
    reads_whole_step: bool = True
    first_pass_extra_tokens: int = 0
    pass_rows: tuple[tuple[int, ...], ...] = ()
    unpadded: bool = False

    @property
    def grows_tree(self) -> bool:
        """Some pass has several rows per sequence."""
        return self.kind == "chain" and any(max(passes) > 1 for passes in self.pass_rows)

    def heads(self, draft_tokens: int) -> int:
        """Heads that run for K drafts: one a position; a tree of K nodes has fewer positions."""
        return len(self.pass_rows[draft_tokens - 1]) if self.pass_rows else draft_tokens

    def rows_of_passes(self, max_draft_tokens: int) -> NDArray[np.int64]:
        """Rows per sequence of every draft pass, `(max_draft_tokens + 1, passes)`, 0 where there is none.

        Raises
        ------
        InvalidInput
            The tree has fewer nodes.
        """
        if self.pass_rows and max_draft_tokens > len(self.pass_rows):
            raise InvalidInput(
                f"the tree has {len(self.pass_rows)} nodes, K = {max_draft_tokens} needs more; "
                "lower K to the nodes of the tree or give a larger tree"
            )
        chains = tuple((1,) * (drafts if self.kind == "chain" else 1) for drafts in range(1, max_draft_tokens + 1))
        by_drafts = self.pass_rows[:max_draft_tokens] if self.grows_tree else chains
        if self.kind in ("none", "matching"):
            by_drafts = ()
        rows = np.zeros((max_draft_tokens + 1, max((len(passes) for passes in by_drafts), default=1)), dtype=np.int64)
        for drafts, passes in enumerate(by_drafts, start=1):
            rows[drafts, : len(passes)] = passes
        return rows


class TableSize(Frozen):
    """How far the arrays reach."""

    max_tokens: int
    max_sequences: int
    max_draft_tokens: int = 0


def step_cost_table(
    target: Model,
    deployment: Deployment,
    *,
    size: TableSize,
    draft: Model | None = None,
    work: DraftWork | None = None,
) -> StepCostTable:
    """Tabulate a deployment.

    Raises
    ------
    OutsideDomain
        The calibration lacks an operator class, weight format or group size the deployment needs.
    """
    work = _checked_work(draft, work)
    sampler, host = deployment.calibration.sampler, deployment.host
    rows = min(size.max_tokens, size.max_sequences * (size.max_draft_tokens + 1))
    draft_costs = None if draft is None else _draft_forward_costs(draft, deployment, size=size, work=work)
    return StepCostTable(
        label=deployment.calibration.label,
        target=forward_costs(target, deployment.shard(), size.max_tokens, rows=rows),
        sample_plain_s=_sample_plain_s(sampler, size.max_sequences, target.vocab_size),
        verify_base_s=sampler.verify_base_s,
        verify_per_sequence_s=sampler.verify_per_sequence_s,
        verify_per_row_s=sampler.verify_per_logit_s * target.vocab_size,
        step_host_s=host.step_s,
        host_per_sequence_s=host.step_per_sequence_s,
        round_host_s=host.tree_round_s or host.round_s if work.grows_tree else host.round_s,
        idle_speculation_s=host.idle_speculation_s,
        draft=draft_costs,
        draft_chain_s=_draft_chain_s(draft, draft_costs, deployment, size=size, work=work)
        + _checkpoint_s(target, draft, deployment, size=size),
        draft_passes=(work.rows_of_passes(size.max_draft_tokens) > 0).sum(axis=1),
        draft_reads_whole_step=work.kind in ("chain", "parallel") and work.reads_whole_step,
        first_pass_extra_tokens=_extra_tokens(work, size.max_draft_tokens),
        draft_pass_rows=work.rows_of_passes(size.max_draft_tokens) if work.grows_tree else None,
        draft_leaves_out_rejected=work.unpadded,
        mask_rows=_mask_rows(work, size.max_draft_tokens),
        peak_hbm_bytes_per_s=deployment.gpu.hbm_bytes_per_s,
        peak_flops_per_s=_peak_flops_per_s(target, deployment.gpu),
        prompt_trunk_s=_launching_s(target, deployment) if deployment.eager_prompts else 0.0,
        prompt_draft_s=_launching_s(draft, deployment) if deployment.eager_prompts and draft is not None else 0.0,
        stages=deployment.parallel.pipeline,
        ranks=deployment.parallel.data,
        between_s=_between_s(target, deployment, size.max_tokens),
    )


def _checked_work(draft: Model | None, work: DraftWork | None) -> DraftWork:
    work = work or DraftWork(kind="none")
    if (draft is None) != (work.kind in ("none", "matching")):
        raise InvalidInput(
            f"a proposer of kind {work.kind!r} {'needs a draft model' if draft is None else 'runs no draft model'}; "
            "give `draft` exactly for chain, parallel and heads drafting"
        )
    return work


def _between_s(target: Model, deployment: Deployment, max_tokens: int) -> FloatArray | None:
    """Handing a micro-batch to the next stage by its tokens; routed experts of all ranks by all their tokens."""
    tokens, shard = np.arange(max_tokens + 1), deployment.shard()
    if deployment.parallel.pipeline > 1:
        return hop_s(target, tokens, shard)
    if deployment.parallel.data == 1:
        return None
    experts = [item.seconds for item in forward_operators(target, tokens, shard) if item.name == "experts"]
    return _total(experts, max_tokens + 1) + exchange_s(target, tokens, shard)


def _launching_s(model: Model, deployment: Deployment) -> float:
    """Seconds the host takes to launch every operator of a pass one by one."""
    operators = list(forward_operators(model, np.ones(1, dtype=np.int64), deployment.shard()))
    return launches(operators) * deployment.calibration.host.launch_s


def forward_costs(model: Model, shard: Shard, max_tokens: int, *, rows: int) -> ForwardCosts:
    """Lookup arrays of one model's pass on one GPU, up to that many tokens and rows of logits."""
    tokens = np.arange(max_tokens + 1)
    trunk = own_operators(model, tokens, shard)
    logits = list(logits_operators(model, np.arange(rows + 1), shard))
    moving = tokens > 0
    return ForwardCosts(
        trunk_s=trunk_s(model, tokens, shard),
        logits_s=_total([operator.seconds for operator in logits], rows + 1),
        trunk_bytes=moving * _total([operator.hbm_bytes for operator in trunk], max_tokens + 1),
        trunk_flops=_total([operator.flops for operator in trunk], max_tokens + 1),
        logits_bytes=(np.arange(rows + 1) > 0) * _total([operator.hbm_bytes for operator in logits], rows + 1),
        logits_flops=_total([operator.flops for operator in logits], rows + 1),
        **attention_coefficients(model, shard),
    )


def _draft_forward_costs(draft: Model, deployment: Deployment, *, size: TableSize, work: DraftWork) -> ForwardCosts:
    extra_tokens = int(_extra_tokens(work, size.max_draft_tokens).max())
    widest = int(work.rows_of_passes(size.max_draft_tokens).max(initial=1))
    return forward_costs(
        draft,
        deployment.shard(draft=True),
        max(size.max_tokens + size.max_sequences * extra_tokens, size.max_sequences * widest),
        rows=size.max_sequences * (size.max_draft_tokens if work.kind == "parallel" else widest),
    )


def own_operators(model: Model, tokens: ArrayLike, shard: Shard) -> list[OperatorCost]:
    """Operators of a pass whose time follows from a GPU's own tokens: not experts that ranks share."""
    found = list(forward_operators(model, tokens, shard))
    return found if shard.data == 1 else [operator for operator in found if operator.name != "experts"]


def trunk_s(model: Model, tokens: ArrayLike, shard: Shard) -> FloatArray:
    """Seconds of everything but attention and logits, by new tokens: padding to graphs, launch-bound when eager."""
    asked = np.atleast_1d(np.asarray(tokens, dtype=np.int64))
    operators = own_operators(model, padded_tokens(asked, shard.graph_tokens), shard)
    device_s = _total([operator.seconds for operator in operators], len(asked))
    largest_graph = shard.graph_tokens[-1] if shard.graph_tokens else 0
    launch_s = launches(operators) * shard.calibration.host.launch_s
    eager_s = np.where(asked > 0, np.maximum(device_s, launch_s), 0.0)
    return np.where(asked > largest_graph, eager_s, device_s)


def _total(parts: list[FloatArray], length: int) -> FloatArray:
    total = np.zeros(length)
    for part in parts:
        total = total + part
    return total


def _peak_flops_per_s(target: Model, gpu: Gpu) -> float:
    """Of the fastest number format the target multiplies in; formats the GPU lacks run in bf16 or fp16."""
    formats = target.precision
    used = (formats.attention, formats.ffn, formats.experts, formats.lm_head)
    peaks = [gpu.peak_flops_per_s[fmt.math] for fmt in used if fmt.math in gpu.peak_flops_per_s]
    return max(peaks) if peaks else max(gpu.peak_flops_per_s.values())


def _sample_plain_s(sampler: SamplerFit, max_sequences: int, vocabulary: int) -> FloatArray:
    sequences = np.arange(max_sequences + 1)
    per_sequence_s = sampler.plain_per_sequence_s + sampler.plain_per_logit_s * vocabulary
    return np.where(sequences > 0, sampler.plain_base_s + per_sequence_s * sequences, 0.0)


def _extra_tokens(work: DraftWork, max_draft_tokens: int) -> NDArray[np.int64]:
    drafts = np.arange(max_draft_tokens + 1)
    if work.kind == "parallel":
        extra = np.where(drafts > 0, drafts + work.first_pass_extra_tokens, 0)
    else:
        extra = np.where(drafts > 0, work.first_pass_extra_tokens, 0)
    return extra.astype(np.int64)


def _mask_rows(work: DraftWork, max_draft_tokens: int) -> NDArray[np.int64] | None:
    """Rows that attend to a sequence's cache: mask tokens, and the last token where the pass leaves out the step."""
    if work.kind != "parallel":
        return None
    extra = _extra_tokens(work, max_draft_tokens)
    return extra if work.reads_whole_step else (extra + 1) * (extra > 0)


def _draft_chain_s(
    draft: Model | None,
    costs: ForwardCosts | None,
    deployment: Deployment,
    *,
    size: TableSize,
    work: DraftWork,
) -> FloatArray:
    """(K, B) seconds of a round's drafting that depend neither on context nor on the step's tokens."""
    host, sampler = deployment.host, deployment.calibration.sampler
    chain_s = np.zeros((size.max_draft_tokens + 1, size.max_sequences + 1))
    sequences = np.arange(size.max_sequences + 1)
    for drafts in range(1, size.max_draft_tokens + 1):
        if work.kind == "matching":
            chain_s[drafts] = host.proposal_s + host.proposal_per_sequence_s * sequences
        elif draft is not None and costs is not None:
            choose_base_s = sampler.draft_base_s + sampler.draft_per_sequence_s * sequences
            choose_rows_s = sampler.draft_per_logit_s * np.arange(len(costs.logits_s)) * draft.lm_head.outputs
            choose = np.asarray(choose_base_s, dtype=np.float64), np.asarray(choose_rows_s, dtype=np.float64)
            chain_s[drafts] = _rounds_s(costs, work, drafts, host=host, choose=choose)
        chain_s[drafts] += _per_sequence_s(host, work) * sequences + host.parallel_draft_s * (work.kind == "parallel")
        if deployment.drafts_one_by_one and costs is not None:
            first_s = costs.trunk_s[1 + int(_extra_tokens(work, drafts)[drafts])]
            chain_s[drafts] = chain_s[drafts, 1] * sequences + first_s * np.maximum(sequences - 1, 0)
    chain_s[:, 0] = 0.0
    return chain_s


def _checkpoint_s(target: Model, draft: Model | None, deployment: Deployment, *, size: TableSize) -> FloatArray:
    """(K, B) seconds of saving and restoring recurrent state around a separate draft model."""
    sequences = np.arange(size.max_sequences + 1) * (np.arange(size.max_draft_tokens + 1) > 0)[:, None]
    if draft is None or draft.role != "draft_model":
        return np.zeros(sequences.shape)
    state_bytes = sum(
        layer.count * layer.recurrence.state_elements * layer.recurrence.state_bits / BITS_PER_BYTE
        for layer in target.layers
        if layer.recurrence is not None
    )
    return np.asarray(2.0 * state_bytes * deployment.host.checkpoint_s_per_byte * sequences, dtype=np.float64)


def _per_sequence_s(host: HostFit, work: DraftWork) -> float:
    own = host.tree_round_per_sequence_s if work.grows_tree else 0.0
    return own or host.round_per_sequence_s


def _rounds_s(
    costs: ForwardCosts, work: DraftWork, drafts: int, *, host: HostFit, choose: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Seconds by drafting sequences. `choose`: picking drafts in a pass, by sequences and by rows of logits."""
    choose_base_s, choose_rows_s = choose
    sequences = np.arange(len(choose_base_s))
    if work.kind == "heads":
        each_s = costs.logits_s[sequences] + choose_base_s + choose_rows_s[sequences]
        heads = work.heads(drafts)
        return host.cold_draft_s + host.draft_pass_s + heads * each_s + (heads - 1) * costs.trunk_s[sequences]
    if not work.grows_tree:
        passes = drafts if work.kind == "chain" else 1
        rows = sequences * (drafts // passes)
        choose_s = choose_base_s + choose_rows_s[rows]
        later_s = costs.trunk_s[sequences] + costs.decode_base_s + costs.state_s_per_sequence * sequences
        each_s = host.draft_pass_s + costs.logits_s[rows] + choose_s
        return host.cold_draft_s + passes * each_s + (passes - 1) * later_s
    total_s = np.full(len(sequences), host.cold_draft_s)
    for number, rows_each in enumerate(work.pass_rows[drafts - 1]):
        rows = sequences * rows_each
        total_s += host.draft_pass_s + costs.logits_s[rows] + choose_base_s + choose_rows_s[rows]
        if number:
            total_s += costs.trunk_s[rows] + costs.decode_base_s + costs.state_s_per_sequence * sequences
    return total_s
