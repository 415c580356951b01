"""Parallel drafters: one pass of a small model drafts all K tokens, through mask tokens."""

from dataclasses import dataclass
from typing import Literal

from roofline.cost import DraftWork

Method = Literal["pard", "p_eagle", "dflash", "dspark"]


@dataclass(frozen=True, slots=True)
class ParallelProposer:
    """One pass whatever K; what it runs over differs by method (as vLLM schedules them).

    PARD, a draft model: every token of the step and K mask tokens per sequence. P-EAGLE, a head: the same with
    K - 1. DFlash and DSpark, block drafters fed with the target's states: K + 1 and K query tokens per sequence.
    """

    method: Method

    @property
    def work(self) -> DraftWork:
        """One pass."""
        extra_tokens = {"pard": 0, "p_eagle": -1, "dflash": 0, "dspark": -1}[self.method]
        return DraftWork(
            kind="parallel",
            reads_whole_step=self.method in ("pard", "p_eagle"),
            first_pass_extra_tokens=extra_tokens,
        )

    @property
    def proposal_fraction(self) -> float:
        """Proposes in every round."""
        return 1.0

    def lookahead_tokens(self, draft_tokens: int) -> int:
        """K slots; DFlash K + 1."""
        return draft_tokens + int(self.method == "dflash" and draft_tokens > 0)
