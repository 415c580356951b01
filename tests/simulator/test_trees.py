"""Trees: a chain is the tree of width 1, bit for bit; AL is that of enumeration; the best shape is the best."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance, PerPositionAcceptance
from simulator.plan import Speculation, expected_length
from simulator.policy import FixedDraft
from simulator.proposers import DynamicTreeProposer, HeadProposer, MedusaProposer, StaticTreeProposer
from simulator.replica import simulate
from simulator.tree import Tree, best_tree, chain, edge_probabilities, tree_of_paths, tree_of_widths
from simulator.varied_acceptance import BetaSpread, VariedAcceptance
from tests.simulator.fingerprint import digest
from tests.strategies import Case, affine_costs, cases, limits, workload


@given(case=cases(), alpha=st.sampled_from([0.0, 0.4, 0.8, 1.0]), draft_tokens=st.integers(1, 5))
@settings(max_examples=80)
def test_a_chain_is_the_tree_of_width_one_bit_for_bit(case: Case, alpha, draft_tokens):
    acceptance = (IidAcceptance(alpha),)
    as_chain = Speculation(HeadProposer(), FixedDraft(draft_tokens), acceptance)
    as_tree = Speculation(StaticTreeProposer(chain(draft_tokens)), FixedDraft(draft_tokens), acceptance)
    one = case.run(trace_steps=True, speculation=as_chain)
    other = case.run(trace_steps=True, speculation=as_tree)

    assert digest(one) == digest(other)


def test_a_tree_of_width_one_costs_what_a_chain_costs():
    assert (
        StaticTreeProposer(chain(4)).work.rows_of_passes(4).tolist() == HeadProposer().work.rows_of_passes(4).tolist()
    )
    assert not StaticTreeProposer(chain(4)).work.grows_tree


def _enumerated_length(tree: Tree, conditional: np.ndarray) -> float:
    """AL over all outcomes of all candidates of the tree: every node agrees or not, walked like an engine does."""
    depths, ranks = tree.depths, tree.ranks
    total = 0.0
    for outcome in product((False, True), repeat=tree.nodes):
        chance = 1.0
        for agrees, depth, rank in zip(outcome, depths, ranks, strict=True):
            share = conditional[depth - 1, rank]
            chance *= share if agrees else 1.0 - share
        accepted, node = 0, 0
        while True:
            children = [number for number, parent in enumerate(tree.parents, start=1) if parent == node]
            agreeing = [child for child in children if outcome[child - 1]]
            if not agreeing:
                break
            accepted, node = accepted + 1, agreeing[0]
        total += chance * (1 + accepted)
    return total


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    nodes = draw(st.integers(1, 9))
    return Tree(tuple(draw(st.integers(0, node)) for node in range(nodes)))


@given(tree=trees(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_length_of_a_static_tree_is_that_of_exact_enumeration(tree: Tree, data):
    shares = st.floats(0.0, 1.0)
    shape = (int(tree.depths.max()), int(tree.ranks.max()) + 1)
    conditional = np.array(data.draw(st.lists(shares, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])))
    conditional = conditional.reshape(shape)
    assert tree.expected_length(edge_probabilities(conditional)) == pytest.approx(
        _enumerated_length(tree, conditional), rel=1e-9
    )


@pytest.mark.parametrize("widths", [(3,), (2, 2), (4, 2, 1), (1, 1, 1, 1)])
def test_the_simulated_length_of_a_static_tree_is_the_enumerated_one(widths):
    tree = tree_of_widths(widths)
    acceptance = VariedAcceptance(PerPositionAcceptance((0.7, 0.45, 0.3, 0.2)), sibling_fractions=(0.4, 0.3, 0.2))
    proposer = StaticTreeProposer(tree)
    result = simulate(
        workload(np.zeros(400), 3, 401),
        costs=affine_costs(step_s=0.01, max_draft_tokens=tree.nodes),
        limits=limits(),
        speculation=Speculation(proposer, FixedDraft(tree.nodes), (acceptance,)),
        seed=4,
    )
    expected = expected_length(proposer, acceptance, tree.nodes)
    rounds = int(result.rounds.sum())
    assert abs(result.acceptance_length - expected) < 4 * 1.2 / np.sqrt(rounds)


def test_wider_trees_only_add_to_what_the_chain_accepts():
    """The first candidate of a position has the luck of a chain's: a wider tree never shortens a round."""
    acceptance = (VariedAcceptance(IidAcceptance(0.6), sibling_fractions=(0.5, 0.5)),)
    common = {"costs": affine_costs(step_s=0.01, max_draft_tokens=39), "limits": limits(), "seed": 9}
    load = workload(np.zeros(30), 3, 60)
    finished = []
    for width in (1, 2, 3):
        tree = tree_of_widths((width,) * 3)
        speculation = Speculation(StaticTreeProposer(tree), FixedDraft(tree.nodes), acceptance)
        finished.append(simulate(load, speculation=speculation, **common).rounds)
    assert finished[0].sum() > finished[1].sum() > finished[2].sum()


def _all_subtrees(nodes: int, depth: int, width: int) -> set[tuple[tuple[int, ...], ...]]:
    """Every tree of that many nodes, as a set of paths of ranks."""
    found: set[frozenset[tuple[int, ...]]] = {frozenset()}
    for _ in range(nodes):
        grown = set()
        for tree in found:
            for parent in [(), *tree]:
                for rank in range(width):
                    path = (*parent, rank)
                    if len(path) <= depth and path not in tree and (rank == 0 or (*parent, rank - 1) in tree):
                        grown.add(tree | {path})
        found = grown
    return {tuple(sorted(tree)) for tree in found}


@pytest.mark.parametrize("seed", range(4))
def test_the_best_tree_is_the_best_of_all_trees_of_its_size(seed):
    conditional = np.random.default_rng(seed).uniform(0.05, 0.8, (3, 3))
    edges = edge_probabilities(conditional)
    edges = -np.sort(-edges, axis=1)
    best = best_tree(edges, 5)
    others = [tree_of_paths(paths).expected_length(edges) for paths in _all_subtrees(5, 3, 3)]
    assert best.expected_length(edges) == pytest.approx(max(others), rel=1e-12)
    assert len(others) == 28


def test_dynamic_trees_follow_the_confidence_of_the_round_and_are_ragged():
    acceptance = VariedAcceptance(IidAcceptance(0.6), BetaSpread(2.0, "rounds"), sibling_fractions=(0.4, 0.3))
    following = DynamicTreeProposer(nodes=12, depth=4, beam=3)
    fixed = StaticTreeProposer(best_tree(edge_probabilities(np.tile([0.6, 0.4, 0.3], (4, 1))), 12))
    assert expected_length(following, acceptance, 12) > expected_length(fixed, acceptance, 12) + 0.01

    ragged = DynamicTreeProposer(nodes=12, depth=4, beam=3, least_probability=0.05)
    result = simulate(
        workload(np.zeros(300), 3, 301),
        costs=affine_costs(step_s=0.01, max_draft_tokens=12),
        limits=limits(),
        speculation=Speculation(ragged, FixedDraft(12), (acceptance,)),
        seed=1,
    )
    assert result.acceptance_length == pytest.approx(expected_length(ragged, acceptance, 12), rel=0.02)
    assert result.drafted_tokens.sum() < 0.9 * 12 * result.rounds.sum()


def test_a_tree_cut_at_the_budget_keeps_its_first_nodes():
    acceptance = (VariedAcceptance(IidAcceptance(1.0), sibling_fractions=(0.5,)),)
    result = simulate(
        workload(np.zeros(1), 3, 31),
        costs=affine_costs(step_s=0.01, max_draft_tokens=6),
        limits=limits(max_batched_tokens=4),
        speculation=Speculation(StaticTreeProposer(tree_of_widths((2, 2))), FixedDraft(6), acceptance),
        seed=0,
        trace_steps=True,
    )
    assert result.steps is not None
    assert result.steps.draft_tokens.max() == 3  # nodes (0,), (1,), (0, 0)
    assert result.acceptance_length == 3.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tree((0, 2)), "parent of tree node 2 must be in 0..1"),
        (lambda: Tree(()), "at least one node"),
        (lambda: tree_of_widths((2, 0)), "at least 1 per depth"),
        (lambda: tree_of_paths(((1,),)), "no sibling of the rank before"),
        (lambda: MedusaProposer(1, tree_of_widths((1, 1))), "2 deep, but 1 Medusa heads"),
        (lambda: DynamicTreeProposer(nodes=50, depth=2, beam=3), "has 12 candidates, got 50"),
        (lambda: StaticTreeProposer(chain(2)).check_draft_tokens(3), "must be in 0..2, the nodes of the tree, got 3"),
        (
            lambda: expected_length(StaticTreeProposer(tree_of_widths((2,))), IidAcceptance(0.5), 2),
            "sibling_fractions say",
        ),
    ],
)
def test_trees_that_cannot_be_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
