"""What the simulator and the cost table ask of a proposer."""

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from roofline.cost import DraftWork
from simulator.tree import Tree


class Proposer(Protocol):
    """Where drafts come from: what it runs, how often it proposes, which cache slots it reserves."""

    @property
    def work(self) -> DraftWork:
        """Forward passes for K drafts, for the cost table."""
        ...

    @property
    def proposal_fraction(self) -> float:
        """Share of rounds in which a sequence gets drafts at all."""
        ...

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """Cache slots the scheduler reserves beyond the scheduled tokens."""
        ...


@runtime_checkable
class TreeProposer(Protocol):
    """A proposer whose K drafts are the first K nodes of a tree."""

    @property
    def depth(self) -> int:
        """Positions of the deepest tree."""
        ...

    @property
    def width(self) -> int:
        """Candidates for one position, at most."""
        ...

    def trees(self, edges: NDArray[np.float64]) -> tuple[Tree, ...]:
        """One tree, or one for each of the `(levels, depth, width)` edge probabilities the drafter tells apart."""
        ...


@runtime_checkable
class LengthProposer(Protocol):
    """A proposer whose number of drafts varies."""

    def proposed_fractions(self, draft_tokens: int) -> tuple[float, ...]:
        """Share of rounds with at least 1, 2, … `draft_tokens` drafts."""
        ...


@runtime_checkable
class CeilingProposer(Protocol):
    """A proposer that cannot write some of the target's tokens."""

    @property
    def acceptance_ceiling(self) -> float:
        """Factor on every conditional acceptance."""
        ...


@runtime_checkable
class ParticularProposer(Protocol):
    """A proposer that does not draft any number of tokens."""

    def check_draft_tokens(self, draft_tokens: int) -> None:
        """Raise `InvalidInput` with the reason where it cannot draft that many."""
        ...
