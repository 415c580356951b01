"""A head on the target's features (EAGLE-1, -2 as a chain, -3; MTP of one layer) drafts token by token."""

from dataclasses import dataclass

from roofline.cost import DraftWork


@dataclass(frozen=True, slots=True)
class HeadProposer:
    """K passes of one or few layers; the first runs over every token of the step, prefill included.

    `unpadded` leaves rejected positions out of the first pass (vLLM `disable_padded_drafter_batch`).
    """

    unpadded: bool = False

    @property
    def work(self) -> DraftWork:
        """A chain."""
        return DraftWork(kind="chain", unpadded=self.unpadded)

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots."""
        return draft_tokens
