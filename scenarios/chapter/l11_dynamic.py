"""L11: measure acceptance and load, and raise, lower or switch off N while serving."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, both_arms, closed, serve, service
from scenarios.imports.serve_command import parse_serve_command
from scenarios.report import words
from simulator.compare import paired_speedup
from simulator.result import Result
from simulator.rng import Streams
from simulator.workload import lognormal_lengths, rollout_workload

_RATE_PER_S = 22.0
_LOAD = {"requests": 1500, "rate_per_s": _RATE_PER_S, "swing": {"on_s": 30.0, "off_s": 30.0, "quiet_fraction": 0.1}}
_ALPHA = 0.6
_FIXED = {f"K = {k}": {"draft_tokens": k} for k in (1, 3, 5)}
_DYNAMIC: dict[str, dict[str, Any]] = {
    "throughput-optimal": {"draft_tokens": 5, "control": {"kind": "throughput_optimal"}},
    "adaptive budget": {"draft_tokens": 5, "control": {"kind": "adaptive_budget"}},
    "closed loop": {"draft_tokens": 7, "control": {"kind": "closed_loop"}},
    "off above 64": {"draft_tokens": 5, "control": {"kind": "off_above", "max_running": 64}},
}
_LENGTH = 2.5
_PROMPTS, _SAMPLES = 32, 8
_HEADER = ("policy", "S(TPOT)", "S(latency)", "S(throughput)", "mean batch", "AL")


def dynamic_speculation(seed: int) -> Row:
    """Controllers under bursts and quiet, engines' synthetic knobs in both spellings, and a roll-out."""
    plain, runs = _swinging(seed)
    gains = {name: paired_speedup([plain], [run], metric="latency").estimate for name, run in runs.items()}
    best_fixed, always_on = max(gains[name] for name in _FIXED), gains["K = 5"]
    return Row(
        id="L11",
        title="Dynamic speculation",
        says="measure acceptance and load; raise, lower or switch off N; knobs rejection_sample_method (strict, "
        "probabilistic, synthetic) and synthetic_acceptance_rate; useful for RL training and swinging load",
        command=f"specdec decide {DENSE} --loads 5,22,40",
        claims=(
            _against_always_on(gains, always_on),
            _against_best_fixed(gains, best_fixed),
            _against_off(gains),
            _switched_off(seed),
            _knobs(),
            _rollout(seed),
        ),
        tables=(
            Table(
                f"Bursts of 30 s and 30 s of quiet, mean {_RATE_PER_S:g} req/s, alpha {_ALPHA:g}, against plain "
                "decoding",
                _HEADER,
                tuple(_line(name, plain, run) for name, run in runs.items()),
            ),
        ),
        note="The closed loop follows measured acceptance by SGLang's rule and default slots; the throughput-optimal "
        "one knows the cost table.",
    )


def _against_always_on(gains: dict[str, float], always_on: float) -> Claim:
    return Claim(
        "following the load beats one K that is always on",
        1.0,
        None,
        found=tuple(
            Quantity(f"S(latency), {name} over K = 5, swinging load", gains[name] / always_on, "assumed")
            for name in _DYNAMIC
        ),
        published=(published("dspark_adaptive_over_k7_256"),),
    )


def _against_best_fixed(gains: dict[str, float], best_fixed: float) -> Claim:
    return Claim(
        "it costs nothing against the best K that is fixed",
        1.0,
        None,
        tolerance_fraction=0.01,
        found=tuple(
            Quantity(f"S(latency), {name} over the best fixed K", gains[name] / best_fixed, "assumed")
            for name in ("throughput-optimal", "closed loop")
        ),
        published=(published("dspark_adaptive_over_best_1"), published("dspark_adaptive_over_best_256")),
    )


def _against_off(gains: dict[str, float]) -> Claim:
    return Claim(
        "it beats serving without speculation",
        1.0,
        None,
        found=tuple(Quantity(f"S(latency), {name}", gains[name], "assumed") for name in _DYNAMIC),
    )


def _made(seed: int, drafting: dict[str, Any]) -> Service:
    return service(DENSE, seed, speculation=drafting, acceptance={"alpha": _ALPHA}, workload=_LOAD)


def _swinging(seed: int) -> tuple[Result, dict[str, Result]]:
    policies = _FIXED | _DYNAMIC
    pairs = {name: both_arms(_made(seed, drafting), "rate", _RATE_PER_S) for name, drafting in policies.items()}
    return pairs["K = 5"][0], {name: pair[1] for name, pair in pairs.items()}


def _line(name: str, plain: Result, run: Result) -> tuple[str, ...]:
    ratio = run.throughput_tokens_per_s / plain.throughput_tokens_per_s
    return (
        name,
        f"{paired_speedup([plain], [run]).estimate:.2f}",
        f"{paired_speedup([plain], [run], metric='latency').estimate:.2f}",
        f"{ratio:.2f}",
        words.number(run.mean_batch),
        f"{run.acceptance_length:.2f}",
    )


def _switched_off(seed: int) -> Claim:
    """An engine with the draft loaded and K = 0 at every batch size, against one without it."""
    off_always = {"draft_tokens": 3, "draft_tokens_by_batch": [[1, 1024, 0]]}
    found: list[Quantity] = []
    for concurrency in (2, 64):
        made = service(DENSE, seed, speculation=off_always, workload=closed(concurrency, max(24, 3 * concurrency)))
        off, on = both_arms(made, "concurrency", concurrency)
        value = 1.0 / paired_speedup([off], [on]).estimate
        found.append(Quantity(f"TPOT, K = 0 over not loaded, {concurrency} in flight", value, "calibrated"))
    return Claim(
        "switched off, it costs nothing",
        None,
        1.02,
        found=tuple(found),
        published=(published("k0_tax_2"), published("k0_tax_189")),
    )


def _knobs() -> Claim:
    """The same acceptance length in the words of today's vLLM and of the releases the chapter describes."""
    k = 3
    spellings = {
        "synthetic_acceptance_length": {"synthetic_acceptance_length": _LENGTH},
        "synthetic_acceptance_rates": {"synthetic_acceptance_rates": [0.75, 0.5, 0.25]},
        "synthetic_acceptance_rate (until vLLM 0.2x)": {"synthetic_acceptance_rate": (_LENGTH - 1) / k},
    }
    found: list[Quantity] = []
    for name, knob in spellings.items():
        config = {
            "method": "eagle3",
            "model": "head",
            "num_speculative_tokens": k,
            "rejection_sample_method": "synthetic",
        }
        line = f"vllm serve meta-llama/Llama-3.1-8B-Instruct --speculative-config '{json.dumps(config | knob)}'"
        shares = parse_serve_command(line).scenario["acceptance"]["per_position"]
        found.append(Quantity(f"AL read from {name}", 1.0 + float(np.sum(shares)), "catalogue"))
    return Claim(
        f"the engines' knobs set the acceptance length (asked: {_LENGTH:g} at K = {k})",
        _LENGTH,
        _LENGTH,
        tolerance_fraction=0.001,
        found=tuple(found),
    )


def _rollout(seed: int) -> Claim:
    """A synchronous batch of answers of very different length: the last one decides."""
    lengths = lognormal_lengths(
        _PROMPTS * _SAMPLES, 600.0, Streams(seed).get("chapter rollout"), sigma=0.8, max_tokens=1800
    )
    batch = rollout_workload(_PROMPTS, _SAMPLES, prompt_tokens=np.full(_PROMPTS, 200), output_tokens=lengths)
    found: list[Quantity] = []
    for name, drafting in {"K = 3": {"draft_tokens": 3}, "throughput-optimal": _DYNAMIC["throughput-optimal"]}.items():
        made = _made(seed, drafting)
        off, on = (serve(made, batch, arm=arm) for arm in ("off", "on"))
        found.append(Quantity(f"time of the whole roll-out, off over on, {name}", off.end_s / on.end_s, "assumed"))
    return Claim("it shortens RL roll-outs, whose batch empties", 1.05, None, found=tuple(found))
