"""Engine profiles: what a serving engine adds to the kernels, as declared constants.

Every constant carries a value, a range, a label and a source; see `roofline/catalog/engines.toml`. Nothing
here was fitted to a speculative run: host times come from plain decoding and from profiled forward passes.
"""

from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from roofline.calibration import Label
from roofline.specs import Frozen, Gpu, Source

KernelFamily = Literal[
    "gemm_32",
    "gemm_16",
    "gemm_8",
    "gemm_4",
    "gemm_dequantised",
    "moe_16",
    "moe_8",
    "moe_4",
    "moe_dequantised",
    "attention_decode",
    "attention_prefill",
    "elementwise",
]


class Constant(Frozen):
    """A declared number with the range it may lie in and where it comes from.

    `label`: catalogue (published), calibrated (fitted to published plain or forward times) or assumed.
    `how`: how the value follows from the source.
    """

    value: NonNegativeFloat
    low: NonNegativeFloat
    high: NonNegativeFloat
    label: Label
    source: Source
    how: str = Field(min_length=3)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"value {self.value} must lie in its range {self.low}..{self.high}")
        return self


class KernelConstants(Frozen):
    """What kernels of one family reach on an architecture: shares of the peaks, launch time, exponent."""

    architecture: str
    family: KernelFamily
    overhead_s: Constant
    bandwidth_fraction: Constant
    compute_fraction: Constant
    p_norm: Constant

    @model_validator(mode="after")
    def _within_peaks(self) -> Self:
        for name in ("bandwidth_fraction", "compute_fraction"):
            constant: Constant = getattr(self, name)
            if constant.high > 1.0 or constant.value == 0.0:
                raise ValueError(f"{name} must be above 0 and at most 1, got {constant.value} (up to {constant.high})")
        return self


class CollectiveConstants(Frozen):
    """All-reduce over `gpus`: time of a small message, share of the link's rate that large ones reach."""

    architecture: str
    gpus: PositiveInt
    latency_s: Constant
    link_fraction: Constant


class HostConstants(Frozen):
    """Seconds per `roofline.calibration.HostFit` field of the same name; None: 0, the engine has no such time."""

    step_s: Constant
    step_per_sequence_s: Constant
    round_s: Constant
    draft_pass_s: Constant
    idle_speculation_s: Constant
    launch_s: Constant
    proposal_s: Constant
    proposal_per_sequence_s: Constant
    sharded_pass_s: Constant | None = None
    round_per_sequence_s: Constant | None = None
    tree_round_s: Constant | None = None
    tree_round_per_sequence_s: Constant | None = None
    parallel_draft_s: Constant | None = None
    checkpoint_s_per_byte: Constant | None = None

    def declared(self) -> dict[str, Constant]:
        """The constants that are declared, by field."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: constant for name, constant in found.items() if constant is not None}


class SamplerConstants(Frozen):
    """Choosing tokens: fixed seconds, seconds per sequence, bytes moved per logit (elementwise bandwidth)."""

    plain_base_s: Constant
    draft_base_s: Constant
    verify_base_s: Constant
    per_sequence_s: Constant
    plain_bytes_per_logit: Constant
    draft_bytes_per_logit: Constant
    verify_bytes_per_logit: Constant


class GraphRule(Frozen):
    """Sizes for which a CUDA graph is captured: a step is padded up to the next, above the largest it is eager.

    `segments`: (first, last, step), both ends included. `unit` says whether they count tokens or sequences;
    in the second case a size of n sequences captures n (K + 1) tokens. The largest size is the smallest of
    `limit_tokens` (`limit_tokens_blackwell` on data-centre Blackwell) and
    `limit_per_sequence` x max_sequences x (K + 1). `uniform_multiples`: multiples of K + 1 are captured too.
    `decode_only`: steps that hold prompt tokens run eagerly whatever their size.
    """

    segments: tuple[tuple[PositiveInt, PositiveInt, PositiveInt], ...]
    unit: Literal["tokens", "sequences"] = "tokens"
    limit_tokens: PositiveInt
    limit_tokens_blackwell: PositiveInt | None = None
    limit_per_sequence: PositiveInt | None = None
    uniform_multiples: bool = False
    decode_only: bool = False
    source: Source

    def sizes(self, gpu: Gpu, *, max_sequences: int, draft_tokens: int) -> tuple[int, ...]:
        """Captured sizes in tokens, ascending."""
        width = draft_tokens + 1
        limit = self._limit_tokens(gpu, max_sequences, width)
        base = sorted({size for first, last, step in self.segments for size in range(first, last + 1, step)})
        tokens = {size * (width if self.unit == "sequences" else 1) for size in base}
        if self.uniform_multiples:
            tokens |= {width * sequences for sequences in base if sequences <= max_sequences}
        return tuple(sorted(size for size in tokens if size <= limit))

    def _limit_tokens(self, gpu: Gpu, max_sequences: int, width: int) -> int:
        limit = self.limit_tokens
        if (
            self.limit_tokens_blackwell is not None
            and gpu.architecture.startswith("Blackwell")
            and _is_data_centre(gpu)
        ):
            limit = self.limit_tokens_blackwell
        if self.limit_per_sequence is not None:
            limit = min(limit, self.limit_per_sequence * max_sequences * width)
        return limit


def _is_data_centre(gpu: Gpu) -> bool:
    return "sm10" in gpu.architecture


class SchedulerTier(Frozen):
    """Defaults on GPUs of at least `min_memory_bytes`; names beginning like `except_gpus` go to the next tier."""

    min_memory_bytes: NonNegativeFloat = 0.0
    except_gpus: tuple[str, ...] = ()
    max_batched_tokens: PositiveInt
    max_sequences: PositiveInt


class SchedulerDefaults(Frozen):
    """What an engine does when the user sets nothing.

    `alternate_prefill`: prefill and decode batches alternate instead of sharing a step. `chunked_prefill`: a
    prompt may be cut at the token budget. `host_memory_bytes`: memory per GPU the engine needs beside weights,
    activations and cache (contexts, communication buffers).
    """

    tiers: tuple[SchedulerTier, ...]
    memory_utilization_fraction: float = Field(gt=0.0, le=1.0)
    block_tokens: PositiveInt
    chunked_prefill: bool
    alternate_prefill: bool = False
    prefix_caching: bool = True
    host_memory_bytes: NonNegativeFloat = 0.0
    source: Source

    def tier(self, gpu: Gpu) -> SchedulerTier:
        """The first tier, largest memory first, that the GPU reaches."""
        for tier in sorted(self.tiers, key=lambda one: -one.min_memory_bytes):
            excepted = any(gpu.name.startswith(prefix) for prefix in tier.except_gpus)
            if gpu.memory_bytes >= tier.min_memory_bytes and not excepted:
                return tier
        raise AssertionError("validated: the last tier takes every GPU")

    @model_validator(mode="after")
    def _has_a_last_tier(self) -> Self:
        if not any(tier.min_memory_bytes == 0.0 and not tier.except_gpus for tier in self.tiers):
            raise ValueError("tiers must include one for min_memory_bytes = 0 without exceptions")
        return self


class EngineProfile(Frozen):
    """One engine as deployed by default.

    `max_running_with_speculation`: requests in a batch at most when speculation is on and the user sets nothing.
    `kernels`: rows that replace those of kernels.toml for this engine. `draft_in_graph`: later draft passes
    run inside captured graphs. `kernels_of`: the engine of which this is another release or setting: what a row
    leaves out is taken from it, and a calibration of its kernels serves both. `drafts_one_by_one`: sequences are
    drafted for in turn, not as a batch.
    """

    name: str
    description: str
    host: HostConstants
    sampler: SamplerConstants
    graphs: GraphRule | None = None
    draft_in_graph: bool = False
    scheduler: SchedulerDefaults
    kernels: tuple[KernelConstants, ...] = ()
    max_running_with_speculation: NonNegativeInt | None = None
    kernels_of: str | None = None
    drafts_one_by_one: bool = False
    source: Source

    def graph_tokens(self, gpu: Gpu, *, max_sequences: int, draft_tokens: int = 0) -> tuple[int, ...]:
        """Captured sizes of the target's step in tokens, ascending; empty where the engine runs eagerly."""
        if self.graphs is None:
            return ()
        return self.graphs.sizes(gpu, max_sequences=max_sequences, draft_tokens=draft_tokens)

    def draft_graph_tokens(self, gpu: Gpu, *, max_sequences: int, draft_tokens: int = 0) -> tuple[int, ...]:
        """The same for draft passes, of one token per sequence after the first."""
        if not self.draft_in_graph:
            return ()
        target = set(self.graph_tokens(gpu, max_sequences=max_sequences, draft_tokens=draft_tokens))
        return tuple(sorted(target | set(self.graph_tokens(gpu, max_sequences=max_sequences))))
