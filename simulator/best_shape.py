"""The tree shape with the largest speed-up on a machine, in closed form over its costs (after Sequoia)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput
from simulator.tree import Tree, best_tree

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BestShape:
    """A tree with its acceptance length, and S = AL / R."""

    tree: Tree
    acceptance_length: float
    speedup: float


def best_shape(
    edges: FloatArray, round_ratio: Callable[[Tree], float], *, max_nodes: int, max_depth: int | None = None
) -> BestShape:
    """Over depth and number of nodes, the likeliest nodes each: the tree with the largest AL / R.

    Among the trees of equal depth and size the likeliest nodes have the longest AL and cost what the others cost up to
    the rows of draft passes, so it is the best of each size. `round_ratio` is R of a tree at the batch and
    context of interest, e.g. from `roofline.cost.round_cost`.

    Parameters
    ----------
    edges : (depth, ranks)
        `simulator.tree.edge_probabilities`.

    Raises
    ------
    InvalidInput
        Nothing to choose from.
    """
    if max_nodes < 1:
        raise InvalidInput(f"max_nodes must be at least 1, got {max_nodes}; a tree has nodes")
    found: list[BestShape] = []
    for depth in range(1, min(max_depth or len(edges), len(edges)) + 1):
        largest = best_tree(edges[:depth], max_nodes)
        reached = 1.0 + np.cumsum(largest.node_probabilities(edges))
        for nodes in range(1, largest.nodes + 1):
            tree = Tree(largest.parents[:nodes])
            length = float(reached[nodes - 1])
            found.append(BestShape(tree, length, length / round_ratio(tree)))
    return max(found, key=lambda shape: shape.speedup)
