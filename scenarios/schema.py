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
from scenarios.arrivals import WorkloadGiven
from scenarios.drafting import (
    HEAD_METHODS,
    MATCHING_METHODS,
    PARALLEL_METHODS,
    AcceptanceGiven,
    Drafting,
    Method,
)
from scenarios.measured import Measured

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
    pipeline_parallel: PositiveInt = Field(default=1, description="stages in series; the draft runs on the last")
    data_parallel: PositiveInt = Field(
        default=1, description="ranks with an attention and a cache of their own; routed experts are spread over all"
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
    version: str | None = Field(
        default=None,
        pattern=r"^\d+(\.\d+)+",
        description="release, where it decides what the engine runs; none: today's",
    )
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
    workload: Annotated[WorkloadGiven, Field(discriminator="kind")]
    loads: Loads = Loads()
    slo: tuple[str, ...] = ()
    run: Run = Run()
    measured: Measured | None = Field(default=None, description="what was measured of it, from `specdec import`")

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
