"""The hardware decides the tree: wide where rows are free, a short chain where they are dear, none at a price."""

import time

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.best_shape import best_shape
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.policy import FixedDraft
from simulator.proposers import DynamicTreeProposer, HeadProposer
from simulator.replica import Replica
from simulator.tree import Tree, edge_probabilities, tree_of_widths
from simulator.varied_acceptance import BetaSpread, VariedAcceptance
from tests.strategies import affine_costs, workload

EDGES = edge_probabilities(np.tile([0.65, 0.4, 0.3], (6, 1)))


def _ratio(per_row: float, per_pass: float):
    def round_ratio(tree: Tree) -> float:
        return 1.0 + per_row * tree.nodes + per_pass * int(tree.depths.max())

    return round_ratio


def test_the_best_shape_beats_every_fixed_shape():
    for per_row, per_pass in ((0.0, 0.05), (0.01, 0.05), (0.05, 0.02), (0.2, 0.0)):
        ratio = _ratio(per_row, per_pass)
        best = best_shape(EDGES, ratio, max_nodes=40)
        for widths in ((1,), (1, 1, 1), (2, 1), (2, 2, 1), (3, 2, 1), (3, 3, 3), (1, 1, 1, 1, 1, 1)):
            tree = tree_of_widths(widths)
            assert tree.expected_length(EDGES) / ratio(tree) <= best.speedup * (1 + 1e-12)


def test_dear_rows_shrink_the_tree():
    nodes = [best_shape(EDGES, _ratio(per_row, 0.05), max_nodes=60).tree.nodes for per_row in (0.0, 0.01, 0.05, 0.3)]
    assert nodes == sorted(nodes, reverse=True)
    assert nodes[0] == 60
    assert nodes[-1] <= 2


def test_a_tree_of_no_nodes_is_refused():
    with pytest.raises(InvalidInput, match="max_nodes must be at least 1"):
        best_shape(EDGES, _ratio(0.0, 0.0), max_nodes=0)


def _step_cpu_s(proposer, draft_tokens: int, acceptance) -> float:
    costs = affine_costs(step_s=0.01, max_tokens=8192, max_draft_tokens=draft_tokens)
    limits = EngineLimits(max_batched_tokens=8192, max_sequences=64, kv_blocks=1_000_000)
    speculation = Speculation(proposer, FixedDraft(draft_tokens), (acceptance,))
    spent_s = []
    for _ in range(5):
        replica = Replica(workload(np.zeros(64), 16, 4000), costs=costs, limits=limits, speculation=speculation, seed=1)
        start_s = time.process_time()
        replica.advance(1e9)
        spent_s.append((time.process_time() - start_s) / replica.result().totals.steps)
    return min(spent_s)


@pytest.mark.slow
def test_a_step_of_a_large_dynamic_tree_takes_at_most_five_chain_steps_of_processor_time():
    varied = VariedAcceptance(
        IidAcceptance(0.7), BetaSpread(4.0, "rounds"), sibling_fractions=(0.4, 0.3, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1)
    )
    tree_s = _step_cpu_s(DynamicTreeProposer(nodes=60, depth=6, beam=10), 60, varied)
    assert tree_s <= 5 * _step_cpu_s(HeadProposer(), 6, IidAcceptance(0.7))
