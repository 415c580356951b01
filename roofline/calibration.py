"""The `Calibration` file: everything a cost needs to know about one machine (or one catalogue row).

For one operator over a step: `t = overhead_s + (t_mem**p + t_comp**p)**(1/p)` with
`t_mem = bytes / bytes_per_s` and `t_comp = flops / flops_per_s`. `p` near 1 adds the two (CPUs), 2 to 8 is usual on
GPUs, `None` is the textbook maximum. A calibration made from the catalogue has the same shape, so the cost
functions know one kind of input and the label travels with it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, cast

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from roofline.errors import InvalidInput, OutsideDomain
from roofline.specs import Frozen, Source

SCHEMA_VERSION = 1
Label = Literal["measured", "calibrated", "catalogue", "assumed"]
OperatorClass = Literal[
    "gemm",
    "moe_gemm",
    "lm_head",
    "attention_decode",
    "attention_prefill",
    "mla_decode",
    "mla_prefill",
    "elementwise",
    "recurrence",
]
_STAND_IN_OPERATORS: dict[OperatorClass, OperatorClass] = {
    "lm_head": "gemm",
    "mla_decode": "attention_decode",
    "mla_prefill": "attention_prefill",
}


def _records(value: object) -> object:
    """Records of a file that wrote them as columns: `{"rows": [1, 17], "factor": [1.0, 1.2]}` is two of them."""
    if not isinstance(value, dict):
        return value
    columns = cast("dict[str, list[object]]", value)
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError(f"columns {', '.join(columns)} must be of one length")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


COLUMNS = BeforeValidator(_records)
"""Marks a list of records that a file may write column by column."""


STAND_INS = {"fp16": "bf16", "fp8_block": "fp8"}
"""Formats whose kernels another's stand for, in files that do not tell the two apart."""


class Knot(Frozen):
    """From `rows` on, until the next knot, the library picks a kernel whose joined time is `factor` times the curve."""

    rows: PositiveInt
    factor: PositiveFloat


class KernelBand(Frozen):
    """The kernel a library picks from `rows` rows on, until the next band (`roofline.kernel_bands` has the formula).

    A product of `rows` x `inner` by `inner` x `columns` is cut into tiles of `tile_rows` x `tile_columns`, which
    the processors of the GPU take in waves. A wave that is not full costs up to as much as a full one
    (`wave_exponent`: 0 never, 1 wholly), and no tile walks its inner dimension faster than `inner_per_s`, all waves
    after each other raised to `inner_exponent` (None: not a limit). `overhead_s` is per launch.
    """

    rows: PositiveInt
    overhead_s: NonNegativeFloat
    bytes_per_s: PositiveFloat
    flops_per_s: PositiveFloat
    p_norm: PositiveFloat = Field(ge=1.0)
    tile_rows: PositiveInt = 1
    tile_columns: PositiveInt = 1
    wave_exponent: NonNegativeFloat = 0.0
    inner_per_s: PositiveFloat | None = None
    inner_exponent: NonNegativeFloat = 0.0


class OperatorFit(Frozen):
    """Constants of one operator class in one weight format on one machine.

    `overhead_s` is per launch. `tile_tokens`: rows are rounded up to the multiple of this tile before counting
    flops (1: no tiles). `cache_bytes`/`cache_bytes_per_s`: a model whose weights together are no larger than
    `cache_bytes` stays in the last-level cache and streams at that bandwidth instead. `knots`, ascending, multiply
    the joined memory and compute time over ranges of rows (below the first: 1); `overhead_s` is left as it is.
    `bands`, ascending, replace all constants but the knots by those of a kernel per range of rows, in waves over
    `processors`; rows below the first band belong to it. With bands the knots
    multiply the whole time. `per_sequence_s`: what a sequence adds to a launch, per cached head of an attention
    operator, per layer of a recurrent one. `row_tile`: a decoding sequence counts for at least that many query rows
    in a launch where not every sequence has one row (prompts or drafts in the step); with `packs_group` the query
    heads that share a cached head fill the tile together.
    """

    operator: OperatorClass
    weights: str = Field(description="WeightFormat.name, or the KV format for attention; 'any' matches all")
    overhead_s: NonNegativeFloat = 0.0
    bytes_per_s: PositiveFloat
    flops_per_s: PositiveFloat
    p_norm: PositiveFloat | None = Field(default=None, ge=1.0)
    tile_tokens: PositiveInt = 1
    cache_bytes: NonNegativeFloat = 0.0
    cache_bytes_per_s: PositiveFloat | None = None
    knots: Annotated[tuple[Knot, ...], COLUMNS] = ()
    bands: Annotated[tuple[KernelBand, ...], COLUMNS] = ()
    processors: PositiveInt = 1
    per_sequence_s: NonNegativeFloat = 0.0
    row_tile: PositiveInt = 1
    packs_group: bool = False
    standard_errors: dict[str, NonNegativeFloat] = {}


class MessageTime(Frozen):
    """Measured time of one collective over a message."""

    message_bytes: PositiveFloat
    seconds: PositiveFloat


class CollectiveFit(Frozen):
    """All-reduce over `gpus` GPUs: `latency_s + 2 (gpus-1)/gpus * bytes / bytes_per_s`.

    `points`, ascending, replace the line where they are given: libraries switch algorithms with the size of the
    message, so no line fits. Between points the logarithms are joined by lines, see `roofline.collectives`.
    """

    gpus: PositiveInt
    latency_s: NonNegativeFloat
    bytes_per_s: PositiveFloat
    points: Annotated[tuple[MessageTime, ...], COLUMNS] = ()


class SamplerFit(Frozen):
    """Seconds of choosing tokens from logits: `base_s + per_sequence_s * B + per_logit_s * rows * vocabulary`.

    `plain` (one row per sequence), `draft` (one row per sequence and draft pass), `verify` (K + 1 rows).
    """

    plain_base_s: NonNegativeFloat = 0.0
    plain_per_sequence_s: NonNegativeFloat = 0.0
    plain_per_logit_s: NonNegativeFloat = 0.0
    draft_base_s: NonNegativeFloat = 0.0
    draft_per_sequence_s: NonNegativeFloat = 0.0
    draft_per_logit_s: NonNegativeFloat = 0.0
    verify_base_s: NonNegativeFloat = 0.0
    verify_per_sequence_s: NonNegativeFloat = 0.0
    verify_per_logit_s: NonNegativeFloat = 0.0


class HostFit(Frozen):
    """Time the accelerator waits for the host, or spends outside its operators.

    `step_s`, `step_per_sequence_s`: every step. `round_s`: added when a step verifies drafts.
    `draft_pass_s`: added per draft forward. `idle_speculation_s`: added to a plain step of an engine that has
    speculation loaded and K = 0. `launch_s`: per operator when it runs eagerly instead of inside a graph.
    `cold_draft_s`: the first draft pass after a target pass finds its weights out of cache.
    `proposal_s`, `proposal_per_sequence_s`: matching of an n-gram or suffix proposer, per round.
    `sharded_pass_s`: added per forward pass, of target or draft, over several GPUs: its inputs are sent to them.
    `round_per_sequence_s`: added per sequence of a round. `tree_round_s`, `tree_round_per_sequence_s`: these instead
    where drafts form a tree (0: the same as for chains). `parallel_draft_s`: added per pass of a parallel drafter.
    `checkpoint_s_per_byte`: a target with recurrent state beside a separate draft model writes that state to host
    memory before a round and reads it back after it (0: the state is kept on the device).
    """

    step_s: NonNegativeFloat = 0.0
    step_per_sequence_s: NonNegativeFloat = 0.0
    round_s: NonNegativeFloat = 0.0
    draft_pass_s: NonNegativeFloat = 0.0
    idle_speculation_s: NonNegativeFloat = 0.0
    launch_s: NonNegativeFloat = 0.0
    cold_draft_s: NonNegativeFloat = 0.0
    proposal_s: NonNegativeFloat = 0.0
    proposal_per_sequence_s: NonNegativeFloat = 0.0
    sharded_pass_s: NonNegativeFloat = 0.0
    round_per_sequence_s: NonNegativeFloat = 0.0
    tree_round_s: NonNegativeFloat = 0.0
    tree_round_per_sequence_s: NonNegativeFloat = 0.0
    parallel_draft_s: NonNegativeFloat = 0.0
    checkpoint_s_per_byte: NonNegativeFloat = 0.0


class Domain(Frozen):
    """Ranges that were measured, both ends included. `None`: not bounded by measurement."""

    tokens: tuple[NonNegativeInt, NonNegativeInt] | None = None
    batch: tuple[NonNegativeInt, NonNegativeInt] | None = None
    context_tokens: tuple[NonNegativeInt, NonNegativeInt] | None = None
    draft_tokens: tuple[NonNegativeInt, NonNegativeInt] | None = None


class Residual(Frozen):
    """How well the constants reproduce one group of rows: relative errors, absolute value."""

    group: str
    rows: PositiveInt
    median_abs_error_fraction: NonNegativeFloat
    p90_abs_error_fraction: NonNegativeFloat
    held_out: bool = False


class Machine(Frozen):
    """Where and with what the rows were measured."""

    device: str
    host: str = ""
    engine: str = ""
    versions: dict[str, str] = {}


class Verdict(Frozen):
    """Whether the fit may be relied on, and why not.

    `stable`, `reasons`: whatever is served. `by_weights`: reasons against the constants of one weight format; who
    serves others need not care, see `of`.
    """

    stable: bool
    reasons: tuple[str, ...] = ()
    by_weights: dict[str, tuple[str, ...]] = {}

    def of(self, weights: Collection[str]) -> Verdict:
        """The verdict for a deployment that multiplies weights of these formats, and of no others."""
        own = tuple(reason for name, reasons in self.by_weights.items() if name in weights for reason in reasons)
        return Verdict(stable=self.stable and not own, reasons=(*self.reasons, *own))


class Calibration(Frozen):
    """Constants of one machine, with where they come from and where they hold."""

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str
    label: Label
    machine: Machine
    created: date
    rows_sha256: str = ""
    sources: tuple[Source, ...] = ()
    operators: tuple[OperatorFit, ...]
    collectives: tuple[CollectiveFit, ...] = ()
    sampler: SamplerFit = SamplerFit()
    host: HostFit = HostFit()
    domain: Domain = Domain()
    residuals: Annotated[tuple[Residual, ...], COLUMNS] = ()
    verdict: Verdict = Verdict(stable=True)
    standard_errors: dict[str, NonNegativeFloat] = {}
    notes: tuple[str, ...] = ()

    def operator(self, operator: OperatorClass, weights: str) -> OperatorFit:
        """Constants of an operator class in a weight format.

        Names stand for the same kernels unless a file tells them apart: those of `STAND_INS`, an LM head for a GEMM,
        latent attention for the other.

        Raises
        ------
        OutsideDomain
            Neither this format nor `any` was measured for the class.
        """
        for one in (operator, _STAND_IN_OPERATORS.get(operator, operator)):
            for name in (weights, STAND_INS.get(weights, weights)):
                found = self._find(one, name) or self._find(one, "any")
                if found is not None:
                    return found
        known = sorted({fit.weights for fit in self.operators if fit.operator == operator})
        raise OutsideDomain(
            f"calibration {self.name!r} has no {operator} constants for weights {weights!r} "
            f"(it has {known or 'none'}); serve in one of these formats or use another calibration"
        )

    def verdict_on(self, weights: Collection[str]) -> Verdict:
        """Whether the constants may be relied on for a model with weights of these formats."""
        return self.verdict.of({self.operator("gemm", name).weights for name in weights})

    def _find(self, operator: OperatorClass, weights: str) -> OperatorFit | None:
        return next((fit for fit in self.operators if (fit.operator, fit.weights) == (operator, weights)), None)

    def collective(self, gpus: int) -> CollectiveFit:
        """All-reduce constants for a group of `gpus`."""
        for fit in self.collectives:
            if fit.gpus == gpus:
                return fit
        known = sorted(fit.gpus for fit in self.collectives)
        raise OutsideDomain(
            f"calibration {self.name!r} has no all-reduce over {gpus} GPUs (it has {known}); "
            "choose a measured tensor-parallel size or use another calibration"
        )

    def check_domain(
        self,
        *,
        tokens: int | None = None,
        batch: int | None = None,
        context_tokens: int | None = None,
        draft_tokens: int | None = None,
        outside: Literal["refuse", "clip"] = "refuse",
    ) -> tuple[str, ...]:
        """Sentences about what lies outside the measured ranges; raises `OutsideDomain` unless told to clip."""
        asked = {
            "tokens": tokens,
            "batch": batch,
            "context_tokens": context_tokens,
            "draft_tokens": draft_tokens,
        }
        findings: list[str] = []
        for field, value in asked.items():
            limits: tuple[int, int] | None = getattr(self.domain, field)
            if value is not None and limits is not None and not limits[0] <= value <= limits[1]:
                findings.append(f"{field} = {value} is outside the measured {limits[0]}..{limits[1]}")
        if findings and outside == "refuse":
            raise OutsideDomain(
                f"calibration {self.name!r}: {'; '.join(findings)}; measure there, or accept extrapolation with --clip"
            )
        return tuple(findings)


def load_calibration(path: Path) -> Calibration:
    """Read and validate a calibration file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"calibration {path}: cannot be read ({error.strerror}); give a readable file") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"calibration {path}: not JSON at line {error.lineno}; refit it with `specdec calibrate fit`"
        ) from error
    fields = cast("dict[str, object]", content) if isinstance(content, dict) else {}
    version = fields.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidInput(
            f"calibration {path}: schema_version must be {SCHEMA_VERSION}, got {version!r}; "
            "refit it with this version of specdec"
        )
    try:
        return Calibration.model_validate_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"calibration {path}: field {field!r}: {first['msg']}; refit or correct it") from error
