"""A separate, smaller model of the same vocabulary drafts token by token."""

from dataclasses import dataclass

from roofline.cost import DraftWork


@dataclass(frozen=True, slots=True)
class DraftModelProposer:
    """K passes; the first runs over the step's tokens plus one per sequence, which catches up the last bonus token."""

    @property
    def work(self) -> DraftWork:
        """A chain with one extra token per sequence in the first pass (vLLM `max_num_new_slots_for_drafting` 1)."""
        return DraftWork(kind="chain", first_pass_extra_tokens=1)

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots."""
        return draft_tokens
