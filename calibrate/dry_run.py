"""What a run would do, without a device: every job with its shapes, bytes, flops and time, and whether it all fits."""

from dataclasses import dataclass

from calibrate.jobs import LOOP_ROUNDS, MOST_CALLS, Job, Work, other_contexts, shape_of, work_of
from calibrate.presets import Preset
from calibrate.run import ENOUGH_REPETITIONS, RunPlan
from calibrate.shapes import ACTIVATION_BYTES, WEIGHT_FORMATS, EngineDType, gemm_parameters, kv_bytes
from roofline.specs import Gpu
from roofline.units import BITS_PER_BYTE

SUSTAINED_BANDWIDTH_FRACTION = 0.75
SUSTAINED_FLOPS_FRACTION = 0.6
KERNEL_S = 4e-6
KERNELS_PER_LAYER = 20
KERNELS_PER_SAMPLER = 12
CAPTURE_S = 0.3
START_S = 45.0
USABLE_MEMORY_FRACTION = 0.9
"""Assumptions of the estimate, printed with it: shares of the ceilings that kernels reach, device time of one small
kernel inside a graph, warm-up and capture of one graph, building the models. None of them reaches a calibration."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One job: what it moves and computes, and how long one sample should take."""

    job: Job
    work: Work
    seconds: float


@dataclass(frozen=True, slots=True)
class DryRun:
    """The whole plan.

    `memory_bytes` by what it is for; `repetition_s` is one pass over all jobs; `repetitions` how many fit.
    """

    jobs: tuple[PlannedJob, ...]
    memory_bytes: dict[str, float]
    usable_bytes: float
    start_s: float
    repetition_s: float
    budget_s: float

    @property
    def repetitions(self) -> int:
        """Passes over the list that the budget holds after starting."""
        return max(0, int((self.budget_s - self.start_s) / self.repetition_s))

    @property
    def fits_memory(self) -> bool:
        """All buffers at once are within what may be used."""
        return sum(self.memory_bytes.values()) <= self.usable_bytes

    @property
    def fits_budget(self) -> bool:
        """Enough repetitions for a verdict."""
        return self.repetitions >= ENOUGH_REPETITIONS


def dry_run(plan: RunPlan, gpu: Gpu) -> DryRun:
    """Estimate a plan on a GPU of the catalogue."""
    jobs = tuple(_planned(job, plan, gpu) for job in plan.jobs())
    probe_s = 2 * 3 * (4.2e6 / gpu.hbm_bytes_per_s + KERNEL_S)
    resets_s = sum(entry.seconds for entry in jobs if entry.job.model == "draft")
    return DryRun(
        jobs=jobs,
        memory_bytes=memory_account(plan.preset, plan.dtype, context_tokens=plan.context_tokens),
        usable_bytes=USABLE_MEMORY_FRACTION * gpu.memory_bytes,
        start_s=START_S + CAPTURE_S * len(jobs),
        repetition_s=sum(entry.seconds for entry in jobs) + resets_s + len(jobs) * (probe_s + 2e-4),
        budget_s=plan.budget_s,
    )


def _planned(job: Job, plan: RunPlan, gpu: Gpu) -> PlannedJob:
    work = work_of(job, plan.preset, dtype=plan.dtype)
    math = WEIGHT_FORMATS[plan.dtype].math
    memory_s = work.moved_bytes / (SUSTAINED_BANDWIDTH_FRACTION * gpu.hbm_bytes_per_s)
    compute_s = work.flops / (SUSTAINED_FLOPS_FRACTION * gpu.peak_flops_per_s[math])
    return PlannedJob(job, work, max(memory_s, compute_s) + KERNEL_S * kernels_of(job, plan.preset))


def kernels_of(job: Job, preset: Preset) -> int:
    """Device kernels of one run of a job, roughly."""
    if job.kind in ("sample_plain", "sample_draft", "verify", "lm_head"):
        return KERNELS_PER_SAMPLER
    if job.kind in ("round", "loop"):
        draft = job.draft_tokens * (preset.draft.layers * KERNELS_PER_LAYER + KERNELS_PER_SAMPLER)
        rounds = LOOP_ROUNDS if job.kind == "loop" else 1
        return rounds * (preset.target.layers * KERNELS_PER_LAYER + 2 * KERNELS_PER_SAMPLER + draft)
    return shape_of(preset, job.model).layers * KERNELS_PER_LAYER + KERNELS_PER_SAMPLER


def memory_account(preset: Preset, dtype: EngineDType, *, context_tokens: int) -> dict[str, float]:
    """Bytes held at once: weights, embeddings, caches, and the buffers of the largest round."""
    batch, drafts = max(preset.batches), max(preset.draft_tokens)
    capacity = max(other_contexts(context_tokens)) + (MOST_CALLS + 2) * (drafts + 1)
    width, vocab = ACTIVATION_BYTES[dtype], preset.target.vocab
    rows = batch * (drafts + 1)
    account: dict[str, float] = {}
    for name, shape in (("target", preset.target), ("draft", preset.draft)):
        account[f"{name} weights"] = gemm_parameters(shape) * WEIGHT_FORMATS[dtype].bits_per_weight / BITS_PER_BYTE
        account[f"{name} embedding"] = float(shape.vocab * shape.hidden * width)
        account[f"{name} cache"] = float(kv_bytes(shape, dtype, batch=batch, capacity_tokens=capacity))
    account["logits and laws of a round"] = float(rows * vocab * (width + 4) + batch * drafts * vocab * 4 * 2)
    account["resampling"] = float(batch * vocab * 4 * 6)
    account["activations"] = float(rows * (8 * preset.target.hidden + 4 * preset.target.ffn) * width)
    kept_logits = sum(batch_size * (1 + 2 + sum(sorted({1, drafts}))) for batch_size in preset.batches)
    account["logits kept for sampler jobs"] = float(kept_logits * vocab * (width + 4))
    return account
