"""L7: chunked prefill competes with verification for the same step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.services import DENSE, both_arms, service
from scenarios.report import words
from simulator.compare import paired_speedup
from simulator.result import Result

_INPUT_TOKENS, _OUTPUT_TOKENS = 1500, 250
_RATE_PER_S, _BUSY_PER_S = 4.0, 12.0
_BUDGETS = {
    "whole prompts, budget 2,048": {"chunked_prefill": False, "max_batched_tokens": 2048},
    "chunks, budget 2,048": {"chunked_prefill": True, "max_batched_tokens": 2048},
    "chunks, budget 512": {"chunked_prefill": True, "max_batched_tokens": 512, "max_sequences": 128},
}
_WHOLE, _WIDE, _NARROW = _BUDGETS
_HEADER = ("prefill", "speculation", "TTFT p50 ms", "TTFT p95 ms", "TPOT p50 ms", "TPOT p95 ms", "S(TPOT)")


@dataclass(frozen=True, slots=True)
class _Pair:
    off: Result
    on: Result

    @property
    def speedup(self) -> float:
        return paired_speedup([self.off], [self.on]).estimate

    @property
    def first_token_ratio(self) -> float:
        return self.on.percentile("ttft", 0.5) / self.off.percentile("ttft", 0.5)


def chunked_prefill(seed: int, *, requests: int = 500) -> Row:
    """Both on and off, with the times to the first and between the other tokens of all four."""
    light = {name: _pair(engine, _RATE_PER_S, seed=seed, requests=requests) for name, engine in _BUDGETS.items()}
    busy = _pair(_BUDGETS[_NARROW], _BUSY_PER_S, seed=seed, requests=requests)
    return Row(
        id="L7",
        title="Chunked prefill against verification",
        says="chunked prefill competes with verification for the same compute",
        command=f"specdec simulate {DENSE} --arm on --at 4 --input-tokens {_INPUT_TOKENS} --output-tokens "
        f"{_OUTPUT_TOKENS}",
        claims=(
            _first_tokens(light, busy),
            _narrow_budget(light),
            _gain_kept(light),
        ),
        tables=(
            Table(
                f"Four ways at {_RATE_PER_S:g} req/s, 8B on H100, 1,500 tokens in, 250 out, K = 3",
                _HEADER,
                tuple(line for name, pair in light.items() for line in _lines(name, pair)),
            ),
        ),
        note="They do share the step, and the price is a later first token, not a slower stream: drafts are verified "
        "beside prompt chunks either way. Near the limit speculation even shortens the wait, because it empties the "
        "batch sooner. No published run has both on and off.",
    )


def _first_tokens(light: dict[str, _Pair], busy: _Pair) -> Claim:
    return Claim(
        "first tokens come later with speculation, prompts being cut into the budget that drafts leave",
        1.02,
        None,
        found=(
            *(
                Quantity(
                    f"TTFT p50, on over off, {name}, {_RATE_PER_S:g} req/s",
                    light[name].first_token_ratio,
                    "assumed",
                )
                for name in (_WIDE, _NARROW)
            ),
            Quantity(f"TTFT p50, on over off, {_NARROW}, {_BUSY_PER_S:g} req/s", busy.first_token_ratio, "assumed"),
        ),
    )


def _narrow_budget(light: dict[str, _Pair]) -> Claim:
    return Claim(
        "a narrow budget makes that worse",
        1.0,
        None,
        found=(
            Quantity(
                "that ratio, budget 512 over 2,048",
                light[_NARROW].first_token_ratio / light[_WIDE].first_token_ratio,
                "assumed",
            ),
        ),
    )


def _gain_kept(light: dict[str, _Pair]) -> Claim:
    kept = light[_WIDE].speedup / light[_WHOLE].speedup
    return Claim(
        "chunked prefill takes part of speculation's gain",
        None,
        0.98,
        found=(Quantity("S(TPOT), chunks over whole prompts", kept, "assumed"),),
    )


def _pair(engine: dict[str, Any], rate_per_s: float, *, seed: int, requests: int) -> _Pair:
    workload = {
        "requests": requests,
        "rate_per_s": rate_per_s,
        "input_tokens": _INPUT_TOKENS,
        "output_tokens": _OUTPUT_TOKENS,
    }
    return _Pair(*both_arms(service(DENSE, seed, engine=engine, workload=workload), "rate", rate_per_s))


def _lines(name: str, pair: _Pair) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    for arm, result, gain in (("off", pair.off, ""), ("on", pair.on, f"{pair.speedup:.2f}")):
        times = [
            words.time_text(result.percentile(metric, share)) for metric in ("ttft", "tpot") for share in (0.5, 0.95)
        ]
        lines.append((name, arm, *times, gain))
    return lines
