"""Draft trees: which candidates are verified together, and how long the accepted path gets.

A tree is an ordered list of nodes, so one object is a family: its first n nodes are the tree of n drafts. A chain is
the tree in which every node has one child.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes 1..N in the order in which they are kept; 0 is the root, the last token emitted.

    `parents[i]` is the parent of node i + 1 and comes before it. Children of a node are candidates for one position,
    the likeliest first: the r-th child (from 0) in the order of nodes has rank r.
    """

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse an order in which a child comes before its parent."""
        if not self.parents:
            raise InvalidInput("a tree needs at least one node, got none; give parents, widths or paths")
        for node, parent in enumerate(self.parents, start=1):
            if not 0 <= parent < node:
                raise InvalidInput(
                    f"the parent of tree node {node} must be in 0..{node - 1} (0 is the root), got {parent}; "
                    "list parents before their children"
                )

    @property
    def nodes(self) -> int:
        """N: drafts of a round."""
        return len(self.parents)

    @property
    def depths(self) -> IntArray:
        """Draft position of every node, `(N,)`, from 1."""
        depths = [0]
        for parent in self.parents:
            depths.append(depths[parent] + 1)
        return np.array(depths[1:], dtype=np.int64)

    @property
    def ranks(self) -> IntArray:
        """Rank of every node among its siblings, `(N,)`, from 0."""
        seen = [0] * (self.nodes + 1)
        ranks: list[int] = []
        for parent in self.parents:
            ranks.append(seen[parent])
            seen[parent] += 1
        return np.array(ranks, dtype=np.int64)

    def children(self, ranks: int) -> IntArray:
        """Child of every node (root first) by rank, `(N + 1, ranks)`; 0 where there is none."""
        table = np.zeros((self.nodes + 1, ranks), dtype=np.int64)
        for node, (parent, rank) in enumerate(zip(self.parents, self.ranks, strict=True), start=1):
            table[parent, rank] = node
        return table

    def pass_rows(self, draft_tokens: int) -> tuple[int, ...]:
        """Rows of each draft pass that grows the first `draft_tokens` nodes: the nodes that get children."""
        inner = sorted({parent for parent in self.parents[:draft_tokens]})
        depths = np.concatenate(([0], self.depths))[inner]
        return tuple(int(count) for count in np.bincount(depths))

    def node_probabilities(self, edges: FloatArray) -> FloatArray:
        """Chance that every node is accepted, `(N,)`; `edges[d, r]` as `edge_probabilities` gives them."""
        reached = np.ones(self.nodes + 1)
        for node, (parent, depth, rank) in enumerate(zip(self.parents, self.depths, self.ranks, strict=True), start=1):
            reached[node] = reached[parent] * edges[depth - 1, rank]
        return reached[1:]

    def expected_length(self, edges: FloatArray, draft_tokens: int | None = None) -> float:
        """AL of the first `draft_tokens` nodes (all), bonus included, exactly: 1 + the sum over nodes."""
        return 1.0 + float(self.node_probabilities(edges)[:draft_tokens].sum())


def chain(draft_tokens: int) -> Tree:
    """The tree of width 1."""
    return Tree(tuple(range(draft_tokens)))


def tree_of_widths(widths: tuple[int, ...]) -> Tree:
    """Every node of depth d has `widths[d]` children: (3, 2) has 3 + 6 nodes, in order of depth."""
    if not widths or min(widths) < 1:
        raise InvalidInput(f"tree widths must be at least 1 per depth, got {widths}; write e.g. (3, 2, 1)")
    levels = [list(product(*(range(width) for width in widths[:depth]))) for depth in range(1, len(widths) + 1)]
    return tree_of_paths(tuple(path for level in levels for path in level))


def tree_of_paths(paths: tuple[tuple[int, ...], ...]) -> Tree:
    """A tree from its nodes as paths of ranks, (0,), (1,), (0, 0), …, as published for Medusa and EAGLE."""
    numbers: dict[tuple[int, ...], int] = {(): 0}
    parents: list[int] = []
    for path in sorted(set(paths), key=lambda each: (len(each), each)):
        before = path[:-1]
        if not path or before not in numbers or (path[-1] > 0 and (*before, path[-1] - 1) not in numbers):
            raise InvalidInput(
                f"tree node {list(path)} has no parent or no sibling of the rank before it; list every node of a path, "
                "ranks from 0 without gaps"
            )
        numbers[path] = len(numbers)
        parents.append(numbers[before])
    return Tree(tuple(parents))


def best_tree(edges: FloatArray, nodes: int, *, least: float = 0.0, beam: int | None = None) -> Tree:
    """The `nodes` likeliest nodes, joint probability descending: no tree of that size has a longer AL.

    Stops at nodes less likely than `least` (the first is always kept) and where `edges` `(depth, ranks)` end. With a
    `beam` only so many nodes of a depth, the likeliest, get children. EAGLE-2 (arXiv 2406.16858) reranks by this
    product; Sequoia (arXiv 2402.12374) proves the choice optimal.
    """
    queue = [(-float(edges[0, 0]), 0, 0, 0)]  # minus joint probability, depth - 1, rank, parent
    parents: list[int] = []
    grown = np.zeros(len(edges) + 1, dtype=np.int64)
    while queue and len(parents) < nodes:
        joint, depth, rank, parent = heapq.heappop(queue)
        if parents and -joint < least:
            break
        parents.append(parent)
        if rank + 1 < edges.shape[1] and edges[depth, rank] > 0:
            sibling = joint / edges[depth, rank] * edges[depth, rank + 1]
            heapq.heappush(queue, (float(sibling), depth, rank + 1, parent))
        if depth + 1 < edges.shape[0] and (beam is None or grown[depth] < beam):
            grown[depth] += 1
            child = joint * edges[depth + 1, 0]
            heapq.heappush(queue, (float(child), depth + 1, 0, len(parents)))
    return Tree(tuple(parents))


def edge_probabilities(conditional: FloatArray) -> FloatArray:
    """Chance that the r-th candidate of a depth is the target's token, given its parent is; same shape `(D, R)`.

    `conditional[d, r]` is that chance given that the candidates before it are not.
    """
    missed = np.cumprod(1.0 - conditional, axis=1)
    before = np.concatenate([np.ones((len(conditional), 1)), missed[:, :-1]], axis=1)
    return conditional * before
