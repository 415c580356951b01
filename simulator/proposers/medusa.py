"""Medusa (arXiv 2401.10774): one small head per position on the target's last state, all in one pass."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost import DraftWork
from roofline.errors import InvalidInput
from simulator.tree import Tree, chain


@dataclass(frozen=True, slots=True)
class MedusaProposer:
    """`heads` heads; a chain of their first choices, or a tree over their best choices.

    Heads do not see each other's drafts: acceptance by position falls faster than a chain's. They read no cache
    and need no first pass over prompts.
    """

    heads: int
    tree: Tree | None = None

    def __post_init__(self) -> None:
        """Refuse trees deeper than there are heads."""
        if self.heads < 1:
            raise InvalidInput(f"Medusa needs at least one head, got {self.heads}; see the checkpoint")
        if self.tree is not None and self.depth > self.heads:
            raise InvalidInput(
                f"the tree is {self.depth} deep, but {self.heads} Medusa heads draft {self.heads} positions; cut it"
            )

    @property
    def depth(self) -> int:
        """Positions drafted."""
        return self.heads if self.tree is None else int(self.tree.depths.max())

    @property
    def width(self) -> int:
        """Candidates for one position, at most."""
        return 1 if self.tree is None else int(self.tree.ranks.max()) + 1

    @property
    def work(self) -> DraftWork:
        """Heads side by side, as many as the tree is deep."""
        tree = self.tree or chain(self.heads)
        positions = np.maximum.accumulate(tree.depths)
        return DraftWork(
            kind="heads", reads_whole_step=False, pass_rows=tuple((1,) * int(depth) for depth in positions)
        )

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """No slots: heads keep no cache, drafts are part of the scheduled tokens."""
        return 0

    def trees(self, edges: NDArray[np.float64]) -> tuple[Tree, ...]:
        """The tree; a chain of first choices where none was given."""
        return (self.tree or chain(self.heads),)

    def check_draft_tokens(self, draft_tokens: int) -> None:
        """K is at most the nodes there are."""
        nodes = self.heads if self.tree is None else self.tree.nodes
        if draft_tokens > nodes:
            raise InvalidInput(
                f"draft_tokens must be in 0..{nodes} for these Medusa heads, got {draft_tokens}; lower K"
            )
