"""The composition root: a validated scenario becomes models, machine, cost tables, limits and proposer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roofline.calibration import Calibration, load_calibration
from roofline.catalog import engine, gpu, load_gpu_file, shipped_calibration
from roofline.cost import Deployment, TableSize, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.engines import EngineProfile
from roofline.errors import InvalidInput
from roofline.hf_config import load_model, mtp_head
from roofline.hf_typical import TYPICAL, typical_head
from roofline.memory import MemoryAccount, memory_account
from roofline.specs import Gpu, Model, Parallelism
from roofline.step_table import StepCostTable
from scenarios.acceptance import AcceptanceCase, acceptance_cases
from scenarios.arrivals import SessionWorkload
from scenarios.conversations import mean_context_tokens
from scenarios.files import looks_like_path
from scenarios.imports.traces import Trace
from scenarios.loads import kinds, read_scenario_trace
from scenarios.parallel import parallelism_of
from scenarios.proposing import largest_draft, layered_mtp_head, medusa_head, policy_of, proposer_of, tree_nodes
from scenarios.schema import CATALOGUE, HEAD_METHODS, MATCHING_METHODS, Scenario
from simulator.acceptance import Acceptance
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.policy import DraftPolicy, FixedDraft
from simulator.proposers import NoProposer, Proposer


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of serving: plain, or with speculation loaded."""

    costs: StepCostTable
    limits: EngineLimits
    proposer: Proposer
    policy: DraftPolicy
    memory: MemoryAccount
    switch_s: float = 0.0

    def speculation(self, models: tuple[Acceptance, ...]) -> Speculation:
        """What the simulator is told of drafting and accepting; one model a class of requests, or one for all."""
        return Speculation(proposer=self.proposer, policy=self.policy, acceptance=models, switch_s=self.switch_s)


@dataclass(frozen=True, slots=True)
class Service:
    """A scenario made of objects. `on` is None where it speculates nothing.

    `draft_tokens` is K (the largest of a schedule). `cases` are the acceptances to answer for: none given, one
    given, or a published preset with its spread.
    """

    scenario: Scenario
    target: Model
    draft: Model | None
    deployment: Deployment
    engine: EngineProfile
    draft_tokens: int
    off: Arm
    on: Arm | None
    cases: tuple[AcceptanceCase, ...]
    trace: Trace | None

    @property
    def middle_case(self) -> AcceptanceCase:
        """The acceptance given, or the median of a preset; callers have checked that there is one."""
        return self.cases[len(self.cases) // 2]


def build_service(scenario: Scenario) -> Service:
    """Everything a question needs.

    Raises
    ------
    SpecdecError
        An unknown name, a config that is not computed, a size that does not divide, a model that does not fit.
    """
    hardware = scenario.hardware
    target = load_model(
        scenario.target.model,
        quantization=scenario.target.quantization,
        kv_cache_dtype=scenario.target.kv_cache_dtype,
    )
    draft = _draft(scenario, target)
    draft_tokens = _draft_tokens(scenario, target)
    parallel = parallelism_of(scenario, target)
    _check_split(target, parallel.tensor, field="hardware.tensor_parallel")
    if draft is not None:
        _check_split(draft, parallel.draft_tensor, field="hardware.draft_tensor_parallel")
    trace = read_scenario_trace(scenario)
    shape = _Shape(
        scenario=scenario,
        target=target,
        gpu=load_gpu_file(Path(hardware.gpu)) if looks_like_path(hardware.gpu) else gpu(hardware.gpu),
        engine=engine(scenario.engine.profile),
        parallel=parallel,
        context_tokens=typical_context_tokens(scenario, trace),
    )
    calibration = shape.calibration()
    speculates = scenario.speculation.method != "none"
    return Service(
        scenario=scenario,
        target=target,
        draft=draft,
        deployment=shape.deployment(calibration, draft_tokens),
        engine=shape.engine,
        draft_tokens=draft_tokens,
        off=shape.arm(calibration),
        on=shape.arm(calibration, draft=draft, draft_tokens=draft_tokens) if speculates else None,
        cases=acceptance_cases(scenario, draft_tokens),
        trace=trace,
    )


def typical_context_tokens(scenario: Scenario, trace: Trace | None) -> float | None:
    """Tokens a sequence holds half way through its answer, a mean over requests; None where lengths are drawn from a
    trace, for which the cache is then counted as if every layer kept every token.
    """
    if trace is not None:
        return float((trace.prompt_tokens + trace.output_tokens / 2).mean())
    if isinstance(scenario.workload, SessionWorkload):
        return mean_context_tokens(scenario.workload)
    total = 0.0
    for kind in kinds(scenario.workload):
        lengths = [
            item if isinstance(item, int) else item.mean_tokens for item in (kind.input_tokens, kind.output_tokens)
        ]
        if lengths[0] is None or lengths[1] is None:
            return None
        total += kind.share_fraction * (lengths[0] + lengths[1] / 2)
    return total


@dataclass(frozen=True, slots=True)
class _Shape:
    """What both arms share, and the engine's defaults where the scenario says nothing."""

    scenario: Scenario
    target: Model
    gpu: Gpu
    engine: EngineProfile
    parallel: Parallelism
    context_tokens: float | None

    @property
    def max_batched_tokens(self) -> int:
        """Of all micro-batches in flight, or of all ranks: each has a budget of its own."""
        asked = self.scenario.engine.max_batched_tokens
        own = asked or self.engine.scheduler.tier(self.gpu).max_batched_tokens
        return own * self.parallel.pipeline * self.parallel.data

    @property
    def max_sequences(self) -> int:
        """Of all ranks, each with a limit of its own."""
        default = self.engine.scheduler.tier(self.gpu).max_sequences
        asked = self.scenario.engine.max_sequences
        return min((asked or default) * self.parallel.data, self.max_batched_tokens)

    def calibration(self) -> Calibration:
        """The file's constants, those shipped for exactly this GPU and engine, or the catalogue's efficiencies."""
        file = self.scenario.hardware.calibration
        if file == CATALOGUE:
            return catalogue_calibration(self.gpu, self.engine)
        if file is not None:
            return load_calibration(Path(file))
        described = looks_like_path(self.scenario.hardware.gpu)
        catalogue = catalogue_calibration(self.gpu, self.engine)
        kernels = self.engine.kernels_of or self.engine.name
        shipped = None if described else shipped_calibration(self.gpu.name, kernels)
        if shipped is None or self.engine.kernels_of is None:
            return shipped or catalogue
        return shipped.model_copy(update={"host": catalogue.host, "sampler": catalogue.sampler})

    def deployment(self, calibration: Calibration, draft_tokens: int) -> Deployment:
        """The machine with the graphs that are captured for this K."""
        options = self.scenario.engine
        draft_eager = options.enforce_eager if options.draft_enforce_eager is None else options.draft_enforce_eager
        sizes = {"max_sequences": self.max_sequences, "draft_tokens": draft_tokens}
        return Deployment(
            gpu=self.gpu,
            calibration=calibration,
            parallel=self.parallel,
            graph_tokens=() if options.enforce_eager else self.engine.graph_tokens(self.gpu, **sizes),
            routing_skew=self.scenario.hardware.routing_skew,
            eager_prompts=self.engine.graphs is not None and self.engine.graphs.decode_only,
            drafts_one_by_one=self.engine.drafts_one_by_one,
            draft_graph_tokens=() if draft_eager else self.engine.draft_graph_tokens(self.gpu, **sizes),
        )

    def arm(self, calibration: Calibration, *, draft: Model | None = None, draft_tokens: int = 0) -> Arm:
        """Tables and limits of one way of serving; K = 0 is plain decoding without the draft loaded."""
        speculation, run = self.scenario.speculation, self.scenario.run
        proposer = proposer_of(speculation) if draft_tokens else NoProposer()
        sequences = self.max_sequences
        asked = self.scenario.engine.max_sequences
        if draft_tokens and asked is None and self.engine.max_running_with_speculation:
            sequences = min(sequences, self.engine.max_running_with_speculation * self.parallel.data)
        parts = self.parallel.pipeline * self.parallel.data
        memory = memory_account(
            self.target,
            gpu=self.gpu,
            parallel=self.parallel,
            draft=draft,
            utilization_fraction=self._utilization_fraction,
            max_step_tokens=self.max_batched_tokens // parts,
            max_logit_rows=min(self.max_batched_tokens // parts, -(-sequences // parts) * (draft_tokens + 1)),
            context_tokens=self.context_tokens,
        )
        costs = step_cost_table(
            self.target,
            self.deployment(calibration, draft_tokens),
            size=TableSize(
                max_tokens=self.max_batched_tokens,
                max_sequences=sequences,
                max_draft_tokens=largest_draft(speculation, draft_tokens, advised=run.max_draft_tokens),
            ),
            draft=draft,
            work=proposer.work,
        )
        window = draft.max_context_tokens if draft is not None else None
        return Arm(
            costs=costs,
            limits=self._limits(memory, sequences, proposer.lookahead_tokens(draft_tokens), window),
            proposer=proposer,
            policy=policy_of(speculation, draft_tokens) if draft_tokens else FixedDraft(0),
            memory=memory,
            switch_s=speculation.control.switch_s if draft_tokens and speculation.control else 0.0,
        )

    @property
    def _utilization_fraction(self) -> float:
        asked = self.scenario.engine.gpu_memory_utilization_fraction
        return self.engine.scheduler.memory_utilization_fraction if asked is None else asked

    def _limits(self, memory: MemoryAccount, sequences: int, lookahead: int, window: int | None) -> EngineLimits:
        options, defaults = self.scenario.engine, self.engine.scheduler
        block_tokens = options.block_tokens or defaults.block_tokens
        chunked = defaults.chunked_prefill if options.chunked_prefill is None else options.chunked_prefill
        return EngineLimits(
            max_batched_tokens=self.max_batched_tokens,
            max_sequences=sequences,
            kv_blocks=options.kv_blocks or max(1, memory.kv_tokens // block_tokens),
            block_tokens=block_tokens,
            lookahead_tokens=lookahead,
            max_context_tokens=options.max_context_tokens or self.target.max_context_tokens or 0,
            draft_window_tokens=window or 0,
            long_prefill_tokens=options.long_prefill_threshold_tokens,
            chunked_prefill=chunked,
            alternate_prefill=defaults.alternate_prefill,
        )


def _draft(scenario: Scenario, target: Model) -> Model | None:
    draft, rows = _whole_draft(scenario, target), scenario.speculation.draft_vocabulary_tokens
    if draft is None or rows is None or rows >= draft.lm_head.outputs:
        return draft
    return draft.model_copy(update={"lm_head": draft.lm_head.model_copy(update={"outputs": rows})})


def _whole_draft(scenario: Scenario, target: Model) -> Model | None:
    speculation = scenario.speculation
    if speculation.method in ("none", *MATCHING_METHODS):
        return None
    source = speculation.draft
    if speculation.method == "medusa":
        return medusa_head(target, held=proposer_of(speculation).work.heads(_draft_tokens(scenario, target)))
    if speculation.method == "mtp" and speculation.mtp_layers > 1:
        return layered_mtp_head(target, speculation.mtp_layers)
    if source is None or (speculation.method == "mtp" and source == scenario.target.model):
        return mtp_head(target)
    if source == TYPICAL and speculation.method in HEAD_METHODS:
        return typical_head(target, speculation.method)
    return load_model(
        source,
        role="head" if speculation.method in HEAD_METHODS else "draft_model",
        quantization=speculation.draft_quantization,
        kv_cache_dtype=scenario.target.kv_cache_dtype,
        target=target,
        method=speculation.method if speculation.method in HEAD_METHODS else None,
    )


def _draft_tokens(scenario: Scenario, target: Model) -> int:
    """K; an MTP head drafts as many tokens as it has layers where nothing is said."""
    speculation = scenario.speculation
    if speculation.method == "none":
        return 0
    nodes = tree_nodes(speculation)
    if nodes is not None:
        return nodes
    own = sum(layer.count for layer in target.mtp_layers)
    if speculation.draft_tokens is None and own < 1:
        raise InvalidInput(
            f"speculation.draft_tokens (K) is missing and {target.name} ships no MTP layer to take it from; give K"
        )
    return speculation.draft_tokens or own


def _check_split(model: Model, tensor: int, *, field: str) -> None:
    """Tensor parallelism cuts whole attention heads."""
    for layer in model.layers:
        heads = layer.attention.heads if layer.attention is not None else tensor
        if heads % tensor:
            divisors = ", ".join(str(size) for size in range(1, heads + 1) if heads % size == 0 and size <= 64)
            raise InvalidInput(
                f"{field} must divide the {heads} attention heads of {model.name}, got {tensor}; use one of {divisors}"
            )
