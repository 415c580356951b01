"""Acceptance by coin flips, so that timing is real and the acceptance length is a dial."""

from collections.abc import Sequence

import torch

from roofline.errors import InvalidInput


class Steering:
    """Accepts draft i, given those before it, with a chosen probability, whatever the laws say.

    The same semantics as vLLM's synthetic rejection sampling: rates are unconditional and do not increase.
    """

    def __init__(self, rates: Sequence[float], *, device: str) -> None:
        """Keep conditional rates on the device.

        Parameters
        ----------
        rates
            p_i: share of rounds in which at least i drafts are accepted, one per draft.
        """
        previous = 1.0
        conditional: list[float] = []
        for rate in rates:
            if not 0.0 <= rate <= previous:
                raise InvalidInput(
                    f"acceptance rates must be in 0..1 and not increase, got {tuple(rates)}; "
                    "give the unconditional share per position"
                )
            conditional.append(rate / previous if previous > 0 else 0.0)
            previous = rate
        self.conditional = torch.tensor(conditional, device=device)

    @classmethod
    def geometric(cls, alpha: float, draft_tokens: int, *, device: str) -> "Steering":
        """The same conditional rate at every position."""
        return cls([alpha ** (i + 1) for i in range(draft_tokens)], device=device)

    def decide(self, honest: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Coins `(batch, K)` in place of the honest decisions."""
        uniform = torch.rand(honest.shape, device=honest.device, generator=generator)
        return uniform < self.conditional[: honest.shape[1]]
