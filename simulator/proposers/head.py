"""A head on the target's features (EAGLE family, MTP) drafts token by token."""

from dataclasses import dataclass

from roofline.cost import DraftWork


@dataclass(frozen=True, slots=True)
class HeadProposer:
    """K passes of one or few layers; the first runs over every token of the step, prefill included."""

    @property
    def work(self) -> DraftWork:
        """A chain."""
        return DraftWork(kind="chain")

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots."""
        return draft_tokens
