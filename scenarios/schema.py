"""The scenario file: what is served, on what, how it drafts, who asks, and what is wanted.

One class a TOML table; all frozen, unknown keys refused. `specdec schema` prints the JSON schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from roofline.errors import InvalidInput
from roofline.specs import Frozen
from scenarios import notation
from scenarios.drafting import (
    HEAD_METHODS,
    MATCHING_METHODS,
    PARALLEL_METHODS,
    AcceptanceGiven,
    Drafting,
    Fraction,
    Method,
)

__all__ = ["HEAD_METHODS", "MATCHING_METHODS", "PARALLEL_METHODS", "Method", "Scenario", "merge"]

SCHEMA_VERSION = 1


class TargetModel(Frozen):
    """The served model: a name from `specdec list models`, or the path of a config.json."""

    model: str = Field(min_length=1)
    quantization: str | None = Field(default=None, description="overrides what the config says, e.g. fp8, awq")
    kv_cache_dtype: str | None = Field(default=None, description="KV cache format; none: 16 bits")


CATALOGUE = "catalogue"
"""As `hardware.calibration`: the catalogue's efficiencies, even where a calibration ships."""


class Hardware(Frozen):
    """One replica's GPUs, and the constants of their speed."""

    gpu: str = Field(min_length=1, description="a name from `specdec list gpus`, or the path of a TOML file")
    tensor_parallel: PositiveInt = 1
    draft_tensor_parallel: PositiveInt | None = Field(
        default=None, description="1 or tensor_parallel; none: the latter"
    )
    expert_parallel: bool = Field(default=False, description="routed experts are dealt to the GPUs whole, not cut")
    calibration: str | None = Field(
        default=None, description="path of a calibration file; none: shipped for the GPU and engine, else catalogue"
    )
    routing_skew: NonNegativeFloat = Field(
        default=0.0, description="MoE: 0 routes tokens to experts evenly; larger: fewer experts are touched"
    )
    outside_domain: Literal["refuse", "clip"] = "refuse"


class Engine(Frozen):
    """Scheduler and memory options; `None` takes the engine's own default for this GPU."""

    profile: str = Field(default="vllm", description="a row of engines.toml")
    gpu_memory_utilization_fraction: float | None = Field(default=None, gt=0.0, le=1.0)
    max_batched_tokens: PositiveInt | None = None
    max_sequences: PositiveInt | None = None
    max_context_tokens: PositiveInt | None = None
    block_tokens: PositiveInt | None = None
    kv_blocks: PositiveInt | None = Field(default=None, description="overrides what memory allows")
    chunked_prefill: bool | None = None
    long_prefill_threshold_tokens: NonNegativeInt = 0
    enforce_eager: bool = False
    draft_enforce_eager: bool | None = Field(default=None, description="none: as the target")


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
    format: Literal["auto", "azure", "mooncake"] = "auto"
    max_requests: PositiveInt | None = Field(default=None, description="only the first so many")
    prefix_hits: Literal["none", "unlimited_cache"] = Field(
        default="none", description="Mooncake block hashes: hits of a cache that never evicts"
    )


class Swing(Frozen):
    """A Poisson rate that swings around the workload's: bursts and quiet, or a day's sine. One of the two ways."""

    on_s: PositiveFloat | None = Field(default=None, description="bursts last so long")
    off_s: PositiveFloat | None = Field(default=None, description="quiet between bursts")
    quiet_fraction: Fraction = Field(default=0.0, description="rate of the quiet over that of a burst")
    period_s: PositiveFloat | None = Field(default=None, description="a sine of this period, from its trough")
    swing_fraction: Fraction | None = Field(default=None, description="0.8: from 20 % to 180 % of the mean")

    @model_validator(mode="after")
    def _one_way(self) -> Swing:
        given = [name for name in ("on_s", "off_s", "period_s", "swing_fraction") if getattr(self, name) is not None]
        if given not in (["on_s", "off_s"], ["period_s", "swing_fraction"]):
            raise InvalidInput(
                "workload.swing needs on_s and off_s, or period_s and swing_fraction, got "
                f"{' and '.join(given) or 'none of them'}; keep one pair"
            )
        return self

    def phases(self, mean_per_s: float) -> tuple[tuple[float, float], ...]:
        """(seconds, rate per second) over and over."""
        from simulator.workload import diurnal_phases, on_off_phases

        if self.on_s is not None and self.off_s is not None:
            return on_off_phases(mean_per_s, on_s=self.on_s, off_s=self.off_s, quiet_fraction=self.quiet_fraction)
        return diurnal_phases(mean_per_s, period_s=self.period_s or 1.0, swing_fraction=self.swing_fraction or 0.0)


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


class Loads(Frozen):
    """The points of the sweep; at most one key. None: 0.25x to 4x of the workload's own rate."""

    factors: tuple[PositiveFloat, ...] = ()
    rates_per_s: tuple[PositiveFloat, ...] = ()
    concurrencies: tuple[PositiveInt, ...] = ()

    @model_validator(mode="after")
    def _at_most_one(self) -> Loads:
        given = [name for name in ("factors", "rates_per_s", "concurrencies") if getattr(self, name)]
        if len(given) > 1:
            raise InvalidInput(f"loads must be given in one way, got {' and '.join(given)}; keep one")
        return self


class Run(Frozen):
    """Repetition and reach of the question."""

    seed: NonNegativeInt = 0
    seeds: PositiveInt = Field(default=5, description="paired repetitions behind every interval")
    max_draft_tokens: PositiveInt = Field(default=8, description="largest K considered for the advice")


class Scenario(Frozen):
    """One question, complete. A `serve` line fills the tables; a table key that contradicts it is refused."""

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str = "scenario"
    description: str = ""
    serve: str | None = Field(default=None, description="a `vllm serve …` command line")
    target: TargetModel
    hardware: Hardware
    engine: Engine = Engine()
    speculation: Drafting = Drafting()
    acceptance: AcceptanceGiven | None = None
    workload: Annotated[TraceWorkload | OpenWorkload | ClosedWorkload, Field(discriminator="kind")]
    loads: Loads = Loads()
    slo: tuple[str, ...] = ()
    run: Run = Run()

    @model_validator(mode="before")
    @classmethod
    def _fill_from_serve(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        content: dict[str, Any] = dict(cast("Mapping[str, Any]", data))
        serve = content.get("serve")
        if isinstance(serve, str):
            from scenarios.imports.serve_command import parse_serve_command

            return merge(content, parse_serve_command(serve).scenario, origin="the serve command")
        return content

    @field_validator("slo")
    @classmethod
    def _slo_reads(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            notation.slo(text)
        return texts

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        hardware = self.hardware
        draft_parallel = hardware.draft_tensor_parallel
        if draft_parallel not in (None, 1, hardware.tensor_parallel):
            raise InvalidInput(
                "hardware.draft_tensor_parallel must be 1 or tensor_parallel "
                f"({hardware.tensor_parallel}), got "
                f"{draft_parallel}; choose one of them"
            )
        self._check_proposal_fraction()
        if self.loads.concurrencies and self.workload.kind != "closed":
            raise InvalidInput(
                f"loads.concurrencies need workload.kind = 'closed', got {self.workload.kind!r}; use "
                "factors or "
                "rates_per_s, or close the loop"
            )
        if self.loads.rates_per_s and self.workload.kind == "closed":
            raise InvalidInput("loads.rates_per_s mean nothing in a closed loop; use loads.concurrencies")
        return self

    def _check_proposal_fraction(self) -> None:
        method, fraction = self.speculation.method, self.speculation.proposal_fraction
        by_task = self.acceptance is not None and self.acceptance.task is not None
        if method in MATCHING_METHODS and fraction is None and not by_task and not self.speculation.proposal_fractions:
            raise InvalidInput(
                f"speculation.proposal_fraction is missing for method {method!r}; give the share of rounds "
                "in which a "
                "match is found (--proposal-fraction; 1.0 if your acceptance counts rounds without one as "
                "rejections)"
            )
        if method in MATCHING_METHODS and by_task and fraction not in (None, 1.0):
            raise InvalidInput(
                f"speculation.proposal_fraction is {fraction:g}, but a task preset already counts rounds "
                "without a match "
                "as rejections; leave it out"
            )


# A scenario may point to the config.json of what the serve line only names.
_FILE_FOR_A_NAME = ("target.model", "speculation.draft")


def merge(given: Mapping[str, Any], filling: Mapping[str, Any], *, origin: str, where: str = "") -> dict[str, Any]:
    """`given` with what it lacks taken from `filling`; a key with two different values is refused."""
    merged = dict(given)
    for key, value in filling.items():
        path = f"{where}{key}"
        present = merged.get(key)
        if present is None:
            merged[key] = value
        elif isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(
                cast("Mapping[str, Any]", present),
                cast("Mapping[str, Any]", value),
                origin=origin,
                where=f"{path}.",
            )
        elif isinstance(present, Frozen) and isinstance(value, Mapping):
            merged[key] = merge(
                present.model_dump(exclude_unset=True),
                cast("Mapping[str, Any]", value),
                origin=origin,
                where=f"{path}.",
            )
        elif present != value and path not in _FILE_FOR_A_NAME:
            raise InvalidInput(f"{path} is {present!r} in the scenario but {value!r} in {origin}; keep one of the two")
    return merged
