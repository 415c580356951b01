"""L6: dynamic trees (EAGLE-2 and 3) make the tree of every request differ."""

from __future__ import annotations

import numpy as np

from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, round_at, service
from scenarios.questions.break_even import speculating_arm
from simulator.acceptance import IidAcceptance
from simulator.plan import Speculation, chances_of, expected_length
from simulator.policy import FixedDraft
from simulator.proposers import DynamicTreeProposer, StaticTreeProposer
from simulator.tree import Tree, best_tree, edge_probabilities
from simulator.varied_acceptance import BetaSpread, VariedAcceptance

NODES, DEPTH, BEAM = 60, 6, 10
ALPHA, CONCENTRATION = 0.65, 4.0
_SIBLINGS = (0.4, 0.25, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03)
"""Chance of the second, third, … candidate where those before it fail (assumed)."""
_BUSY_BATCH = 32


def dynamic_trees(seed: int) -> Row:
    """Trees of drafters that know their confidence, against the one best static tree of the same size."""
    varied = VariedAcceptance(IidAcceptance(ALPHA), BetaSpread(CONCENTRATION, "rounds"), sibling_fractions=_SIBLINGS)
    dynamic = DynamicTreeProposer(NODES, DEPTH, BEAM)
    trees = chances_of(_drafting(dynamic, varied), classes=1, draft_tokens=NODES).trees
    mean = VariedAcceptance(IidAcceptance(ALPHA), sibling_fractions=_SIBLINGS)
    edges = edge_probabilities(chances_of(_drafting(dynamic, mean), classes=1, draft_tokens=NODES).table.conditional[0])
    static = StaticTreeProposer(best_tree(edges, NODES, beam=BEAM))
    dynamic_length, static_length = (expected_length(each, varied, NODES) for each in (dynamic, static))
    distinct = len({tree.parents for tree in trees}) / len(trees)
    depths = [int(tree.depths.max()) for tree in trees]
    gain = published("eagle2_al").value / published("eagle_al").value
    return Row(
        id="L6",
        title="Dynamic trees",
        says="dynamic trees (EAGLE-2/3) make every request's tree differ",
        command="specdec chapter L6",
        claims=(
            _different_trees(trees, distinct, depths),
            _longer_than_static(gain, dynamic_length, static_length),
            _large_trees(seed, dynamic_length),
        ),
        note="Ragged trees are simulated as such: the rows of a step are the sum over its requests. All nodes are "
        "verified, so a tree that pays for one request costs more than it brings to a batch.",
    )


def _different_trees(trees: tuple[Tree, ...], distinct: float, depths: list[int]) -> Claim:
    return Claim(
        "requests of different difficulty get different trees",
        0.5,
        1.0,
        found=(Quantity("distinct trees over levels of acceptance", distinct, "assumed"),),
        beside=(
            Quantity("levels", len(trees), "assumed"),
            Quantity("shallowest", min(depths), "assumed"),
            Quantity("deepest", max(depths), "assumed"),
        ),
    )


def _longer_than_static(gain: float, dynamic_length: float, static_length: float) -> Claim:
    return Claim(
        "following confidence accepts more than one fixed tree",
        1.0,
        None,
        found=(Quantity(f"AL, dynamic over static, {NODES} nodes each", dynamic_length / static_length, "assumed"),),
        published=(
            Quantity(
                "AL, EAGLE-2 over EAGLE, Vicuna-13B, MT-Bench",
                gain,
                "measured",
                source=f"{published('eagle2_al').source}; {published('eagle_al').source}",
            ),
        ),
        beside=(
            Quantity("AL dynamic", dynamic_length, "assumed"),
            Quantity("AL static", static_length, "assumed"),
        ),
    )


def _drafting(proposer: DynamicTreeProposer, acceptance: VariedAcceptance) -> Speculation:
    return Speculation(proposer, FixedDraft(NODES), (acceptance,))


def _large_trees(seed: int, length: float) -> Claim:
    tree = {"nodes": NODES, "depth": DEPTH, "beam": BEAM}
    arm = speculating_arm(
        service(DENSE, seed, speculation={"draft_tokens": None, "tree": tree}, acceptance={"alpha": 0.6})
    )
    alone, busy = (length / round_at(arm, batch, draft_tokens=NODES).ratio for batch in (1, _BUSY_BATCH))
    return Claim(
        f"a tree of {NODES} nodes still pays at batch {_BUSY_BATCH}",
        1.0,
        None,
        found=(Quantity(f"S at batch {_BUSY_BATCH}, 8B on H100", float(np.round(busy, 6)), "assumed"),),
        published=(published("tree60_batch_32"),),
        beside=(Quantity("S at batch 1", alone, "assumed"), published("tree60_batch_1")),
    )
