"""What is timed: component forwards the fit sees, and end-to-end rounds it never sees, in one list."""

from dataclasses import dataclass
from typing import Literal

from calibrate.presets import Preset
from calibrate.shapes import ACTIVATION_BYTES, WEIGHT_FORMATS, DecoderShape, EngineDType, gemm_parameters, linears_of
from roofline.units import BITS_PER_BYTE

Kind = Literal[
    "forward",
    "cold_forward",
    "matrices",
    "lm_head",
    "sample_plain",
    "sample_draft",
    "verify",
    "plain_step",
    "round",
    "loop",
    "eager_forward",
]
END_TO_END: tuple[Kind, ...] = ("plain_step", "round", "loop")
"""Kinds that no fit may read."""
LOOP_ROUNDS = 4
MOST_CALLS = 12
"""Calls that one sample of a short job averages over, at most; caches have room for the tokens they append."""
LOOP_ALPHAS = (0.5, 0.8)
LOOP_DRAFT_TOKENS = (2, 4)


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to time.

    Attributes
    ----------
    model
        "target", "draft", or "target:8" for the target cut to eight layers.
    batch, query_tokens
        Sequences and new tokens of each. Jobs without sequences count rows as `query_tokens` of one.
    context_tokens
        Cached tokens of the longest sequence before the new ones.
    draft_tokens
        K; 0 where nothing is drafted.
    alpha
        Steered acceptance per draft, loops only.
    """

    kind: Kind
    model: str
    batch: int
    query_tokens: int
    context_tokens: int
    draft_tokens: int = 0
    alpha: float = 0.0

    @property
    def rows(self) -> int:
        """New tokens of one pass."""
        return self.batch * self.query_tokens

    @property
    def key(self) -> str:
        """Name in tables and files."""
        text = f"{self.kind} {self.model} B{self.batch} q{self.query_tokens} ctx{self.context_tokens}"
        if self.draft_tokens:
            text += f" K{self.draft_tokens}"
        return text + (f" a{self.alpha:g}" if self.alpha else "")


def component_jobs(preset: Preset, context_tokens: int) -> list[Job]:
    """Everything the fit learns from."""
    jobs: list[Job] = []
    largest_rows = max(preset.batches) * (max(preset.draft_tokens) + 1)
    for batch in preset.fit_batches:
        jobs += [Job("forward", "target", batch, query, context_tokens) for query in preset.fit_queries]
        for layers in preset.truncated_layers:
            jobs.append(Job("forward", f"target:{layers}", batch, preset.fit_queries[0], context_tokens))
    for context in other_contexts(context_tokens):
        jobs += [Job("forward", "target", max(preset.fit_batches), query, context) for query in preset.fit_queries[:2]]
    for batch in preset.draft_fit_batches:
        for query in (1, 2):
            jobs.append(Job("forward", "draft", batch, query, context_tokens))
            jobs.append(Job("cold_forward", "draft", batch, query, context_tokens))
    for rows in preset.matrix_rows:
        if rows <= largest_rows:
            jobs.append(Job("matrices", "target", 1, rows, 0))
            jobs.append(Job("lm_head", "target", 1, rows, 0))
    for batch in preset.batches:
        jobs.append(Job("sample_plain", "target", batch, 1, 0))
        jobs.append(Job("sample_draft", "draft", batch, 1, 0))
        for drafts in sorted({min(preset.draft_tokens), *(query - 1 for query in preset.fit_queries if query > 1)}):
            jobs.append(Job("verify", "target", batch, drafts + 1, 0, drafts))
    return jobs


def eager_jobs(context_tokens: int) -> list[Job]:
    """Launch-bound passes without a captured graph: what one launch costs the host (CUDA only)."""
    return [Job("eager_forward", "draft", 1, 1, context_tokens)]


def other_contexts(context_tokens: int) -> tuple[int, int]:
    """Contexts at which a few passes are timed besides the main one.

    At one context alone, what a row costs for being a row cannot be told from what it costs per cached token.
    """
    return context_tokens // 4, 2 * context_tokens


def end_to_end_jobs(preset: Preset, context_tokens: int) -> list[Job]:
    """Plain steps and whole rounds over batch x K: what predictions are judged on."""
    plain = [Job("plain_step", "target", batch, 1, context_tokens) for batch in preset.batches]
    rounds = [
        Job("round", "target", batch, drafts + 1, context_tokens, drafts)
        for batch in preset.batches
        for drafts in preset.draft_tokens
    ]
    return plain + rounds


def loop_jobs(preset: Preset, context_tokens: int) -> list[Job]:
    """Continuous loops of several rounds with steered acceptance: plain (K = 0) and speculative."""
    plain = [Job("loop", "target", batch, 1, context_tokens) for batch in preset.batches]
    return plain + [
        Job("loop", "target", batch, k + 1, context_tokens, k, alpha)
        for batch in preset.batches
        for k in LOOP_DRAFT_TOKENS
        for alpha in LOOP_ALPHAS
    ]


def shape_of(preset: Preset, model: str) -> DecoderShape:
    """The shape a job's model has."""
    if model == "draft":
        return preset.draft
    if model == "target":
        return preset.target
    whole, layers = preset.target, int(model.split(":")[1])
    return DecoderShape(
        f"{whole.name}-{layers}",
        whole.hidden,
        layers,
        whole.heads,
        whole.kv_heads,
        whole.head_dim,
        whole.ffn,
        whole.vocab,
    )


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes moved and flops done by one run of a job, counted from shapes."""

    moved_bytes: float
    flops: float


def work_of(job: Job, preset: Preset, *, dtype: EngineDType) -> Work:
    """The account `--dry-run` prints; weights once a pass, KV once a sequence, logits read by samplers."""
    if job.kind in ("round", "loop"):
        parts = [_round_work(job, preset, dtype)] * (LOOP_ROUNDS if job.kind == "loop" else 1)
        return Work(sum(part.moved_bytes for part in parts), sum(part.flops for part in parts))
    if job.kind in ("sample_plain", "sample_draft", "verify"):
        shape = shape_of(preset, job.model)
        logits = job.rows * shape.vocab
        return Work(logits * (ACTIVATION_BYTES[dtype] + 12.0), 10.0 * logits)
    if job.kind == "lm_head":
        return _matrix_work(shape_of(preset, job.model), job.rows, dtype, trunk=False)
    if job.kind == "matrices":
        return _matrix_work(shape_of(preset, job.model), job.rows, dtype, trunk=True)
    return _pass_work(job, shape_of(preset, job.model), dtype)


def _matrix_work(shape: DecoderShape, rows: int, dtype: EngineDType, *, trunk: bool) -> Work:
    head = shape.hidden * shape.vocab
    weights = gemm_parameters(shape) - head if trunk else head
    outputs = (
        shape.layers * sum(linear.inputs + linear.outputs for linear in linears_of(shape)) if trunk else shape.vocab
    )
    weight_bytes = weights * WEIGHT_FORMATS[dtype].bits_per_weight / BITS_PER_BYTE
    return Work(weight_bytes + rows * outputs * ACTIVATION_BYTES[dtype], 2.0 * rows * weights)


def _pass_work(job: Job, shape: DecoderShape, dtype: EngineDType) -> Work:
    trunk = _matrix_work(shape, job.rows, dtype, trunk=True)
    head = _matrix_work(shape, job.batch if job.model == "draft" else job.rows, dtype, trunk=False)
    span = job.context_tokens + job.query_tokens
    cache = 2.0 * shape.layers * shape.kv_heads * shape.head_dim * ACTIVATION_BYTES[dtype] * job.batch * span
    pairs = 4.0 * shape.layers * shape.heads * shape.head_dim * job.rows * span
    return Work(trunk.moved_bytes + head.moved_bytes + cache, trunk.flops + head.flops + pairs)


def _round_work(job: Job, preset: Preset, dtype: EngineDType) -> Work:
    parts = [_pass_work(job, preset.target, dtype)]
    for index in range(job.draft_tokens):
        draft = Job("forward", "draft", job.batch, 2 if index == 0 else 1, job.context_tokens, 0)
        parts.append(_pass_work(draft, preset.draft, dtype))
    return Work(sum(part.moved_bytes for part in parts), sum(part.flops for part in parts))
