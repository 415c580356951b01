"""A head or draft model grows a tree of fixed shape (EAGLE-1, SpecInfer, Sequoia): all nodes are verified."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost import DraftWork
from roofline.errors import InvalidInput
from simulator.tree import Tree


@dataclass(frozen=True, slots=True)
class StaticTreeProposer:
    """K drafts are the first K nodes. A pass per depth, one row per node that has children; width 1 is a chain.

    `extra_tokens`: 1 for a separate draft model, 0 for a head (tokens per sequence the first pass adds).
    """

    tree: Tree
    extra_tokens: int = 0

    @property
    def depth(self) -> int:
        """Positions drafted."""
        return int(self.tree.depths.max())

    @property
    def width(self) -> int:
        """Candidates for one position, at most."""
        return int(self.tree.ranks.max()) + 1

    @property
    def work(self) -> DraftWork:
        """Passes over the tree."""
        rows = tuple(self.tree.pass_rows(nodes) for nodes in range(1, self.tree.nodes + 1))
        return DraftWork(kind="chain", first_pass_extra_tokens=self.extra_tokens, pass_rows=rows)

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """A slot per node."""
        return draft_tokens

    def trees(self, edges: NDArray[np.float64]) -> tuple[Tree, ...]:
        """The one shape."""
        return (self.tree,)

    def check_draft_tokens(self, draft_tokens: int) -> None:
        """K is at most the nodes there are."""
        if draft_tokens > self.tree.nodes:
            raise InvalidInput(
                f"draft_tokens must be in 0..{self.tree.nodes}, the nodes of the tree, got {draft_tokens}; "
                "lower K or give a larger tree"
            )
