"""No speculation loaded."""

from dataclasses import dataclass

from roofline.cost import DraftWork


@dataclass(frozen=True, slots=True)
class NoProposer:
    """Plain decoding."""

    @property
    def work(self) -> DraftWork:
        """Nothing runs."""
        return DraftWork(kind="none")

    @property
    def proposal_fraction(self) -> float:
        """Never proposes."""
        return 0.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """No slots."""
        return 0
