"""A tree whose shape follows the drafter's confidence (EAGLE-2, arXiv 2406.16858): ragged between requests."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roofline.cost import DraftWork
from roofline.errors import InvalidInput
from simulator.tree import Tree, best_tree


@dataclass(frozen=True, slots=True)
class DynamicTreeProposer:
    """Each depth grows the `beam` likeliest nodes; of all candidates the `nodes` likeliest are verified.

    The drafter's estimates are taken as true: it knows the level of acceptance of the round (or request) where that
    varies, so every level has a tree of its own. Nodes less likely than `least_probability` are not verified.
    Drafting always takes `depth` passes, the first of one row, the others of `beam` rows.
    """

    nodes: int = 60
    depth: int = 6
    beam: int = 10
    least_probability: float = 0.0

    def __post_init__(self) -> None:
        """Refuse trees that cannot grow."""
        if min(self.nodes, self.depth, self.beam) < 1:
            raise InvalidInput(
                f"nodes, depth and beam of a dynamic tree must be at least 1, got {self.nodes}, {self.depth}, "
                f"{self.beam}; EAGLE-2 uses 60, 6 and 10"
            )
        most = self.beam + (self.depth - 1) * self.beam**2
        if self.nodes > most:
            raise InvalidInput(
                f"a beam of {self.beam} over {self.depth} depths has {most} candidates, got {self.nodes}"
            )
        if not 0.0 <= self.least_probability < 1.0:
            raise InvalidInput(
                f"least_probability must be in 0..1 (excluded), got {self.least_probability}; 0 keeps all"
            )

    @property
    def width(self) -> int:
        """Candidates for one position, at most."""
        return self.beam

    @property
    def work(self) -> DraftWork:
        """`depth` passes, whatever is kept."""
        rows = (1,) + (self.beam,) * (self.depth - 1)
        return DraftWork(kind="chain", pass_rows=(rows,) * self.nodes)

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """A slot per node."""
        return draft_tokens

    def trees(self, edges: NDArray[np.float64]) -> tuple[Tree, ...]:
        """The likeliest nodes of every level."""
        return tuple(best_tree(level, self.nodes, least=self.least_probability, beam=self.beam) for level in edges)

    def check_draft_tokens(self, draft_tokens: int) -> None:
        """K is at most the nodes that are kept."""
        if draft_tokens > self.nodes:
            raise InvalidInput(
                f"draft_tokens must be in 0..{self.nodes}, the nodes the tree keeps, got {draft_tokens}; lower K"
            )
