"""Target, draft, look-ahead and cache against the memory the engine plans with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from roofline.errors import DoesNotFit
from roofline.units import bytes_from_gb, gib_from_bytes
from scenarios.check import sources
from scenarios.check.finding import Finding, Reference, Topic
from scenarios.check.rules.budget import step_budget
from scenarios.check.rules.caps import SGLANG_CAP, running_cap
from scenarios.check.setup import Setup
from scenarios.imports.written import MATCHING_METHODS

if TYPE_CHECKING:
    from roofline.memory import MemoryAccount
    from roofline.specs import Gpu, Model

DRAFT_OUTSIDE_PLAN_BELOW = (0, 9)
"""vLLM V0: the cache is sized from the target alone, the draft must fit what is left above the fraction."""
_STEP_TOKENS = 2048
_TRTLLM_FRACTION = 0.95
"""free_gpu_memory_fraction is a share of what the weights leave free; the weights may take nearly all."""
_LARGEST_LOSS_FRACTION = 0.5
CONTEXT_BYTES = bytes_from_gb(1.0)
"""Assumed: contexts and communication buffers outside the planned fraction, at least about 1 GB per GPU."""
_LARGE_DRAFT_FRACTION = 0.5
_SLACK = 1.25
"""A small draft may overdraw what is left by this factor before it is reported: part of the fraction stays unused."""
_ASIDE = (
    "lower the memory fraction by the draft's share, use a smaller draft, or ngram or suffix, which hold no weights"
)


@final
@dataclass(frozen=True, slots=True)
class DraftFits:
    """Weights of both, the workspace of batch x (K + 1) logits, and a cache for at least the load."""

    topic: ClassVar[Topic] = Topic("memory", sources.VLLM_OOM)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where it does not fit; warn where the draft leaves too little cache for the load."""
        target, gpu = setup.model("target"), setup.gpu
        if target is None or gpu is None or setup.written.engine == "llamacpp":
            return
        topic = Topic(self.topic.rule, _source(setup))
        draft = setup.model("draft")
        try:
            account = memory_of(setup, target=target, draft=draft, gpu=gpu)
        except DoesNotFit as error:
            yield topic.stops("target and draft leave no room for a cache", str(error).split(": ", 1)[-1], _ASIDE)
            return
        outside = _outside_plan(setup, account, gpu) if draft is not None else None
        if outside is not None:
            yield topic.stops(*outside, _ASIDE)
            return
        yield from self._room(setup, topic, account)

    def _room(self, setup: Setup, topic: Topic, account: MemoryAccount) -> Iterator[Finding]:
        written = setup.written
        lookahead = 0 if written.method in MATCHING_METHODS or not setup.speculates else written.draft_tokens or 0
        context = setup.load.context_tokens or written.max_context_tokens
        lost = account.kv_tokens_lost
        number = f"{account.kv_tokens:,} tokens of cache, {lost:,} fewer than without the draft"
        if context is not None:
            fit, plain = account.kv_tokens // (context + lookahead), account.kv_tokens_without_draft // context
            number += f"; {fit:,} sequences of {context:,} + {lookahead} tokens, {plain:,} without"
            if fit < 1:
                yield topic.stops("not one sequence of the service's length fits", number, _ASIDE)
                return
            batch = setup.load.concurrency if setup.load.context_tokens else None
            if batch is not None and fit < batch:
                cause = "with the draft loaded " if plain >= batch else ""
                yield topic.warns(
                    f"{cause}the load does not fit the cache: requests wait or are preempted", number, _ASIDE
                )
                return
        if lost > _LARGEST_LOSS_FRACTION * account.kv_tokens_without_draft:
            yield topic.warns("the draft takes more than half of the cache", number, _ASIDE)
        else:
            yield topic.passes("target, draft and cache fit", number)


def memory_of(setup: Setup, *, target: Model, draft: Model | None, gpu: Gpu) -> MemoryAccount:
    """The account of one GPU at the full batch."""
    from roofline.memory import memory_account
    from roofline.specs import Parallelism

    written = setup.written
    sequences = running_cap(setup) or (SGLANG_CAP if written.engine == "sglang" else 256)
    tokens = step_budget(setup) or written.max_batched_tokens or _STEP_TOKENS
    return memory_account(
        target,
        gpu=gpu,
        parallel=Parallelism(tensor=written.tensor * written.pipeline, draft_tensor=_draft_gpus(setup)),
        draft=draft,
        utilization_fraction=_TRTLLM_FRACTION if written.engine == "trtllm" else setup.memory_fraction,
        max_step_tokens=tokens,
        max_logit_rows=min(tokens, sequences * (written.verify_rows or 1)),
    )


def _outside_plan(setup: Setup, account: MemoryAccount, gpu: Gpu) -> tuple[str, str] | None:
    """Where the engine sizes the cache before it loads the draft, the draft must fit above the fraction."""
    written = setup.written
    spare_bytes = gpu.memory_bytes - account.usable_bytes - CONTEXT_BYTES
    need_bytes = account.draft_weights_bytes
    if written.engine == "vllm" and setup.before(*DRAFT_OUTSIDE_PLAN_BELOW) and need_bytes > spare_bytes:
        return (
            "this release sizes the cache before the draft is loaded, and the draft does not fit what is left",
            _memory_text("draft", need_bytes, spare_bytes),
        )
    if written.engine != "sglang":
        return None
    pool_bytes = account.usable_bytes - account.weights_bytes
    need_bytes += pool_bytes / account.kv_bytes_per_token * account.draft_kv_bytes_per_token
    large = account.draft_weights_bytes > _LARGE_DRAFT_FRACTION * account.weights_bytes
    if need_bytes <= spare_bytes * (1.0 if large else _SLACK):
        return None
    return (
        "mem-fraction-static is filled by the target and its cache; the draft's weights and a cache of as many tokens "
        "come on top",
        _memory_text("draft and its cache", need_bytes, spare_bytes),
    )


def _draft_gpus(setup: Setup) -> int:
    written = setup.written
    if written.draft_tensor is not None:
        return written.draft_tensor
    return written.tensor * written.pipeline


def _memory_text(what: str, need_bytes: float, spare_bytes: float) -> str:
    return f"{what} {gib_from_bytes(need_bytes):.1f} GiB per GPU > {gib_from_bytes(spare_bytes):.1f} GiB left"


def _source(setup: Setup) -> Reference:
    return {"sglang": sources.SGLANG_OOM, "trtllm": sources.TRTLLM_ARGS}.get(setup.written.engine, sources.VLLM_OOM)
