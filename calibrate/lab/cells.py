"""One cell of the lab: a slice of text, a temperature, a proposer, and everything counted in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from calibrate.engine.proposers import NgramProposer
from calibrate.lab.head import Head
from calibrate.lab.language_model import LanguageModel
from calibrate.lab.loading import Loaded
from calibrate.lab.measure import (
    Answers,
    NothingProposed,
    ProposerFor,
    head_proposer,
    measure,
    model_proposer,
)
from calibrate.lab.plans import LoopPlan, ProposerKind
from calibrate.lab.rounds import (
    Estimate,
    RoundLog,
    acceptance_at_first,
    acceptance_length,
    by_answer,
    by_size,
    loops,
    mean_of_rounds,
)
from simulator.matchers import (
    NgramMatcher,
    NgramReplay,
    ReplayCounts,
    RoundCounts,
    SuffixMatcher,
    SuffixReplay,
    TokenRequest,
    batch_of,
)

NGRAM_TOKENS = (2, 5)
"""Shortest and longest n-gram looked up; short prompts hold no long ones."""


@dataclass(frozen=True, slots=True)
class ProposerAsked:
    """Which proposer, with what it needs: a head, a draft model, or the layers a skipping target keeps."""

    kind: ProposerKind
    head: Head | None = None
    draft: LanguageModel | None = None
    kept_layers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """What was measured.

    Attributes
    ----------
    entropy_nats
        Of the target's law at the first token of each round, at the temperature of the run (1 for greedy).
    overlap
        Chance of the first draft to be accepted, `1 - TV(p, q)`, averaged; None for matchers, whose draws are replayed.
    looping_answers
        Answers that end in a cycle: degenerate text, which anything predicts.
    """

    counts: RoundCounts
    entropy_nats: Estimate
    first: Estimate
    length: Estimate
    overlap: Estimate | None
    by_context_tokens: dict[tuple[int, int], RoundCounts]
    by_depth_tokens: dict[tuple[int, int], RoundCounts]
    answers: int
    looping_answers: int


def measure_cell(loaded: Loaded, asked: ProposerAsked, *, prompts: Sequence[Sequence[int]], plan: LoopPlan) -> Cell:
    """Answer all prompts (equal lengths) and count.

    Matchers propose with certainty, so a draft is accepted exactly where it equals the target's own draw: their
    acceptance is replayed on plain answers instead of run again, and suffix decoding sees each answer alone.
    """
    ids = torch.tensor(list(prompts))
    if asked.kind in ("ngram", "suffix"):
        plain = replace(plan, draft_tokens=1)
        answers = measure(loaded.model, _nothing, prompts=ids, plan=plain, end_id=loaded.end_id)
        return _replayed(answers, asked.kind, draft_tokens=plan.draft_tokens)
    proposer_for = proposer_factory(loaded.model, asked, temperature=plan.temperature)
    answers = measure(loaded.model, proposer_for, prompts=ids, plan=plan, end_id=loaded.end_id)
    log, most = answers.rounds, plan.draft_tokens
    each = by_answer(log, most)
    return Cell(
        counts=log.counts(most),
        entropy_nats=mean_of_rounds(log, log.entropy_nats),
        first=acceptance_at_first(each),
        length=acceptance_length(each),
        overlap=mean_of_rounds(log, log.overlap),
        by_context_tokens=by_size(log, log.context_tokens, most),
        by_depth_tokens=by_size(log, log.depth_tokens, most),
        answers=len(each),
        looping_answers=_looping(answers),
    )


def middle_third_skipped(layers: int) -> tuple[int, ...]:
    """Layers that a skipping draft keeps: first and last third, since the ends matter most (arXiv 2309.08168)."""
    return tuple(index for index in range(layers) if not layers // 3 <= index < layers - layers // 3)


def _nothing(prompts: torch.Tensor, room: tuple[int, int]) -> NothingProposed:
    return NothingProposed()


def proposer_factory(target: LanguageModel, asked: ProposerAsked, *, temperature: float) -> ProposerFor:
    """Makes the proposer anew for each batch of prompts; matchers look n-grams up in the running text."""
    if asked.kind in ("ngram", "suffix"):
        return lambda prompts, room: NgramProposer()
    if asked.kind == "head":
        head = asked.head
        assert head is not None
        return lambda prompts, room: head_proposer(head, prompts, room, temperature=temperature)
    draft = asked.draft if asked.kind == "draft" else target.with_layers(asked.kept_layers)
    assert draft is not None
    return lambda prompts, room: model_proposer(draft, prompts, room, temperature=temperature)


def _replayed(answers: Answers, kind: ProposerKind, *, draft_tokens: int) -> Cell:
    log = answers.rounds
    counts = _replay_counts(answers, kind, draft_tokens=draft_tokens)
    each = [counts.by_class[answer] for answer in sorted(counts.by_class)]
    return Cell(
        counts=counts.overall,
        entropy_nats=mean_of_rounds(log, log.entropy_nats),
        first=acceptance_at_first(each),
        length=acceptance_length(each),
        overlap=None,
        by_context_tokens=counts.by_context_tokens,
        by_depth_tokens=counts.by_emitted_tokens,
        answers=len(each),
        looping_answers=_looping(answers),
    )


def _replay_counts(answers: Answers, kind: ProposerKind, *, draft_tokens: int) -> ReplayCounts:
    prompt = answers.prompt_tokens
    ends = [_last_token(answers.rounds, row) for row in range(len(answers.tokens))]
    requests = [
        TokenRequest(
            prompt=tokens[:prompt].astype(np.int32),
            response=tokens[prompt : prompt + end].astype(np.int32),
            class_id=row,
        )
        for row, (tokens, end) in enumerate(zip(answers.tokens, ends, strict=True))
    ]
    if kind == "ngram":
        shortest, longest = NGRAM_TOKENS
        replay = NgramReplay(NgramMatcher(draft_tokens=draft_tokens, min_tokens=shortest, max_tokens=longest))
    else:
        replay = SuffixReplay(SuffixMatcher(draft_tokens=draft_tokens, max_cached_requests=0))
    replay.feed(batch_of(requests))
    return replay.counts()


def _last_token(log: RoundLog, answer: int) -> int:
    """Tokens of a plain answer: its last round emitted one more than stood there."""
    return int(log.depth_tokens[log.sequence == answer].max()) + 1


def _looping(answers: Answers) -> int:
    return sum(loops(_answer(answers, row)) for row in range(len(answers.tokens)))


def _answer(answers: Answers, row: int) -> NDArray[np.int64]:
    return answers.tokens[row, answers.prompt_tokens :]
