"""Multi-token prediction with several layers: layer i drafts position i, in turn beyond the last."""

from dataclasses import dataclass

from roofline.cost import DraftWork
from roofline.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class MtpProposer:
    """K passes through one layer each, whose weights all must be held; K is a multiple of the layers.

    The cost table takes one layer as the draft; acceptance by position says what each layer is worth.
    """

    layers: int = 1

    def __post_init__(self) -> None:
        """Refuse a head without layers."""
        if self.layers < 1:
            raise InvalidInput(f"layers of an MTP head must be at least 1, got {self.layers}; see the config.json")

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

    def check_draft_tokens(self, draft_tokens: int) -> None:
        """Engines refuse a K beyond the layers that is no multiple of them (vLLM `num_speculative_tokens`)."""
        if draft_tokens > self.layers and draft_tokens % self.layers:
            above = (draft_tokens // self.layers + 1) * self.layers
            raise InvalidInput(
                f"draft_tokens must be a multiple of the {self.layers} MTP layers, got {draft_tokens}; "
                f"use {above - self.layers} or {above}"
            )
