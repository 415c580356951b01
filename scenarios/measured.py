"""What was measured of a service, as a scenario carries it: compared with, never computed from."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from roofline.specs import Frozen


class Times(Frozen):
    """Statistics of a time over requests, in seconds."""

    mean: NonNegativeFloat | None = None
    p50: NonNegativeFloat | None = None
    p90: NonNegativeFloat | None = None
    p95: NonNegativeFloat | None = None
    p99: NonNegativeFloat | None = None


class Measured(Frozen):
    """A run: times to the first token, per token after it, between chunks, of whole requests, in the queue."""

    sources: tuple[str, ...] = Field(default=(), description="files it was read from")
    requests: PositiveInt | None = None
    duration_s: PositiveFloat | None = None
    output_tokens_per_s: PositiveFloat | None = None
    acceptance_length: float | None = Field(default=None, ge=1.0, description="bonus included")
    host_s: NonNegativeFloat | None = Field(default=None, description="time of a step outside the forward pass")
    ttft_s: Times | None = None
    tpot_s: Times | None = None
    itl_s: Times | None = None
    latency_s: Times | None = None
    queue_s: Times | None = None
