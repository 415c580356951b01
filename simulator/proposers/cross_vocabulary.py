"""A draft model of another tokenizer: only tokens both vocabularies hold can be drafted (arXiv 2502.05202)."""

from dataclasses import dataclass

from roofline.cost import DraftWork
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CrossVocabularyProposer:
    """A draft model under a ceiling: `overlap_fraction` of the target's tokens, weighted by use, can be matched.

    Acceptance given to the simulator is that on the shared tokens; it is multiplied by the overlap.
    """

    overlap_fraction: float

    def __post_init__(self) -> None:
        """Refuse what is no share."""
        if not 0.0 <= self.overlap_fraction <= 1.0:
            raise InvalidInput(
                f"overlap_fraction must be in 0..1, got {self.overlap_fraction}; "
                "give the share of the target's tokens that the draft's vocabulary holds"
            )

    @property
    def work(self) -> DraftWork:
        """A chain with one extra token per sequence in the first pass."""
        return DraftWork(kind="chain", first_pass_extra_tokens=1)

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    @property
    def acceptance_ceiling(self) -> float:
        """The overlap."""
        return self.overlap_fraction

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots."""
        return draft_tokens
