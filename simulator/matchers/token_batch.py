"""Requests of a token log as flat arrays: what the matchers replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roofline.errors import InvalidInput

MAX_TOKEN_ID = (1 << 24) - 1
"""Some sixty times the largest vocabulary in the catalogue; ids are hashed, so the limit costs nothing."""


class BatchArrays(NamedTuple):
    """The arrays of a `TokenBatch`, as the compiled loops take them."""

    tokens: NDArray[np.int32]
    start: NDArray[np.int64]
    response_start: NDArray[np.int64]
    class_id: NDArray[np.int64]
    turn: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Consecutive requests of a log, in order.

    Attributes
    ----------
    tokens : (T,)
        All token ids: prompt and response of the first request, then of the second, ...
    start : (requests + 1,)
        Where each request begins; the last entry is T.
    response_start : (requests,)
        Where each response begins.
    class_id : (requests,)
        Request class, counted from 0.
    turn : (requests,)
        Turn within its session, counted from 1.
    """

    tokens: NDArray[np.int32]
    start: NDArray[np.int64]
    response_start: NDArray[np.int64]
    class_id: NDArray[np.int64]
    turn: NDArray[np.int64]

    @property
    def requests(self) -> int:
        """Number of requests."""
        return len(self.response_start)

    @property
    def response_tokens(self) -> int:
        """Tokens of all responses."""
        return int((self.start[1:] - self.response_start).sum())

    def arrays(self) -> BatchArrays:
        """For the compiled loops."""
        return BatchArrays(self.tokens, self.start, self.response_start, self.class_id, self.turn)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request: token ids of prompt and response, its class and turn."""

    prompt: NDArray[np.int32]
    response: NDArray[np.int32]
    class_id: int = 0
    turn: int = 1


def batch_of(requests: list[TokenRequest]) -> TokenBatch:
    """Flatten requests.

    Raises
    ------
    InvalidInput
        A token id is negative or above `MAX_TOKEN_ID`, a class is negative, a turn below 1.
    """
    pieces = [piece for request in requests for piece in (request.prompt, request.response)]
    tokens = np.concatenate(pieces).astype(np.int32, copy=False) if pieces else np.zeros(0, dtype=np.int32)
    if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) <= MAX_TOKEN_ID:
        bad = int(tokens.min()) if tokens.min() < 0 else int(tokens.max())
        raise InvalidInput(f"token ids must be in 0..{MAX_TOKEN_ID}, got {bad}; give the ids of the target's tokenizer")
    if any(request.class_id < 0 or request.turn < 1 for request in requests):
        raise InvalidInput("class_id counts from 0 and turn from 1; correct the request")
    prompts = np.array([len(request.prompt) for request in requests], dtype=np.int64)
    responses = np.array([len(request.response) for request in requests], dtype=np.int64)
    start = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(prompts + responses)])
    return TokenBatch(
        tokens=tokens,
        start=start,
        response_start=start[:-1] + prompts,
        class_id=np.array([request.class_id for request in requests], dtype=np.int64),
        turn=np.array([request.turn for request in requests], dtype=np.int64),
    )
