"""L14: work that repeats itself, where suffix decoding shines at no model cost: real matchers on token logs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, both_arms, closed, service
from scenarios.files import TRACE_FOLDER
from scenarios.imports.token_logs import TokenLog
from scenarios.questions.break_even import speculating_arm
from scenarios.questions.replay import measured_by_position, replay_log
from simulator.compare import paired_speedup
from simulator.matchers import NgramMatcher, SuffixMatcher

LOGS = ("agent_log", "json_records", "python_code", "prose")
SELF_SIMILAR = LOGS[:2]
DRAFT_TOKENS = 8
_SESSIONS: dict[str, Any] = {
    "kind": "sessions",
    "rate_per_s": 4.0,
    "requests": 192,
    "turns": 6,
    "think_s": 2.0,
    "think_sigma": 0.8,
    "input_tokens": {"mean_tokens": 400, "sigma": 0.5},
    "output_tokens": {"mean_tokens": 250, "sigma": 0.5},
}
_HEAD_LENGTH = 2.5
"""What the chat preset assumes of an EAGLE-3 head."""
_HEADER = ("log", "n-gram AL", "suffix AL", "suffix AL with earlier responses", "S(TPOT) at batch 1")


@dataclass(frozen=True, slots=True)
class _Log:
    name: str
    ngram: float
    suffix: float
    with_cache: float
    made: Service
    drafting: dict[str, Any]
    acceptance: dict[str, Any]
    speedup: float


def self_similar(seed: int) -> Row:
    """N-gram and suffix matchers replayed on the shipped logs, and what their acceptance is worth on an 8B model."""
    logs = [_replayed(name, seed) for name in LOGS]
    by_name = {log.name: log for log in logs}
    return Row(
        id="L14",
        title="Self-similar work",
        says="agent loops with tools and self-reflection, RL roll-outs and bulk rewriting are where suffix decoding "
        "shines, at no model cost",
        command="specdec acceptance replay --log agent_log.jsonl --proposer suffix",
        claims=(
            _where_work_repeats(by_name),
            _against_ngram(logs),
            _against_a_head(by_name),
            _memory(by_name),
            _agents(by_name["agent_log"], seed),
            Claim("roll-outs of a real policy repeat themselves", missing="token logs of reinforcement learning"),
        ),
        tables=(
            Table(
                f"Replayed logs, K = {DRAFT_TOKENS} (n-gram 4), and an 8B model on H100 under them",
                _HEADER,
                tuple(_line(log) for log in logs),
            ),
        ),
        note="The shipped logs hold a lexer's tokens, not a model's: they rank kinds of text and say nothing about a "
        "service. Replay your own.",
    )


def _where_work_repeats(by_name: dict[str, _Log]) -> Claim:
    return Claim(
        "suffix decoding accepts more where work repeats itself",
        1.5,
        None,
        found=tuple(
            Quantity(f"AL, {name} over prose", by_name[name].with_cache / by_name["prose"].with_cache, "measured")
            for name in SELF_SIMILAR
        ),
        published=(published("suffix_swe_over_sharegpt"),),
    )


def _against_ngram(logs: list[_Log]) -> Claim:
    return Claim(
        "and more than n-gram lookup",
        1.0,
        None,
        found=tuple(
            Quantity(f"AL, suffix over n-gram, {log.name}", log.with_cache / log.ngram, "measured") for log in logs
        ),
    )


def _against_a_head(by_name: dict[str, _Log]) -> Claim:
    return Claim(
        "and there more than a trained head",
        1.0,
        None,
        found=tuple(
            Quantity(
                f"AL of suffix, {name}, over a head's {_HEAD_LENGTH:g} at K = 3",
                by_name[name].with_cache / _HEAD_LENGTH,
                "assumed",
            )
            for name in SELF_SIMILAR
        ),
        beside=tuple(Quantity(name, by_name[name].with_cache / _HEAD_LENGTH, "assumed") for name in LOGS[2:]),
        published=(published("suffix_over_eagle3_agentic"),),
    )


def _memory(by_name: dict[str, _Log]) -> Claim:
    return Claim(
        "it takes no memory of the GPU",
        None,
        0.0,
        found=(Quantity("cache tokens lost to the draft", _tokens_lost(by_name["agent_log"].made), "catalogue"),),
    )


def _replayed(name: str, seed: int) -> _Log:
    file = TRACE_FOLDER / "streams" / f"{name}.jsonl"
    ngram = replay_log(TokenLog(file), NgramMatcher(draft_tokens=4))
    suffix = replay_log(TokenLog(file), SuffixMatcher(draft_tokens=DRAFT_TOKENS))
    fractions, shares = measured_by_position(suffix.best.overall)
    drafting: dict[str, Any] = {
        "method": "suffix",
        "draft": None,
        "draft_tokens": DRAFT_TOKENS,
        "proposal_fraction": None,
        "proposal_fractions": list(fractions),
    }
    given: dict[str, Any] = {"per_position": list(shares), "measured_on": name}
    made = service(DENSE, seed, workload=closed(1, 32, output_tokens=300), speculation=drafting, acceptance=given)
    off, on = both_arms(made, "concurrency", 1)
    return _Log(
        name=name,
        ngram=ngram.best.overall.acceptance_length,
        suffix=suffix.without_cache.overall.acceptance_length,
        with_cache=suffix.best.overall.acceptance_length,
        made=made,
        drafting=drafting,
        acceptance=given,
        speedup=paired_speedup([off], [on]).estimate,
    )


def _tokens_lost(made: Service) -> float:
    return float(speculating_arm(made).memory.kv_tokens_lost)


def _agents(log: _Log, seed: int) -> Claim:
    """Sessions that think, come back with all they said before, and find it in the cache."""
    made = service(DENSE, seed, workload=_SESSIONS, speculation=log.drafting, acceptance=log.acceptance)
    off, on = both_arms(made, "rate", _SESSIONS["rate_per_s"])
    gain = paired_speedup([off], [on], metric="latency").estimate
    return Claim(
        "agent sessions get their answers sooner",
        1.2,
        None,
        found=(
            Quantity(f"time of an answer, off over on, sessions of {_SESSIONS['turns']} turns", gain, "calibrated"),
        ),
    )


def _line(log: _Log) -> tuple[str, ...]:
    return (log.name, f"{log.ngram:.2f}", f"{log.suffix:.2f}", f"{log.with_cache:.2f}", f"{log.speedup:.2f}")
