"""L13: where drafts come from: a draft model, the EAGLE family, n-gram lookup, suffix decoding, another vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, both_arms, closed, round_at, service
from scenarios.questions.break_even import speculating_arm
from scenarios.report import words
from simulator.plan import expected_length

DRAFT_TOKENS, ALPHA, OVERLAP = 4, 0.7, 0.8
_ONE_B = {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct"}
_MATCHING: dict[str, Any] = {"draft": None, "proposal_fraction": 1.0}
_QWEN = {"model": "Qwen/Qwen3-8B"}
_HEADER = ("proposer", "AL given", "AL simulated", "R at batch 1", "R at batch 64", "weights GiB", "cache lost, tokens")
_NAMED = ("draft model", "EAGLE-3", "EAGLE-2 tree", "n-gram", "suffix", "cross-vocabulary")
"""The chapter's own list."""


@dataclass(frozen=True, slots=True)
class _Proposer:
    name: str
    drafting: dict[str, Any]
    published: str = ""
    target: dict[str, Any] | None = None


_PROPOSERS = (
    _Proposer("draft model", _ONE_B, "round_draft_model"),
    _Proposer("EAGLE-3", {}, "round_eagle3"),
    _Proposer("EAGLE-2 tree", {"draft_tokens": None, "tree": {"nodes": 24, "depth": 4, "beam": 4}}, "round_eagle2"),
    _Proposer("n-gram", {"method": "ngram", **_MATCHING}, "round_ngram"),
    _Proposer("suffix", {"method": "suffix", **_MATCHING}),
    _Proposer("cross-vocabulary", {**_ONE_B, "vocabulary_overlap_fraction": OVERLAP}),
    _Proposer("Medusa", {"method": "medusa", "draft": None}, "round_medusa"),
    _Proposer("DFlash", {"method": "dflash", "draft": "SpecForge/DFlash-qwen3-8b"}, "round_dflash", _QWEN),
)


def proposers(seed: int) -> Row:
    """Every proposer on one service: that it emits what its acceptance says, and what a round of it costs."""
    made = {each.name: _made(each, seed) for each in _PROPOSERS}
    simulated = {name: both_arms(one, "concurrency", 1)[1].acceptance_length for name, one in made.items()}
    given = {name: _length(one) for name, one in made.items()}
    ratios = {name: _ratio(one, 1) for name, one in made.items()}
    return Row(
        id="L13",
        title="Proposers",
        says="independent draft model, EAGLE family, n-gram, suffix decoding, cross-vocabulary (TLI) drafts",
        command=f"specdec decide {DENSE} --method draft_model --draft-config meta-llama/Llama-3.2-1B-Instruct "
        "--draft-tokens 4",
        claims=(
            _emit(given, simulated),
            _ceiling(given),
            _cost_as_published(ratios),
        ),
        tables=(
            Table(
                f"8B on H100, K = {DRAFT_TOKENS} (24 nodes for the tree), alpha {ALPHA:g}",
                _HEADER,
                tuple(_line(name, made[name], given[name], simulated[name]) for name in made),
            ),
        ),
        note="Medusa and DFlash are not in the chapter's list. Published medians mix models, GPUs and engines, the "
        "papers' own code among them, and more drafts than four.",
    )


def _emit(given: dict[str, float], simulated: dict[str, float]) -> Claim:
    return Claim(
        "each of them drafts, is verified and emits what its acceptance says",
        1.0,
        1.0,
        tolerance_fraction=0.08,
        found=tuple(
            Quantity(f"AL simulated over given, {name}", simulated[name] / given[name], "assumed") for name in _NAMED
        ),
    )


def _ceiling(given: dict[str, float]) -> Claim:
    return Claim(
        "a draft of another vocabulary has a ceiling",
        None,
        0.95,
        found=(
            Quantity(
                f"AL over that of the same draft without it, {OVERLAP:.0%} shared",
                given["cross-vocabulary"] / given["draft model"],
                "assumed",
            ),
        ),
    )


def _cost_as_published(ratios: dict[str, float]) -> Claim:
    return Claim(
        "a round costs what published pairs of S and AL say: ours over the median of S / AL at batch 1",
        1.0,
        1.0,
        tolerance_fraction=0.25,
        found=tuple(_against_published(each, ratios[each.name]) for each in _PROPOSERS if each.published),
        beside=tuple(published(each.published) for each in _PROPOSERS if each.published),
    )


def _made(each: _Proposer, seed: int) -> Service:
    sections: dict[str, Any] = {"target": each.target} if each.target else {}
    return service(
        DENSE,
        seed,
        speculation={"draft_tokens": DRAFT_TOKENS, **each.drafting},
        acceptance={"alpha": ALPHA, "sibling_fractions": [0.4, 0.25, 0.15]},
        workload=closed(1, 24, output_tokens=400),
        **sections,
    )


def _length(made: Service) -> float:
    """AL by its law, short of every request's last round."""
    return expected_length(speculating_arm(made).proposer, made.cases[0].models[0], made.draft_tokens)


def _ratio(made: Service, batch: int) -> float:
    return round_at(speculating_arm(made), batch, draft_tokens=made.draft_tokens).ratio


def _against_published(each: _Proposer, ratio: float) -> Quantity:
    return Quantity(f"{each.name}: 1 / R over the median", 1.0 / ratio / published(each.published).value, "calibrated")


def _line(name: str, made: Service, given: float, simulated: float) -> tuple[str, ...]:
    memory = speculating_arm(made).memory
    return (
        name,
        f"{given:.2f}",
        f"{simulated:.2f}",
        f"{_ratio(made, 1):.2f}",
        f"{_ratio(made, 64):.2f}",
        words.memory_text(memory.draft_weights_bytes).removesuffix(" GiB"),
        f"{memory.kv_tokens_lost:,}",
    )
