"""What every proposer keeps to: the same suite over all of them."""

import dataclasses

import numpy as np
import pytest

from roofline.catalog import engine, gpu
from roofline.cost import Deployment, TableSize, round_cost, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from roofline.memory import memory_account
from roofline.specs import Model, Parallelism
from simulator.acceptance import IidAcceptance
from simulator.plan import Speculation
from simulator.policy import FixedDraft
from simulator.proposers import (
    CrossVocabularyProposer,
    DraftModelProposer,
    DynamicTreeProposer,
    HeadProposer,
    MedusaProposer,
    MtpProposer,
    NgramProposer,
    NoProposer,
    ParallelProposer,
    StaticTreeProposer,
    SuffixProposer,
)
from simulator.replica import simulate
from simulator.tree import tree_of_widths
from simulator.varied_acceptance import BetaSpread, ContextDecay, VariedAcceptance
from tests.simulator.fingerprint import digest
from tests.strategies import limits, workload

TREE = tree_of_widths((3, 2, 1))
ALL_PROPOSERS = {
    "draft model": (DraftModelProposer(), 4),
    "cross vocabulary": (CrossVocabularyProposer(0.8), 4),
    "head": (HeadProposer(), 4),
    "head, unpadded": (HeadProposer(unpadded=True), 4),
    "mtp of two layers": (MtpProposer(2), 4),
    "medusa": (MedusaProposer(4), 4),
    "medusa tree": (MedusaProposer(3, TREE), TREE.nodes),
    "pard": (ParallelProposer("pard"), 4),
    "p-eagle": (ParallelProposer("p_eagle"), 4),
    "dflash": (ParallelProposer("dflash"), 4),
    "dspark": (ParallelProposer("dspark"), 4),
    "static tree": (StaticTreeProposer(TREE), TREE.nodes),
    "dynamic tree": (DynamicTreeProposer(nodes=12, depth=4, beam=3), 12),
    "n-gram": (NgramProposer(0.6), 4),
    "suffix": (SuffixProposer((0.7, 0.5, 0.2)), 4),
}
ACCEPTANCE = VariedAcceptance(
    IidAcceptance(0.7), BetaSpread(4.0, "rounds"), ContextDecay(((64, 1.0), (400, 0.6))), (0.4, 0.3)
)
TARGET = load_model("meta-llama/Llama-3.1-8B-Instruct")
EAGLE = load_model("SafeAILab/EAGLE3-LLaMA3.1-8B", role="head", method="eagle3", target=TARGET)
MACHINE = gpu("H100-SXM")
DEPLOYMENT = Deployment(gpu=MACHINE, calibration=catalogue_calibration(MACHINE, engine("vllm")))
SEQUENCES, STEP_TOKENS = 12, 512

each_proposer = pytest.mark.parametrize("name", ALL_PROPOSERS)


def _draft(proposer) -> Model | None:
    return EAGLE if proposer.work.kind not in ("none", "matching") else None


def _costs(proposer, draft_tokens: int):
    return step_cost_table(
        TARGET,
        DEPLOYMENT,
        size=TableSize(max_tokens=STEP_TOKENS, max_sequences=SEQUENCES, max_draft_tokens=draft_tokens),
        draft=_draft(proposer),
        work=proposer.work,
    )


def _run(proposer, draft_tokens: int, **changes):
    known = draft_tokens if not isinstance(proposer, NoProposer) else 0
    rng = np.random.default_rng(5)
    count = 40
    load = workload(np.cumsum(rng.exponential(0.02, count)), rng.integers(1, 300, count), rng.integers(1, 60, count))
    arguments = {
        "costs": _costs(proposer, draft_tokens),
        "limits": limits(
            max_batched_tokens=STEP_TOKENS,
            max_sequences=SEQUENCES,
            kv_blocks=150,
            lookahead_tokens=proposer.lookahead_tokens(known),
        ),
        "speculation": Speculation(proposer, FixedDraft(known), (ACCEPTANCE,) if known else ()),
        "seed": 3,
        "trace_steps": True,
    }
    return simulate(load, **(arguments | changes))


@each_proposer
def test_requests_and_tokens_are_conserved(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    result = _run(proposer, draft_tokens)
    counts = result.counts

    assert counts.arrived == counts.finished + counts.running + counts.waiting + counts.refused
    assert counts.finished == len(result.arrival_s)
    assert np.array_equal(result.emitted_tokens, result.output_tokens)
    assert result.steps is not None
    assert result.steps.emitted_tokens.sum() == result.emitted_tokens.sum()
    assert result.steps.draft_tokens.sum() == result.drafted_tokens.sum()


@each_proposer
def test_a_round_emits_at_most_its_proposals_and_one(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    result = _run(proposer, draft_tokens)
    steps = result.steps

    assert steps is not None
    assert np.all(steps.emitted_tokens <= steps.draft_tokens + steps.decoding + steps.prefilling)
    assert np.all(result.accepted_tokens <= result.drafted_tokens)
    assert np.all(result.drafted_tokens <= result.rounds * draft_tokens)
    assert result.accepted_tokens.sum() > 0


@each_proposer
def test_zero_drafts_are_plain_decoding_event_for_event(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    free = dataclasses.replace(_costs(proposer, draft_tokens), idle_speculation_s=0.0)
    common = {"costs": free, "limits": limits(max_batched_tokens=STEP_TOKENS, max_sequences=SEQUENCES, kv_blocks=150)}
    plain = _run(NoProposer(), 0, **common)
    off = _run(proposer, draft_tokens, speculation=Speculation(proposer, FixedDraft(0), (ACCEPTANCE,)), **common)

    assert digest(plain) == digest(off)


@each_proposer
def test_costs_never_fall_with_more_drafts(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    table = _costs(proposer, draft_tokens)
    for batch in (1, 5, SEQUENCES):
        rounds = [
            round_cost(table, batch=batch, context_tokens=300, draft_tokens=drafts)
            for drafts in range(1, draft_tokens + 1)
        ]
        for part in ("verify_s", "draft_s", "round_s"):
            assert np.all(np.diff([getattr(cost, part) for cost in rounds]) >= -1e-12), part


@each_proposer
def test_memory_adds_up(name):
    proposer, _ = ALL_PROPOSERS[name]
    draft = _draft(proposer)
    account = memory_account(
        TARGET,
        gpu=MACHINE,
        parallel=Parallelism(),
        draft=draft,
        utilization_fraction=0.9,
        max_step_tokens=STEP_TOKENS,
        max_logit_rows=64,
    )
    held = account.weights_bytes + account.draft_weights_bytes + account.workspace_bytes
    cache = account.kv_tokens * (account.kv_bytes_per_token + account.draft_kv_bytes_per_token)
    one_token = account.kv_bytes_per_token + account.draft_kv_bytes_per_token
    assert held + cache <= account.usable_bytes < held + cache + one_token
    assert (account.draft_weights_bytes > 0) == (draft is not None)


@each_proposer
def test_the_same_arguments_give_the_same_bytes(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    costs = _costs(proposer, draft_tokens)
    assert digest(_run(proposer, draft_tokens, costs=costs)) == digest(_run(proposer, draft_tokens, costs=costs))


@each_proposer
def test_slots_are_reserved_for_drafts_that_are_cached(name):
    proposer, draft_tokens = ALL_PROPOSERS[name]
    assert proposer.lookahead_tokens(0) == 0
    cached = proposer.work.kind in ("chain", "parallel")
    assert (proposer.lookahead_tokens(draft_tokens) >= draft_tokens) == cached
