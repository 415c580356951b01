"""What the simulator and the cost table ask of a proposer."""

from typing import Protocol

from roofline.cost import DraftWork


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
