"""From a speculation and an acceptance to the thresholds and tables the step loop reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from roofline.step_table import StepCostTable
from simulator.acceptance import Acceptance
from simulator.acceptance_table import AcceptanceTable, acceptance_table
from simulator.controllers.base import BUDGET, OPTIMAL, STATIC, Controller, StepControl, StepPolicy
from simulator.controllers.closed_loop import ClosedLoop
from simulator.limits import EngineLimits
from simulator.policy import DraftPolicy
from simulator.proposers.base import (
    CeilingProposer,
    LengthProposer,
    ParticularProposer,
    Proposer,
    TreeProposer,
)
from simulator.rng import ALWAYS, LUCK_BITS, luck_keys, luck_values, threshold
from simulator.state import Plan
from simulator.tree import Tree, edge_probabilities
from simulator.varied_acceptance import VariedAcceptance
from simulator.workload import Workload

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Speculation:
    """Who proposes, how many, and how often the target agrees (one acceptance per request class, or one for all).

    A `controller` is asked for a new policy at its interval. `switch_s`: seconds of the host a change of K costs.
    """

    proposer: Proposer
    policy: DraftPolicy
    acceptance: tuple[Acceptance, ...] = ()
    controller: Controller | None = None
    switch_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Chances:
    """What a round may bring, by acceptance row: thresholds, trees, and the chance that draft n is emitted."""

    table: AcceptanceTable
    trees: tuple[Tree, ...]
    survival: FloatArray

    @property
    def varied(self) -> bool:
        """The row changes while a request runs."""
        return self.table.bands > 1 or (self.table.levels > 1 and not self.table.by_request)

    def request_rows(self, class_id: IntArray, seed: int) -> IntArray:
        """First row of every request, `(n,)`: its class and, where it keeps one, the level its luck gives it."""
        level = np.zeros(len(class_id), dtype=np.int64)
        if self.table.by_request and self.table.levels > 1:
            drawn = luck_values(luck_keys(seed, "acceptance level", len(class_id)))
            level = (drawn * np.uint64(self.table.levels) >> np.uint64(LUCK_BITS)).astype(np.int64)
        return (class_id * self.table.levels + level) * self.table.bands


def chances_of(speculation: Speculation, *, classes: int, draft_tokens: int) -> Chances:
    """Tables for K up to `draft_tokens`.

    Raises
    ------
    InvalidInput
        Acceptance is missing, says too little for the tree, or cannot be mixed.
    """
    proposer = speculation.proposer
    models = speculation.acceptance * (classes if len(speculation.acceptance) == 1 else 1)
    if len(models) != classes:
        raise InvalidInput(
            f"acceptance must be given once or per class ({classes} classes), got {len(models)}; "
            "measure it, or ask for the break-even instead"
        )
    if isinstance(proposer, CeilingProposer):
        models = tuple(_under(model, proposer.acceptance_ceiling) for model in models)
    if not isinstance(proposer, TreeProposer):
        table = acceptance_table(models, positions=draft_tokens)
        return Chances(table, (), table.survival())
    table = acceptance_table(models, positions=proposer.depth, ranks=proposer.width)
    edges = np.stack([edge_probabilities(table.conditional[row]) for row in range(0, len(table.conditional))])
    trees = proposer.trees(edges[:: table.bands])
    survival = np.zeros((len(edges), max(tree.nodes for tree in trees)))
    for row, edge in enumerate(edges):
        tree = trees[min(row // table.bands, len(trees) - 1)]
        survival[row, : tree.nodes] = tree.node_probabilities(edge)
    return Chances(table, trees, survival[:, :draft_tokens])


def expected_lengths(proposer: Proposer, acceptance: Acceptance, draft_tokens: int) -> FloatArray:
    """AL of 0..K drafts at short context, exactly, bonus included, `(K + 1,)`; of a tree: of its first nodes."""
    lengths: FloatArray = np.ones(draft_tokens + 1)
    if draft_tokens > 0:
        chances = chances_of(Speculation(proposer, _no_policy(), (acceptance,)), classes=1, draft_tokens=draft_tokens)
        emitted = chances.survival[:: chances.table.bands].mean(axis=0)
        kept = emitted * proposed_fractions(proposer, draft_tokens)[: len(emitted)]
        lengths[1:] += np.concatenate([np.cumsum(kept), np.full(draft_tokens - len(kept), kept.sum())])
    return lengths


def expected_length(proposer: Proposer, acceptance: Acceptance, draft_tokens: int, *, by_round: bool = False) -> float:
    """AL of K drafts at short context, exactly, bonus included; a level weighs as often as it is drawn.

    `by_round` counts a level as often as it makes rounds: hard requests, which need more, weigh more. That is what
    engines report where acceptance differs between requests.
    """
    if draft_tokens == 0:
        return 1.0
    speculation = Speculation(proposer, _no_policy(), (acceptance,))
    chances = chances_of(speculation, classes=1, draft_tokens=draft_tokens)
    proposed = proposed_fractions(proposer, draft_tokens)
    lengths = 1.0 + (chances.survival[:: chances.table.bands] * proposed[: chances.survival.shape[1]]).sum(axis=1)
    if by_round and chances.table.by_request:
        return float(len(lengths) / (1.0 / lengths).sum())
    return float(lengths.mean())


def proposed_fractions(proposer: Proposer, draft_tokens: int) -> FloatArray:
    """Share of rounds with at least 1..K drafts, `(K,)`."""
    if isinstance(proposer, LengthProposer):
        return np.array(proposer.proposed_fractions(draft_tokens))
    return np.full(draft_tokens, proposer.proposal_fraction)


def step_plan(
    workload: Workload, *, costs: StepCostTable, limits: EngineLimits, speculation: Speculation
) -> tuple[Plan, Chances | None]:
    """The loop's plan; no chances where nothing is ever drafted."""
    policy, proposer = speculation.policy, speculation.proposer
    draft_by_batch = policy.by_batch(limits.max_sequences)
    control = policy.control() if isinstance(policy, StepPolicy) else StepControl(STATIC, int(draft_by_batch.max()))
    largest = max(control.max_draft_tokens, int(draft_by_batch.max()))
    _check_reach(costs, limits, largest, control)
    if isinstance(proposer, ParticularProposer):
        _check_drafts(proposer, draft_by_batch)
    classes = len(workload.class_names)
    chances = chances_of(speculation, classes=classes, draft_tokens=largest) if largest > 0 else None
    if chances is not None and control.kind == BUDGET and np.any(np.diff(chances.survival, axis=1) > 1e-12):
        raise InvalidInput(
            "an adaptive budget keeps the likeliest drafts first, but this tree lists less likely nodes before "
            "likelier ones; use a dynamic tree or a chain"
        )
    plan = Plan(
        max_batched_tokens=limits.max_batched_tokens,
        max_sequences=limits.max_sequences,
        block_tokens=limits.block_tokens,
        lookahead_tokens=limits.lookahead_tokens,
        max_context_tokens=limits.max_context_tokens,
        draft_window_tokens=limits.draft_window_tokens,
        long_prefill_tokens=limits.long_prefill_tokens,
        chunked_prefill=limits.chunked_prefill,
        reserve_full_prompt=limits.reserve_full_prompt,
        reserve_full_output=limits.reserve_full_output,
        alternate_prefill=limits.alternate_prefill,
        pause_on_finish=False,
        concurrency=workload.concurrency or 0,
        speculation_loaded=proposer.work.kind != "none",
        draft_by_batch=draft_by_batch,
        **_chance_arrays(chances, proposed_fractions(proposer, largest)),
        switch_s=speculation.switch_s,
        control=control.kind,
        least_gain_fraction=control.least_gain_fraction,
        **_slot_arrays(control, policy),
    )
    return plan, chances


def _check_drafts(proposer: ParticularProposer, draft_by_batch: IntArray) -> None:
    for drafts in sorted(set(draft_by_batch.tolist())):
        proposer.check_draft_tokens(drafts)


def _chance_arrays(chances: Chances | None, proposed: FloatArray) -> dict[str, Any]:
    if chances is None:
        chances = Chances(AcceptanceTable(np.zeros((1, 1, 1)), 1, 1, 1, 0, True), (), np.zeros((1, 0)))
    table, trees = chances.table, chances.trees
    ranks = table.conditional.shape[2]
    nodes = max((tree.nodes for tree in trees), default=0)
    child = np.zeros((max(len(trees), 1), nodes + 1, ranks), dtype=np.int64)
    for index, tree in enumerate(trees):
        child[index, : tree.nodes + 1] = tree.children(ranks)
    drafts = chances.survival.shape[1]
    kept = proposed[:drafts]
    by_class = chances.survival.reshape(table.classes, table.levels, table.bands, drafts).mean(axis=1)
    emitted = (by_class * kept).reshape(table.classes * table.bands, drafts)
    some: FloatArray = 1.0 - np.cumprod(1.0 - table.conditional, axis=2, dtype=np.float64)
    some[:, :, 0] = table.conditional[:, :, 0]  # to the bit, as for a chain
    counts: IntArray = np.array([tree.nodes for tree in trees] or [drafts], dtype=np.int64)
    rows: FloatArray = np.minimum(counts[:, None], np.arange(drafts + 1, dtype=np.int64)[None, :]).mean(axis=0)
    return {
        "accept_below": threshold(some),
        "varied": chances.varied,
        "round_levels": 1 if table.by_request else table.levels,
        "bands": table.bands,
        "band_tokens": table.band_tokens,
        "propose_below": np.round(proposed * ALWAYS).astype(np.uint64) if len(proposed) else np.zeros(1, np.uint64),
        "tree": bool(trees),
        "tree_child": child,
        "tree_nodes": np.array([tree.nodes for tree in trees] or [0], dtype=np.int64),
        "gain_tokens": np.concatenate([np.ones((len(emitted), 1)), 1.0 + np.cumsum(emitted, axis=1)], axis=1),
        "verify_rows": 1.0 + (rows if trees else np.concatenate(([0.0], np.cumsum(kept)))),
        "survival": chances.survival * kept,
    }


def _slot_arrays(control: StepControl, policy: DraftPolicy) -> dict[str, Any]:
    """Closed loop: candidates padded with 0, and the state it starts from (average at K - 1, as SGLang)."""
    slots = control.slots
    start = [policy.start_index(slot) for slot in slots] if isinstance(policy, ClosedLoop) else []
    widest = max((len(slot.candidate_steps) for slot in slots), default=1)
    drafts = np.zeros((max(len(slots), 1), widest), dtype=np.int64)
    for index, slot in enumerate(slots):
        drafts[index, : len(slot.candidate_steps)] = slot.candidate_steps
    rules = [
        (s.up_hysteresis, s.down_hysteresis, s.ceiling_coeff, s.ema_alpha, s.update_interval, s.warmup_batches)
        for s in slots
    ]
    index = np.array(start or [0], dtype=np.int64)
    return {
        "slot_batch": np.array([slot.batch for slot in slots] or [1], dtype=np.int64),
        "slot_drafts": drafts,
        "slot_sizes": np.array([len(slot.candidate_steps) for slot in slots] or [1], dtype=np.int64),
        "slot_rule": np.array(rules or [(0.0,) * 6], dtype=np.float64),
        "slot_average": drafts[np.arange(len(drafts)), index] - 1.0,
        "slot_index": index,
        "slot_rounds": np.zeros(len(drafts), dtype=np.int64),
    }


def _under(model: Acceptance, ceiling: float) -> Acceptance:
    if isinstance(model, VariedAcceptance):
        return replace(model, ceiling=model.ceiling * ceiling)
    return VariedAcceptance(model, ceiling=ceiling)


def _no_policy() -> DraftPolicy:
    from simulator.policy import FixedDraft

    return FixedDraft(0)


def _check_reach(costs: StepCostTable, limits: EngineLimits, draft_tokens: int, control: StepControl) -> None:
    if control.kind in (OPTIMAL, BUDGET) and costs.stages * costs.ranks > 1:
        raise InvalidInput(
            "a controller that reads the cost table looks at one batch, not at pipeline stages or data-parallel ranks; "
            "use a fixed K, K by batch size, or the closed loop"
        )
    asked = {
        "max_batched_tokens": (limits.max_batched_tokens, costs.max_tokens),
        "max_sequences": (limits.max_sequences, costs.max_sequences),
        "draft_tokens": (draft_tokens, costs.max_draft_tokens),
    }
    for name, (value, limit) in asked.items():
        if value > limit:
            raise InvalidInput(f"{name} must be in 0..{limit}, got {value}; tabulate the costs further")
