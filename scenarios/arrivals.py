"""The workload section of a scenario: who asks, how often, for how much, and in which conversations."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from roofline.errors import InvalidInput
from roofline.specs import Frozen
from scenarios import notation
from scenarios.drafting import AcceptanceGiven, Fraction

DEFAULT_MAX_TOKENS = 131072
"""Longest length drawn where `max_tokens` is left out: the context window of most of today's models."""


class Lengths(Frozen):
    """Token counts: `sigma` 0 is fixed, above it a log-normal law with that mean; or a trace's own."""

    mean_tokens: PositiveInt | None = None
    sigma: NonNegativeFloat = 0.0
    max_tokens: PositiveInt | None = Field(default=None, description="longer draws become this; none: 131072")
    from_trace: str | None = Field(default=None, description="path of a trace whose lengths are drawn")

    @model_validator(mode="after")
    def _one_source(self) -> Lengths:
        if (self.mean_tokens is None) == (self.from_trace is None):
            raise InvalidInput("lengths need either mean_tokens or from_trace; give exactly one of them")
        if self.from_trace is not None and self.sigma > 0.0:
            raise InvalidInput(
                f"lengths.sigma = {self.sigma:g} means nothing beside from_trace, whose lengths are drawn as they are; "
                "remove one of the two"
            )
        most_tokens = self.max_tokens or DEFAULT_MAX_TOKENS
        if self.mean_tokens is not None and self.mean_tokens > most_tokens:
            raise InvalidInput(
                f"lengths.mean_tokens = {self.mean_tokens} is above max_tokens = {most_tokens}"
                f"{'' if self.max_tokens else ', its default'}; raise max_tokens or lower the mean"
            )
        return self


class RequestKind(Frozen):
    """A class of requests with its own share, lengths, acceptance and objectives."""

    name: str = Field(min_length=1)
    share_fraction: float = Field(gt=0.0, le=1.0)
    input_tokens: PositiveInt | Lengths
    output_tokens: PositiveInt | Lengths
    prefix_hit_fraction: Fraction = 0.0
    acceptance: AcceptanceGiven | None = None
    slo: tuple[str, ...] = Field(default=(), description="objectives of this class alone, like tpot_p95=40ms")

    @field_validator("slo")
    @classmethod
    def _slo_reads(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            notation.slo(text)
        return texts


class TraceWorkload(Frozen):
    """Recorded requests, replayed at multiples of their rate."""

    kind: Literal["trace"] = "trace"
    path: str
    format: Literal["auto", "azure", "mooncake", "burstgpt", "bailian"] = "auto"
    max_requests: PositiveInt | None = Field(default=None, description="only the first so many")
    prefix_hits: Literal["none", "unlimited_cache"] = Field(
        default="none", description="Mooncake block hashes: hits of a cache that never evicts"
    )


class Swing(Frozen):
    """A Poisson rate that swings around the workload's: bursts and quiet, a day's sine, or bursts in a day."""

    on_s: PositiveFloat | None = Field(default=None, description="bursts last so long")
    off_s: PositiveFloat | None = Field(default=None, description="quiet between bursts")
    quiet_fraction: Fraction = Field(default=0.0, description="rate of the quiet over that of a burst")
    period_s: PositiveFloat | None = Field(default=None, description="a sine of this period, from its trough")
    swing_fraction: Fraction | None = Field(default=None, description="0.8: from 20 % to 180 % of the mean")

    @model_validator(mode="after")
    def _one_way(self) -> Swing:
        given = [name for name in ("on_s", "off_s", "period_s", "swing_fraction") if getattr(self, name) is not None]
        pairs = ["on_s", "off_s"], ["period_s", "swing_fraction"]
        if given not in (*pairs, pairs[0] + pairs[1]):
            raise InvalidInput(
                "workload.swing needs on_s and off_s, or period_s and swing_fraction, or both pairs, got "
                f"{' and '.join(given) or 'none of them'}; complete the pair"
            )
        return self

    def phases(self, mean_per_s: float) -> tuple[tuple[float, float], ...]:
        """(seconds, rate per second) over and over."""
        from simulator.workload import bursts_within, diurnal_phases

        day = (((self.on_s or 0.0) + (self.off_s or 0.0), mean_per_s),)
        if self.period_s is not None:
            day = diurnal_phases(mean_per_s, period_s=self.period_s, swing_fraction=self.swing_fraction or 0.0)
        if self.on_s is None or self.off_s is None:
            return day
        return bursts_within(day, on_s=self.on_s, off_s=self.off_s, quiet_fraction=self.quiet_fraction)


class OpenWorkload(Frozen):
    """Requests that arrive on their own: Poisson, or gamma with a burstiness (below 1: burstier)."""

    kind: Literal["poisson", "gamma"] = "poisson"
    rate_per_s: PositiveFloat | None = Field(default=None, description="the sweep goes from 0.25x to 4x of it")
    requests: PositiveInt = 4000
    burstiness: PositiveFloat = 1.0
    swing: Swing | None = Field(default=None, description="none: the rate is constant")
    input_tokens: PositiveInt | Lengths | None = None
    output_tokens: PositiveInt | Lengths | None = None
    prefix_hit_fraction: Fraction = 0.0
    classes: tuple[RequestKind, ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> OpenWorkload:
        _check_lengths(self.input_tokens, self.output_tokens, self.classes)
        if self.kind == "gamma" and self.swing is not None:
            raise InvalidInput("workload.swing needs kind = 'poisson', got 'gamma'; bursts are in the swing then")
        if self.kind == "poisson" and self.burstiness != 1.0:
            raise InvalidInput(
                f"workload.burstiness = {self.burstiness:g} needs kind = 'gamma', got 'poisson'; change the kind"
            )
        return self


class ClosedWorkload(Frozen):
    """A fixed number of requests in flight: the next starts when one ends."""

    kind: Literal["closed"] = "closed"
    concurrency: PositiveInt | None = None
    requests: PositiveInt = 4000
    input_tokens: PositiveInt | Lengths | None = None
    output_tokens: PositiveInt | Lengths | None = None
    prefix_hit_fraction: Fraction = 0.0
    classes: tuple[RequestKind, ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> ClosedWorkload:
        _check_lengths(self.input_tokens, self.output_tokens, self.classes)
        return self


class TurnAcceptance(Frozen):
    """Acceptance from a turn on: later turns repeat more of what the session holds already."""

    from_turn: PositiveInt
    acceptance: AcceptanceGiven


class SessionWorkload(Frozen):
    """Chats and agents: a turn comes when the answer before it is there and thought about, with all that was said.

    Sessions start as a Poisson process. `rate_per_s` counts turns, so that it compares with other workloads; the
    first turn brings `first_input_tokens`, every other `input_tokens`.
    """

    kind: Literal["sessions"] = "sessions"
    rate_per_s: PositiveFloat | None = Field(default=None, description="turns offered per second over all sessions")
    requests: PositiveInt = Field(default=1000, description="turns of all sessions together")
    turns: PositiveInt = Field(default=8, description="turns of a session")
    think_s: NonNegativeFloat = Field(default=10.0, description="from an answer to the next turn: user or tool")
    think_sigma: NonNegativeFloat = Field(default=0.0, description="log-normal spread of it; 0 is fixed")
    first_input_tokens: PositiveInt | Lengths | None = Field(default=None, description="none: as input_tokens")
    input_tokens: PositiveInt | Lengths
    output_tokens: PositiveInt | Lengths
    keeps_cache: bool = Field(default=True, description="what was said before is found in the prefix cache")
    acceptance_by_turn: tuple[TurnAcceptance, ...] = Field(
        default=(), description="self-similarity: acceptance by turn, the first from turn 1"
    )

    @model_validator(mode="after")
    def _turns_rise(self) -> SessionWorkload:
        starts = [item.from_turn for item in self.acceptance_by_turn]
        if starts and (starts[0] != 1 or any(after <= before for before, after in pairwise(starts))):
            raise InvalidInput(f"workload.acceptance_by_turn must start at turn 1 and rise, got {starts}; sort it")
        if starts and starts[-1] > self.turns:
            raise InvalidInput(
                f"workload.acceptance_by_turn goes to turn {starts[-1]}, but sessions have {self.turns} turns; "
                "raise turns or drop the entry"
            )
        return self


WorkloadGiven = TraceWorkload | OpenWorkload | ClosedWorkload | SessionWorkload


def _check_lengths(input_tokens: object, output_tokens: object, classes: tuple[RequestKind, ...]) -> None:
    if classes:
        total = sum(kind.share_fraction for kind in classes)
        if input_tokens is not None or output_tokens is not None:
            raise InvalidInput("workload has both classes and input_tokens/output_tokens; keep one of the two ways")
        if abs(total - 1.0) > 1e-6:
            raise InvalidInput(f"workload.classes: share_fraction must sum to 1, got {total:g}; correct the shares")
    elif input_tokens is None or output_tokens is None:
        raise InvalidInput(
            "workload lengths are missing; give input_tokens and output_tokens (--input-tokens 600 "
            "--output-tokens 250), classes, or a trace"
        )
