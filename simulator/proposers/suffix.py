"""Suffix decoding (arXiv 2411.04975): drafts continue the longest match in earlier text, as far as it is trusted."""

from dataclasses import dataclass

from roofline.cost import DraftWork
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SuffixProposer:
    """`fractions[i]` is the share of rounds with at least i + 1 drafts; beyond the last entry it stays the last."""

    fractions: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse shares that are none or rise."""
        previous = 1.0
        for number, share in enumerate(self.fractions, start=1):
            if not 0.0 <= share <= previous:
                raise InvalidInput(
                    f"the share of rounds with {number} drafts or more must be in 0..{previous:g}, got {share}; "
                    "longer matches are never more frequent"
                )
            previous = share
        if not self.fractions:
            raise InvalidInput("suffix decoding needs the share of rounds with a match, got none; give one or more")

    @property
    def work(self) -> DraftWork:
        """Matching on the host."""
        return DraftWork(kind="matching", reads_whole_step=False)

    @property
    def proposal_fraction(self) -> float:
        """Share of rounds with a match."""
        return self.fractions[0]

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """No slots: drafts are part of the scheduled tokens."""
        return 0

    def proposed_fractions(self, draft_tokens: int) -> tuple[float, ...]:
        """Share of rounds with at least 1, 2, … drafts."""
        return (self.fractions + self.fractions[-1:] * draft_tokens)[:draft_tokens]
