"""Prompt lookup: drafts are copied from earlier text where the last tokens match; no model, sometimes no draft."""

from dataclasses import dataclass

from roofline.cost import DraftWork
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class NgramProposer:
    """Finds a match in a share of rounds, and then proposes K tokens."""

    match_fraction: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0.0 <= self.match_fraction <= 1.0:
            raise InvalidInput(
                f"match_fraction must be in 0..1, got {self.match_fraction}; give the share of rounds with a match"
            )

    @property
    def work(self) -> DraftWork:
        """Matching on the host."""
        return DraftWork(kind="matching", reads_whole_step=False)

    @property
    def proposal_fraction(self) -> float:
        """Share of rounds with a match."""
        return self.match_fraction

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """No slots: drafts are part of the scheduled tokens."""
        return 0
