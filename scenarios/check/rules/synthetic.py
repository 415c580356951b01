"""Synthetic acceptance and the names of the rejection methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, cast, final

from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup

_METHODS = ("standard", "synthetic", "block", "fly")
_OLD_METHODS = ("strict", "probabilistic", "rejection_sampler", "typical_acceptance_sampler")
_KNOBS = ("synthetic_acceptance_rates", "synthetic_acceptance_length", "synthetic_acceptance_rate")
RENAMED = (0, 33)
"""vLLM release read for the current names."""


@final
@dataclass(frozen=True, slots=True)
class RejectionMethod:
    """vLLM 0.33 knows standard, synthetic, block and fly; strict and probabilistic are of releases before."""

    topic: ClassVar[Topic] = Topic("rejection method", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for a name this release does not know; warn for the lossy one."""
        name = setup.written.speculative.get("rejection_sample_method")
        if setup.written.engine != "vllm" or name is None:
            return
        if name in _OLD_METHODS and not setup.before(*RENAMED):
            yield self.topic.stops(
                "this name belongs to earlier releases",
                f"rejection_sample_method {name!r}",
                "use standard (with draft_sample_method probabilistic for sampled drafts), or --engine-version",
            )
        elif name not in _METHODS and name not in _OLD_METHODS:
            yield self.topic.stops("no such method", repr(name), f"use one of {', '.join(_METHODS)}")
        elif name == "fly":
            yield self.topic.warns(
                "fly accepts tokens the target would have rejected: outputs change in distribution",
                "lossy",
                "use standard where the target's distribution must be kept",
            )


@final
@dataclass(frozen=True, slots=True)
class SyntheticAcceptance:
    """Accepts by a die, not by the model: for benchmarks. One knob, K entries, unconditional, so not rising."""

    topic: ClassVar[Topic] = Topic("synthetic acceptance", sources.VLLM_SPECULATIVE)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop for knobs the engine refuses; warn that outputs are nonsense."""
        written = setup.written
        if written.engine == "sglang" and written.environment.get("SGLANG_SIMULATE_ACC_LEN", "-1") != "-1":
            yield self._nonsense(f"SGLANG_SIMULATE_ACC_LEN={written.environment['SGLANG_SIMULATE_ACC_LEN']}")
        config = written.speculative
        given = [knob for knob in _KNOBS if config.get(knob) is not None]
        if written.engine != "vllm" or (not given and config.get("rejection_sample_method") != "synthetic"):
            return
        problem = self._problem(setup, given)
        yield problem if problem is not None else self._nonsense(f"{given[0]} {config[given[0]]}")

    def _nonsense(self, number: str) -> Finding:
        return self.topic.warns(
            "drafts are accepted by chance, not by the target: outputs are wrong text, for timing only",
            number,
            "remove it before anything is served",
        )

    def _problem(self, setup: Setup, given: list[str]) -> Finding | None:
        config, k = setup.written.speculative, setup.written.draft_tokens
        if len(given) != 1:
            return self.topic.stops(
                "exactly one of the synthetic knobs must be given",
                " and ".join(given) or "none given",
                "keep synthetic_acceptance_rates (a list of K) or synthetic_acceptance_length",
            )
        if config.get("rejection_sample_method") != "synthetic":
            return self.topic.stops(
                "a synthetic knob without the synthetic method",
                f"rejection_sample_method {config.get('rejection_sample_method', 'standard')!r}",
                'add "rejection_sample_method": "synthetic", or remove the knob',
            )
        if given[0] == "synthetic_acceptance_rate" and not setup.before(*RENAMED):
            return self.topic.stops(
                "the scalar rate belongs to earlier releases",
                f"synthetic_acceptance_rate {config['synthetic_acceptance_rate']}",
                "give synthetic_acceptance_length, or synthetic_acceptance_rates with one entry per position",
            )
        return self._values(config, given[0], k)

    def _values(self, config: Any, knob: str, k: int | None) -> Finding | None:
        value = config[knob]
        if knob == "synthetic_acceptance_length":
            inside = isinstance(value, int | float) and (k is None or 1 <= value <= k + 1)
            return None if inside else self.topic.stops(
                "the length must lie in 1..K + 1", f"{value!r} at K = {k}", "correct it; the bonus token counts"
            )  # fmt: skip
        if knob != "synthetic_acceptance_rates":
            return None
        rates = cast("list[float]", value) if isinstance(value, list) else []
        if k is not None and len(rates) != k:
            return self.topic.stops("one rate per position", f"{len(rates)} rates, K = {k}", f"give {k} rates")
        if any(not 0 <= rate <= 1 for rate in rates) or any(after > before for before, after in pairwise(rates)):
            return self.topic.stops(
                "rates are unconditional: in 0..1 and not rising",
                ", ".join(f"{rate:g}" for rate in rates),
                "multiply conditional rates up first",
            )
        return None
