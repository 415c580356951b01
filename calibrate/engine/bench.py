"""Turns jobs into calls on real tensors: what is prepared outside the clock, and what is timed."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from calibrate.engine.graphs import CapturedCall, CudaClock
from calibrate.engine.linear import multiply_for
from calibrate.engine.loop import Engine
from calibrate.engine.model import Decoder, KvCache
from calibrate.engine.proposers import ModelProposer
from calibrate.engine.sampler import Drafts, Verified, choose, law_of, verify
from calibrate.engine.sequences import Sequences
from calibrate.engine.steering import Steering
from calibrate.jobs import LOOP_ROUNDS, MOST_CALLS, Job, other_contexts
from calibrate.presets import Preset
from calibrate.shapes import EngineDType
from calibrate.timing import Clock, CpuClock, Sample

RAGGED_TOKENS = 8
"""Contexts of a batch end up to that many tokens below the longest, so that lengths are ragged."""
STEERED_ALPHA = 0.7
"""Acceptance of single timed rounds; everything is computed whatever is accepted, so it does not change their time."""
SHORT_S = 0.02
"""A sample of a short job is the mean over as many calls as make it last that long. Only jobs whose weights are warm
anyway: repeating a pass of the target alone would warm what a real step finds cold."""
WARM_KINDS = ("sample_plain", "sample_draft", "verify")
PROBE_SHAPE, PROBE_COPIES, PROBE_ROWS = (2048, 1024), 24, 24


@dataclass(frozen=True, slots=True)
class Prepared:
    """A job ready to be timed: `reset` runs right before every sample, outside the clock; `emitted` counts after it."""

    reset: Callable[[], object]
    call: Callable[[], object]
    emitted: Callable[[], int]
    calls: int = 1

    def repeated(self) -> None:
        """All calls of one sample."""
        for _ in range(self.calls):
            self.call()


class Bench:
    """Target, draft, caches and buffers of one preset on one device."""

    def __init__(self, preset: Preset, dtype: EngineDType, *, device: str, context_tokens: int, seed: int) -> None:
        """Build both models and the caches for the largest batch."""
        if device == "cpu":
            torch.set_num_threads(1)
        self.dtype: EngineDType = dtype
        self.preset, self.device, self.context_tokens = preset, device, context_tokens
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self._models = {
            "target": Decoder(preset.target, dtype, device=device, seed=seed),
            "draft": Decoder(preset.draft, dtype, device=device, seed=seed + 1),
        }
        for layers in preset.truncated_layers:
            self._models[f"target:{layers}"] = self._models["target"].truncated(layers)
        self.capacity_tokens = max(other_contexts(context_tokens)) + (MOST_CALLS + 2) * (max(preset.draft_tokens) + 1)
        self._caches = {name: self._cache(name) for name in ("target", "draft")}
        for model in self._models.values():
            model.reserve(self.capacity_tokens)
        self.clock: Clock = CudaClock() if device == "cuda" else CpuClock()
        self._prepared: dict[Job, Prepared] = {}
        self._pool = torch.cuda.graph_pool_handle() if device == "cuda" else None
        self._probe = self._make_probe()

    def measure(self, job: Job) -> tuple[Sample, float, int]:
        """One sample of a job, the probe time around it, and the tokens it emitted."""
        if job not in self._prepared:
            self._prepared[job] = self._prepare(job)
        prepared = self._prepared[job]
        with torch.inference_mode():
            before = self.clock.time(self._probe)
            prepared.reset()
            sample = self.clock.time(prepared.repeated)
            after = self.clock.time(self._probe)
            each = replace(sample, busy_s=sample.busy_s / prepared.calls, wall_s=sample.wall_s / prepared.calls)
            return each, (before.busy_s + after.busy_s) / 2, prepared.emitted()

    def warm_up(self, job: Job) -> None:
        """Run a job untimed, capturing its graph on CUDA, and settle how many calls make a sample."""
        sample, _, _ = self.measure(job)
        warm = job.kind in WARM_KINDS or (job.model == "draft" and job.kind == "forward")
        if warm:
            calls = min(MOST_CALLS, max(1, round(SHORT_S / sample.busy_s)))
            self._prepared[job] = replace(self._prepared[job], calls=calls)

    def _prepare(self, job: Job) -> Prepared:
        with torch.inference_mode():
            makers = {
                "forward": self._forward,
                "cold_forward": self._forward,
                "eager_forward": self._forward,
                "matrices": self._matrices,
                "lm_head": self._lm_head,
                "sample_plain": self._sample,
                "sample_draft": self._sample,
                "verify": self._verify,
                "plain_step": self._plain_step,
                "round": self._round,
                "loop": self._loop,
            }
            prepared = makers[job.kind](job)
            if self.device != "cuda" or job.kind == "eager_forward":
                return prepared
            prepared.reset()
            return Prepared(prepared.reset, CapturedCall(prepared.call, self.generator, self._pool), prepared.emitted)

    def _forward(self, job: Job) -> Prepared:
        """A pass with its logits: of all rows, or of the last row of each sequence for the draft.

        A warm draft pass follows another one; a cold one follows a pass of the target, as in a round. Whole rounds
        need no such preparation: what ran before them in the shuffled list has streamed through the caches.
        """
        model, cache = self._models[job.model], self._view(job.model, job.batch)
        fed = self._random_tokens(job.batch, job.query_tokens)
        places = self._lengths(job.batch, job.context_tokens)[:, None] + torch.arange(
            job.query_tokens, device=self.device
        )
        span = job.context_tokens + job.query_tokens
        last_only = job.model == "draft"

        def call() -> torch.Tensor:
            hidden = model.forward(fed, places, cache=cache, span=span)
            return model.logits(hidden[:, -1] if last_only else hidden)

        reset = self._target_pass() if job.kind == "cold_forward" else (call if last_only else _nothing)
        return Prepared(reset, call, _no_tokens)

    def _matrices(self, job: Job) -> Prepared:
        model = self._models[job.model]
        x = self._random_activations(model, job.rows)

        def call() -> None:
            y = x
            for layer in model.layers:
                layer.qkv(y)
                y = layer.o(y[:, :1].expand(-1, model.shape.heads * model.shape.head_dim).contiguous())
                layer.gate_up(y)
                y = layer.down(y[:, :1].expand(-1, model.shape.ffn).contiguous())

        return Prepared(_nothing, call, _no_tokens)

    def _lm_head(self, job: Job) -> Prepared:
        model = self._models[job.model]
        x = self._random_activations(model, job.rows)
        return Prepared(_nothing, lambda: model.lm_head(x), _no_tokens)

    def _sample(self, job: Job) -> Prepared:
        sequences = self._sequences(job)
        model = self._models[job.model]
        x = self._random_activations(model, job.batch)
        holder: list[torch.Tensor] = [model.lm_head(x)]
        plain = job.kind == "sample_plain"

        def call() -> None:
            chosen, _ = choose(holder[0], 1.0, generator=self.generator)
            if plain:
                sequences.append(Verified(chosen[:, None], torch.zeros_like(chosen)))

        return Prepared(lambda: self._rewind(sequences), call, _no_tokens)

    def _verify(self, job: Job) -> Prepared:
        sequences, steering = self._sequences(job), self._steering(job)
        model = self._models["target"]
        logits = model.lm_head(self._random_activations(model, job.rows)).view(job.batch, job.query_tokens, -1)
        laws = law_of(logits[:, 1:].flip(0), 1.0).contiguous()
        drafts = Drafts(self._random_tokens(job.batch, job.draft_tokens), laws)

        def call() -> None:
            sequences.append(verify(logits, drafts, temperature=1.0, generator=self.generator, steering=steering))

        return Prepared(lambda: self._rewind(sequences), call, _no_tokens)

    def _plain_step(self, job: Job) -> Prepared:
        engine, sequences = self._engine(job), self._sequences(job)
        return Prepared(
            lambda: self._rewind(sequences),
            lambda: engine.plain_step(sequences, span=job.context_tokens + 1),
            _no_tokens,
        )

    def _round(self, job: Job) -> Prepared:
        engine, sequences, steering = self._engine(job), self._sequences(job), self._steering(job)
        proposer = self._proposer(job.batch)

        def call() -> None:
            span = job.context_tokens + job.query_tokens
            engine.speculative_round(sequences, proposer, draft_tokens=job.draft_tokens, span=span, steering=steering)

        return Prepared(lambda: self._rewind(sequences), call, _no_tokens)

    def _loop(self, job: Job) -> Prepared:
        """Several rounds in a row, lengths growing raggedly; the span follows the longest, or bounds it on CUDA."""
        engine, sequences = self._engine(job), self._sequences(job)
        proposer, drafts = self._proposer(job.batch), job.draft_tokens
        steering = Steering.geometric(job.alpha, drafts, device=self.device) if drafts else None
        start = sequences.lengths.clone()

        def call() -> None:
            for _ in range(LOOP_ROUNDS):
                longest = self.capacity_tokens if self.device == "cuda" else int(sequences.lengths.max()) + drafts
                if drafts:
                    engine.speculative_round(sequences, proposer, draft_tokens=drafts, span=longest, steering=steering)
                else:
                    engine.plain_step(sequences, span=longest)

        return Prepared(lambda: self._rewind(sequences), call, lambda: int((sequences.lengths - start).sum()))

    def _engine(self, job: Job) -> Engine:
        return Engine(self._models["target"], self._view("target", job.batch), 1.0, self.generator)

    def _proposer(self, batch: int) -> ModelProposer:
        return ModelProposer(self._models["draft"], self._view("draft", batch), 1.0)

    def _steering(self, job: Job) -> Steering:
        return Steering.geometric(STEERED_ALPHA, job.draft_tokens, device=self.device)

    def _sequences(self, job: Job) -> Sequences:
        tokens = self._random_tokens(job.batch, self.capacity_tokens)
        lengths = self._lengths(job.batch) + 1
        return Sequences(tokens, lengths, lengths - 1)

    def _lengths(self, batch: int, context_tokens: int | None = None) -> torch.Tensor:
        """Cached tokens of each sequence: the longest has exactly the context, the main one unless told."""
        ragged = torch.arange(batch) * 5 % RAGGED_TOKENS
        return (max(context_tokens or self.context_tokens, RAGGED_TOKENS + 2) - ragged).to(self.device)

    def _rewind(self, sequences: Sequences) -> None:
        sequences.lengths.copy_(self._lengths(sequences.batch) + 1)
        sequences.cached.copy_(sequences.lengths - 1)

    def _target_pass(self) -> Callable[[], object]:
        fed, places = self._random_tokens(1, 1), self._lengths(1)[:, None]
        model, cache, span = self._models["target"], self._view("target", 1), self.context_tokens + 1
        return lambda: model.logits(model.forward(fed, places, cache=cache, span=span))

    def _view(self, model: str, batch: int) -> KvCache:
        whole = self._caches["draft" if model == "draft" else "target"]
        return KvCache(whole.keys[:, :batch], whole.values[:, :batch])

    def _cache(self, model: str) -> KvCache:
        shape = self._models[model].shape
        return KvCache.empty(
            shape, self.dtype, batch=max(self.preset.batches), capacity_tokens=self.capacity_tokens, device=self.device
        )

    def _random_tokens(self, batch: int, count: int) -> torch.Tensor:
        return torch.randint(0, self.preset.target.vocab, (batch, count), device=self.device, generator=self.generator)

    def _random_activations(self, model: Decoder, rows: int) -> torch.Tensor:
        size = (rows, model.shape.hidden)
        return torch.randn(size, device=self.device, generator=self.generator).to(model.torch_dtype)

    def _make_probe(self) -> Callable[[], object]:
        """A fixed short product that streams from memory and multiplies: both are what neighbours disturb."""
        target = self._models["target"]
        weights = torch.randn(PROBE_SHAPE, device=self.device, generator=self.generator).to(target.torch_dtype)
        multiplies = [multiply_for(weights.clone(), self.dtype) for _ in range(PROBE_COPIES)]
        x = torch.randn(PROBE_ROWS, PROBE_SHAPE[1], device=self.device, generator=self.generator).to(target.torch_dtype)
        turn = [0]

        def probe() -> None:
            for _ in range(3):
                turn[0] = (turn[0] + 1) % PROBE_COPIES
                multiplies[turn[0]](x)

        return probe


def _nothing() -> None:
    return None


def _no_tokens() -> int:
    return 0
