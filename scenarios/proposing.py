"""From the speculation section to the simulator's proposer and its choice of K."""

from __future__ import annotations

from roofline.counts import parameters
from roofline.errors import InvalidInput
from roofline.hf_config import mtp_head
from roofline.specs import Layer, Linear, Model
from scenarios.drafting import HEAD_METHODS, MATCHING_METHODS, Drafting, TreeShape
from simulator.controllers import AdaptiveBudget, ClosedLoop, OffAbove, ThroughputOptimal, closed_loop_from_config
from simulator.policy import DraftByBatch, DraftPolicy, FixedDraft
from simulator.proposers import (
    CrossVocabularyProposer,
    DraftModelProposer,
    DynamicTreeProposer,
    HeadProposer,
    MedusaProposer,
    MtpProposer,
    NgramProposer,
    NoProposer,
    ParallelProposer,
    Proposer,
    StaticTreeProposer,
    SuffixProposer,
)
from simulator.tree import Tree, tree_of_paths, tree_of_widths


def proposer_of(speculation: Drafting) -> Proposer:
    """The simulator's proposer of a method."""
    method, shape = speculation.method, speculation.tree
    if method == "medusa":
        tree = _tree(shape) if shape is not None else None
        heads = int(tree.depths.max()) if tree is not None else speculation.draft_tokens or 1
        return MedusaProposer(heads, tree)
    if shape is not None and shape.nodes is not None:
        return DynamicTreeProposer(shape.nodes, shape.depth, shape.beam, shape.least_probability)
    if shape is not None:
        return StaticTreeProposer(_tree(shape), extra_tokens=int(method == "draft_model"))
    if method == "mtp" and speculation.mtp_layers > 1:
        return MtpProposer(speculation.mtp_layers)
    if method == "pard" or method == "p_eagle" or method == "dflash" or method == "dspark":
        return ParallelProposer(method)
    if method in HEAD_METHODS:
        return HeadProposer(unpadded=not speculation.padded)
    if method in MATCHING_METHODS:
        fraction = 1.0 if speculation.proposal_fraction is None else speculation.proposal_fraction
        return (
            SuffixProposer(speculation.proposal_fractions)
            if speculation.proposal_fractions
            else NgramProposer(fraction)
        )
    overlap_fraction = speculation.vocabulary_overlap_fraction
    if overlap_fraction is not None:
        return CrossVocabularyProposer(overlap_fraction)
    return DraftModelProposer() if method == "draft_model" else NoProposer()


def _tree(shape: TreeShape) -> Tree:
    if shape.nodes is not None:
        raise InvalidInput("Medusa verifies a fixed tree; give speculation.tree.widths or paths instead of nodes")
    return tree_of_widths(shape.widths) if shape.widths else tree_of_paths(shape.paths)


def tree_nodes(speculation: Drafting) -> int | None:
    """K of a tree: all its nodes, or the first `draft_tokens` of them."""
    shape = speculation.tree
    if shape is None:
        return None
    nodes = shape.nodes or _tree(shape).nodes
    if speculation.draft_tokens is not None and speculation.draft_tokens > nodes:
        raise InvalidInput(
            f"speculation.draft_tokens must be in 1..{nodes}, the nodes of the tree, got {speculation.draft_tokens}; "
            "leave it out to verify all nodes"
        )
    return speculation.draft_tokens or nodes


def policy_of(speculation: Drafting, draft_tokens: int) -> DraftPolicy:
    """Fixed K, the schedule by batch size, or a controller."""
    control = speculation.control
    if speculation.draft_tokens_by_batch:
        return DraftByBatch(ranges=speculation.draft_tokens_by_batch)
    if control is None:
        return FixedDraft(draft_tokens)
    if control.kind == "off_above":
        return OffAbove(draft_tokens, control.max_running or 1)
    if control.kind == "throughput_optimal":
        return ThroughputOptimal(draft_tokens, control.least_gain_fraction)
    if control.kind == "adaptive_budget":
        return AdaptiveBudget(draft_tokens, control.least_gain_fraction)
    loop = (
        closed_loop_from_config(control.slots, start=draft_tokens) if control.slots else ClosedLoop(start=draft_tokens)
    )
    if loop.max_draft_tokens > draft_tokens:
        raise InvalidInput(
            f"speculation.draft_tokens must be at least the largest candidate of the closed loop, "
            f"{loop.max_draft_tokens}, got {draft_tokens}; raise it or lower the candidates"
        )
    return loop


def largest_draft(speculation: Drafting, draft_tokens: int, *, advised: int) -> int:
    """K to tabulate: at least that of the scenario and what the advice may look at; a tree ends with its nodes."""
    ends = speculation.tree is not None or speculation.method == "medusa"
    return draft_tokens if ends or not draft_tokens else max(draft_tokens, advised)


def layered_mtp_head(target: Model, layers: int) -> Model:
    """One of `layers` MTP layers used in turn: what a pass runs; the weights of the others are held beside it."""
    shipped = sum(layer.count for layer in target.mtp_layers)
    if shipped != layers:
        raise InvalidInput(
            f"speculation.mtp_layers must be the {shipped} MTP layers of {target.name}, got {layers}; "
            "correct it, or name another method"
        )
    one = target.mtp_layers[0].model_copy(update={"count": 1})
    head = mtp_head(target.model_copy(update={"mtp_layers": (one,)}))
    others = parameters(head) * (layers - 1)
    return head.model_copy(update={"other_parameters": head.other_parameters + others})


def medusa_head(target: Model, *, held: int = 1) -> Model:
    """One Medusa head (arXiv 2401.10774): a residual block of the hidden width and an LM head of its own.

    `held` heads are in memory; the one computed stands for each of them.
    """
    hidden = target.hidden_size
    block = Linear(name="medusa_block", inputs=hidden, outputs=hidden, bias=True, kind="ffn", shard="replicated")
    lm_head = Linear(name="lm_head", inputs=hidden, outputs=target.vocab_size)
    return Model(
        name=f"{target.name} (Medusa)",
        model_type="medusa",
        role="head",
        hidden_size=hidden,
        vocab_size=target.vocab_size,
        layers=(Layer(count=1, linears=(block,)),),
        embedding_rows=0,
        lm_head=lm_head,
        owns_lm_head=True,
        other_parameters=(held - 1) * (block.weights + hidden + lm_head.weights),
        precision=target.precision,
        notes=("one head stands for each",),
        source=target.source,
    )
