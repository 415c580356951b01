"""L8: a modern scheduler carries speculation: look-ahead slots, one token budget, prompts and drafts in one step."""

from __future__ import annotations

import json

import numpy as np

from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.services import DENSE, closed, service, traced
from scenarios.check.checking import check
from scenarios.check.reading import CheckOptions, read_setup
from scenarios.loads import LoadPoint
from simulator.proposers import HeadProposer, NgramProposer, ParallelProposer, Proposer
from simulator.result import Result

DRAFT_TOKENS = 5
_BUDGET_TOKENS, _BATCH = 128, 48
_LOOKAHEAD: dict[str, tuple[Proposer, int]] = {
    "a head": (HeadProposer(), DRAFT_TOKENS),
    "DFlash": (ParallelProposer("dflash"), DRAFT_TOKENS + 1),
    "n-gram lookup": (NgramProposer(1.0), 0),
}
_OLD, _NEW = "0.6.3", "0.33.0"


def scheduler(seed: int) -> Row:
    """Slots by method, steps that hold prompts and drafts together, and a budget smaller than all drafts."""
    return Row(
        id="L8",
        title="Schedulers that carry speculation",
        says="a modern scheduler supports it (look-ahead slots)",
        command='specdec check --serve "vllm serve meta-llama/Llama-3.1-8B-Instruct --speculative-config '
        '\'{\\"method\\":\\"ngram\\",\\"num_speculative_tokens\\":5}\'" --concurrency 64',
        claims=(_slots(), _mixed_steps(seed), *_tight_budget(seed), _by_release()),
        note="Semantics of vLLM V1 (one budget for prompts and drafts, running requests first, drafts cut at the "
        "budget); SGLang without mixed chunks alternates instead.",
    )


def _slots() -> Claim:
    right = [float(proposer.lookahead_tokens(DRAFT_TOKENS) == expected) for proposer, expected in _LOOKAHEAD.values()]
    return Claim(
        "slots reserved beyond the scheduled tokens: K for a head, K + 1 for DFlash, none for n-gram (K = "
        f"{DRAFT_TOKENS})",
        1.0,
        1.0,
        found=(Quantity("share of methods with vLLM's number", float(np.mean(right)), "catalogue"),),
        beside=tuple(
            Quantity(name, proposer.lookahead_tokens(DRAFT_TOKENS), "catalogue", "slots")
            for name, (proposer, _) in _LOOKAHEAD.items()
        ),
    )


def _mixed_fraction(result: Result) -> float:
    """Of the steps that hold a prompt, those that verify drafts too."""
    steps = result.steps
    assert steps is not None, "steps were traced"
    prompts = steps.prefilling > 0
    return float(np.mean(steps.decoding[prompts] > 0))


def _mixed_steps(seed: int) -> Claim:
    made = service(DENSE, seed, workload={"requests": 300})
    load = LoadPoint(0, "rate", 20.0)
    mixed = _mixed_fraction(traced(made, load))
    alternating = _mixed_fraction(traced(made, load, alternate_prefill=True))
    return Claim(
        "one step holds prompts and verifies drafts",
        0.9,
        None,
        found=(Quantity("share of prompt steps that also verify, 20 req/s", mixed, "assumed"),),
        beside=(Quantity("the same under alternating steps", alternating, "assumed"),),
    )


def _tight_budget(seed: int) -> tuple[Claim, Claim]:
    """A budget below batch x (K + 1): drafts are cut, nothing is lost."""
    made = service(
        DENSE,
        seed,
        engine={"max_batched_tokens": _BUDGET_TOKENS, "max_sequences": 64},
        speculation={"draft_tokens": DRAFT_TOKENS},
        workload=closed(_BATCH, 192, input_tokens=100, output_tokens=100),
    )
    result = traced(made, LoadPoint(0, "concurrency", _BATCH))
    assert result.steps is not None, "steps were traced"
    fullest = float(result.steps.new_tokens.max()) / _BUDGET_TOKENS
    asked = result.mean_batch * (DRAFT_TOKENS + 1) / _BUDGET_TOKENS
    return (
        Claim(
            "drafts and prompts together stay within the token budget",
            None,
            1.0,
            found=(Quantity("fullest step over the budget", fullest, "assumed"),),
            beside=(Quantity("what mean batch x (K + 1) asks for", asked, "assumed"),),
        ),
        Claim(
            "nothing is lost when they do not all fit",
            1.0,
            1.0,
            found=(Quantity("finished over arrived", result.counts.finished / result.counts.arrived, "assumed"),),
        ),
    )


def _by_release() -> Claim:
    """A combination of 2024 that the first schedulers refused (public case C52)."""
    return Claim(
        f"chunked prefill with a draft sharded over several GPUs runs (vLLM {_OLD} and {_NEW})",
        None,
        0.0,
        found=tuple(
            Quantity(f"reasons to refuse, vLLM {version}", _refusals(version), "catalogue") for version in (_OLD, _NEW)
        ),
    )


def _refusals(version: str) -> int:
    draft = {"method": "draft_model", "model": "meta-llama/Llama-3.1-8B-Instruct", "num_speculative_tokens": 4,
             "draft_tensor_parallel_size": 4}  # fmt: skip
    line = (
        "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 4 --enable-chunked-prefill "
        f"--speculative-config '{json.dumps(draft)}'"
    )
    report = check(read_setup({"serve": line, "slo": []}, CheckOptions(engine_version=version)))
    return sum(finding.level == "stop" for finding in report.findings)
