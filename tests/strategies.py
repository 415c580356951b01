"""Deployments, workloads and schedulers for the tests of laws: small, honest objects with known costs."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from roofline.step_table import ForwardCosts, StepCostTable
from simulator.acceptance import Acceptance, IidAcceptance
from simulator.limits import EngineLimits
from simulator.policy import FixedDraft
from simulator.proposers import HeadProposer, NgramProposer, NoProposer
from simulator.replica import Speculation, simulate
from simulator.result import Result
from simulator.workload import Workload

PLAIN = Speculation(proposer=NoProposer(), policy=FixedDraft(0))


def head(draft_tokens: int, acceptance: Acceptance) -> Speculation:
    """A head that drafts `draft_tokens` in every round."""
    return Speculation(HeadProposer(), FixedDraft(draft_tokens), (acceptance,))


def forward_costs(
    max_tokens: int,
    *,
    base_s: float = 0.0,
    per_token_s: float = 0.0,
    kv_s_per_token: float = 0.0,
    pair_s: float = 0.0,
) -> ForwardCosts:
    """A forward pass affine in its tokens, with attention affine in context; one unlimited window."""
    tokens = np.arange(max_tokens + 1)
    nothing = np.zeros(max_tokens + 1)
    one = np.ones(1)
    return ForwardCosts(
        trunk_s=np.where(tokens > 0, base_s + per_token_s * tokens, 0.0),
        logits_s=nothing,
        window_tokens=np.zeros(1, dtype=np.int64),
        kv_s_per_token=kv_s_per_token * one,
        decode_s_per_pair=pair_s * one,
        prefill_kv_s_per_token=kv_s_per_token * one,
        prefill_s_per_pair=pair_s * one,
        state_s_per_sequence=0.0,
        decode_base_s=0.0,
        prefill_base_s=0.0,
        decode_p=1.0,
        prefill_p=1.0,
        trunk_bytes=nothing,
        trunk_flops=nothing,
        logits_bytes=nothing,
        logits_flops=nothing,
        kv_bytes_per_token=0.0 * one,
        flops_per_pair=0.0 * one,
        prefill_flops_per_pair=0.0 * one,
    )


def affine_costs(
    *,
    step_s: float,
    per_token_s: float = 0.0,
    kv_s_per_token: float = 0.0,
    pair_s: float = 0.0,
    round_extra_s: float = 0.0,
    draft_pass_s: float = 0.0,
    idle_speculation_s: float = 0.0,
    max_tokens: int = 4096,
    max_sequences: int = 64,
    max_draft_tokens: int = 8,
) -> StepCostTable:
    """Host time `step_s` per step, `round_extra_s` more where drafts are verified, a pass affine in its tokens."""
    drafts = np.arange(max_draft_tokens + 1)
    chain_s = np.repeat(draft_pass_s * drafts[:, None], max_sequences + 1, axis=1)
    chain_s[:, 0] = 0.0
    return StepCostTable(
        label="assumed",
        target=forward_costs(max_tokens, per_token_s=per_token_s, kv_s_per_token=kv_s_per_token, pair_s=pair_s),
        sample_plain_s=np.zeros(max_sequences + 1),
        verify_base_s=0.0,
        verify_per_sequence_s=0.0,
        verify_per_row_s=0.0,
        step_host_s=step_s,
        host_per_sequence_s=0.0,
        round_host_s=round_extra_s,
        idle_speculation_s=idle_speculation_s,
        draft=None,
        draft_chain_s=chain_s,
        draft_passes=drafts.astype(np.int64),
        draft_reads_whole_step=False,
        first_pass_extra_tokens=np.zeros(max_draft_tokens + 1, dtype=np.int64),
        peak_hbm_bytes_per_s=1.0,
        peak_flops_per_s=1.0,
    )


def limits(**changes: object) -> EngineLimits:
    """Room for everything unless told otherwise."""
    roomy = {"max_batched_tokens": 4096, "max_sequences": 64, "kv_blocks": 1_000_000}
    return EngineLimits.model_validate(roomy | changes)


def workload(
    arrival_s: object,
    prompt_tokens: object,
    output_tokens: object,
    *,
    prefix_hit_tokens: object = 0,
    concurrency: int | None = None,
) -> Workload:
    """Plain arrays or scalars to a one-class workload."""
    arrivals = np.atleast_1d(np.asarray(arrival_s, dtype=np.float64)).copy()

    def per_request(values: object) -> np.ndarray:
        return np.broadcast_to(np.asarray(values, dtype=np.int64), arrivals.shape).copy()

    return Workload(
        arrival_s=arrivals,
        prompt_tokens=per_request(prompt_tokens),
        output_tokens=per_request(output_tokens),
        prefix_hit_tokens=per_request(prefix_hit_tokens),
        class_id=np.zeros(len(arrivals), dtype=np.int64),
        concurrency=concurrency,
    )


LONG_S = 300.0
"""Far longer than any `Case` takes: a scheduler that makes no progress fails a test instead of hanging it."""
CASE_COSTS = affine_costs(step_s=0.01, per_token_s=1e-4, kv_s_per_token=1e-6, round_extra_s=0.002, draft_pass_s=0.001)


@dataclass(frozen=True)
class Case:
    """One simulation with everything that may matter, cache pressure and refusals included."""

    workload: Workload
    limits: EngineLimits
    speculation: Speculation
    seed: int

    def arguments(self) -> dict[str, object]:
        """What a `Replica` needs beside the workload."""
        return {
            "costs": CASE_COSTS,
            "limits": self.limits,
            "speculation": self.speculation,
            "seed": self.seed,
        }

    def run(self, **changes: object) -> Result:
        """Simulate it, with changed arguments where given."""
        return simulate(self.workload, **({"until_s": LONG_S} | self.arguments() | changes))


@st.composite
def speculations(draw: st.DrawFn, max_draft_tokens: int = 5) -> Speculation:
    """Off, a head or n-gram, at any K and acceptance."""
    draft_tokens = draw(st.integers(0, max_draft_tokens))
    acceptance = IidAcceptance(draw(st.sampled_from([0.0, 0.3, 0.7, 0.95, 1.0])))
    proposer = draw(st.sampled_from([NoProposer(), HeadProposer(), NgramProposer(0.0), NgramProposer(0.5)]))
    if isinstance(proposer, NoProposer):
        return PLAIN
    return Speculation(proposer, FixedDraft(draft_tokens), (acceptance,))


@st.composite
def cases(draw: st.DrawFn, *, open_loop_only: bool = False) -> Case:
    """Small simulations that reach every branch of the scheduler."""
    count = draw(st.integers(1, 24))
    gaps_s = draw(st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.1, 1.0]), min_size=count, max_size=count))
    prompts = draw(st.lists(st.integers(1, 150), min_size=count, max_size=count))
    outputs = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    hits = [draw(st.integers(0, prompt - 1)) if draw(st.booleans()) else 0 for prompt in prompts]
    speculation = draw(speculations())
    block_tokens = draw(st.sampled_from([1, 4, 16]))
    concurrency = None if open_loop_only else draw(st.one_of(st.none(), st.integers(1, 6)))
    return Case(
        workload(np.cumsum(gaps_s), prompts, outputs, prefix_hit_tokens=hits, concurrency=concurrency),
        limits(
            max_batched_tokens=draw(st.sampled_from([8, 32, 200, 1000])),
            max_sequences=draw(st.sampled_from([1, 2, 5, 16])),
            kv_blocks=-(-draw(st.sampled_from([60, 160, 260, 2000])) // block_tokens),
            block_tokens=block_tokens,
            lookahead_tokens=speculation.proposer.lookahead_tokens(speculation.policy.draft_tokens),
            max_context_tokens=draw(st.sampled_from([0, 150])),
            draft_window_tokens=draw(st.sampled_from([0, 60])),
            long_prefill_tokens=draw(st.sampled_from([0, 20])),
            chunked_prefill=draw(st.booleans()),
            reserve_full_prompt=draw(st.booleans()),
            alternate_prefill=draw(st.booleans()),
        ),
        speculation,
        seed=draw(st.integers(0, 3)),
    )
