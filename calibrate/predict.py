"""What a `Calibration` predicts for any job, through the equations of `roofline` and no others."""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from calibrate.jobs import LOOP_ROUNDS, Job, shape_of
from calibrate.presets import Preset
from calibrate.shapes import EngineDType, as_model
from roofline.attention import attention_coefficients, seen_pairs, seen_tokens
from roofline.calibration import Calibration
from roofline.cost import Deployment, DraftWork, RoundCost, TableSize, round_cost, step_cost_table, trunk_s
from roofline.operators import Shard, forward_operators, joined_s, logits_operators
from roofline.specs import Gpu, Model, Source
from roofline.step_table import StepCostTable

FloatArray = NDArray[np.float64]

DRAFT_WORK = DraftWork(kind="chain", reads_whole_step=False, first_pass_extra_tokens=1)
"""How the engine's draft model works: its first pass runs over two tokens a sequence, the later ones over one."""


LAUNCHES_BETWEEN = 4
"""Launches per layer that `roofline.operators` counts beside the matrices."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What was run: shapes, number format and the longest context before the new tokens."""

    preset: Preset
    dtype: EngineDType
    context_tokens: int

    def model(self, name: str) -> Model:
        """The `roofline.Model` of a job's model."""
        return _model(self.preset, self.dtype, name)


@lru_cache(maxsize=64)
def _model(preset: Preset, dtype: EngineDType, name: str) -> Model:
    return as_model(shape_of(preset, name), dtype, role="draft_model" if name == "draft" else "target")


def machine_as_gpu(calibration: Calibration) -> Gpu:
    """The measured machine in the form `roofline` asks for; its ceilings are the fitted ones."""
    gemm = next(fit for fit in calibration.operators if fit.operator == "gemm")
    return Gpu(
        name=calibration.machine.device,
        vendor="measured",
        architecture="measured",
        memory_bytes=1e12,
        hbm_bytes_per_s=gemm.bytes_per_s,
        peak_flops_per_s={"bf16": gemm.flops_per_s, "fp32": gemm.flops_per_s, "int8": gemm.flops_per_s},
        link_bytes_per_s=1.0,
        link="none",
        l2_bytes=None,
        notes="ceilings fitted by specdec calibrate; memory size and link are not measured",
        source=Source(
            title="rows of this calibration", url="https://calibration.invalid/rows", retrieved=date(2026, 11, 29)
        ),
    )


def cost_table(calibration: Calibration, setting: Setting, *, gpu: Gpu | None = None) -> StepCostTable:
    """The table the simulator would use for this engine on this machine."""
    largest, drafts = max(setting.preset.batches), max(setting.preset.draft_tokens)
    # On CUDA the engine captures every size it runs; where launches cost nothing extra there is nothing to capture.
    captured = tuple(range(1, largest * (drafts + 1) + 1)) if calibration.host.launch_s > 0 else ()
    return step_cost_table(
        setting.model("target"),
        Deployment(
            gpu=gpu or machine_as_gpu(calibration),
            calibration=calibration,
            graph_tokens=captured,
            draft_graph_tokens=captured,
        ),
        size=TableSize(max_tokens=largest * (drafts + 1), max_sequences=largest, max_draft_tokens=drafts),
        draft=setting.model("draft"),
        work=DRAFT_WORK,
    )


def round_of(table: StepCostTable, job: Job) -> RoundCost:
    """Round beside plain step for an end-to-end job."""
    return round_cost(table, batch=job.batch, context_tokens=job.context_tokens, draft_tokens=job.draft_tokens)


def predict_s(calibration: Calibration, setting: Setting, *, jobs: list[Job]) -> FloatArray:
    """Seconds of each job; end-to-end ones from the simulator's table, components from the same operators."""
    gpu = machine_as_gpu(calibration)
    shard = Shard(gpu=gpu, calibration=calibration)
    table: StepCostTable | None = None
    seconds = np.zeros(len(jobs))
    groups: dict[tuple[str, str], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault((job.kind, job.model), []).append(index)
    for (kind, name), members in groups.items():
        chosen = [jobs[index] for index in members]
        if kind in ("plain_step", "round", "loop"):
            table = table or cost_table(calibration, setting, gpu=gpu)
            seconds[members] = [_end_to_end_s(table, job) for job in chosen]
        else:
            seconds[members] = _component_s(kind, setting.model(name), chosen, shard)
    return seconds


def _end_to_end_s(table: StepCostTable, job: Job) -> float:
    cost = round_of(table, job)
    each_s = cost.plain_s if job.draft_tokens == 0 else cost.round_s
    return each_s * (LOOP_ROUNDS if job.kind == "loop" else 1)


def _component_s(kind: str, model: Model, jobs: list[Job], shard: Shard) -> FloatArray:
    rows = np.array([job.rows for job in jobs])
    batch = np.array([job.batch for job in jobs])
    sampler, host = shard.calibration.sampler, shard.calibration.host
    if kind == "lm_head":
        return _logits_s(model, rows, shard)
    if kind == "matrices":
        return _sum([op.seconds for op in forward_operators(model, rows, shard) if op.term == "gemm"])
    if kind == "sample_plain":
        return (
            sampler.plain_base_s
            + sampler.plain_per_sequence_s * batch
            + sampler.plain_per_logit_s * rows * model.vocab_size
        )
    if kind == "sample_draft":
        return (
            sampler.draft_base_s
            + sampler.draft_per_sequence_s * batch
            + sampler.draft_per_logit_s * rows * model.vocab_size
        )
    if kind == "verify":
        return (
            sampler.verify_base_s
            + sampler.verify_per_sequence_s * batch
            + sampler.verify_per_logit_s * rows * model.vocab_size
        )
    if kind == "eager_forward":
        return np.full(len(jobs), launches_of(model) * host.launch_s)
    draft = model.role == "draft_model"
    passed_s = trunk_s(model, rows, shard) + attention_s(model, jobs, shard=shard)
    host_s = host.draft_pass_s if draft else host.step_s + host.step_per_sequence_s * batch
    cold_s = host.cold_draft_s if kind == "cold_forward" else 0.0
    return passed_s + _logits_s(model, batch if draft else rows, shard) + host_s + cold_s


def launches_of(model: Model) -> int:
    """Operators one pass launches, LM head included, as `roofline` counts them."""
    return sum(layer.count * (len(layer.linears) + LAUNCHES_BETWEEN) for layer in model.layers) + 1


def attention_s(model: Model, jobs: list[Job], *, shard: Shard) -> FloatArray:
    """Attention of passes with equal contexts: each cache read once, every (row, token) pair computed."""
    terms = attention_coefficients(model, shard)
    batch, new = np.array([job.batch for job in jobs]), np.array([job.query_tokens for job in jobs])
    context = np.array([job.context_tokens for job in jobs])
    read_s = terms["kv_s_per_token"][0] * batch * seen_tokens(context, new, 0)
    pair_s = terms["decode_s_per_pair"][0] * batch * seen_pairs(context, new, 0)
    return joined_s(read_s, pair_s, terms["decode_p"] or None) + terms["decode_base_s"]


def _logits_s(model: Model, rows: NDArray[np.int64], shard: Shard) -> FloatArray:
    return _sum([op.seconds for op in logits_operators(model, rows, shard)])


def _sum(parts: list[FloatArray]) -> FloatArray:
    return np.sum(parts, axis=0)
