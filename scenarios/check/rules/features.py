"""Combinations that work from a release on: a table of gates, for releases that are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from scenarios.check.finding import Finding, Reference, Topic
from scenarios.check.setup import Setup
from scenarios.imports.written import EngineName, Version


@dataclass(frozen=True, slots=True)
class Gate:
    """A combination that an engine refuses, or fails on, before a release."""

    engine: EngineName
    below: Version
    holds: Callable[[Setup], bool]
    text: str
    fix: str
    source: Reference


def _two_attention_backends(setup: Setup) -> bool:
    flags = setup.written.flags
    prefill, decode = flags.get("prefill-attention-backend"), flags.get("decode-attention-backend")
    return bool(prefill or decode) and (prefill or flags.get("attention-backend")) != (
        decode or flags.get("attention-backend")
    )


def _tree_on_fa3(setup: Setup) -> bool:
    return setup.written.flags.get("attention-backend") == "fa3" and setup.written.top_k > 1


def _second_cache_manager(setup: Setup) -> bool:
    text = str(setup.written.sections.get("kv_cache_config", ""))
    return "'use_kv_cache_manager_v2': True" in text and setup.written.method in ("eagle3", "mtp")


GATES = (
    Gate(
        "sglang",
        (0, 5, 2),
        _two_attention_backends,
        "different attention backends for prompts and decoding do not run with speculation in this release",
        "give one --attention-backend, or use 0.5.2 or later",
        Reference("SGLang issue 9330: hybrid attention backend", "https://github.com/sgl-project/sglang/issues/9330"),
    ),
    Gate(
        "sglang",
        (0, 4, 6),
        _tree_on_fa3,
        "the fa3 backend verifies chains only in this release",
        "--speculative-eagle-topk 1, or another backend",
        Reference("SGLang issue 5491: fa3 and topk above 1", "https://github.com/sgl-project/sglang/issues/5491"),
    ),
    Gate(
        "trtllm",
        (1, 3),
        _second_cache_manager,
        "target's and draft's cache managers each claim the whole budget in this release",
        "halve free_gpu_memory_fraction, drop use_kv_cache_manager_v2, or use 1.3 or later",
        Reference("TensorRT-LLM PR 12188: separate draft cache", "https://github.com/NVIDIA/TensorRT-LLM/pull/12188"),
    ),
)


@final
@dataclass(frozen=True, slots=True)
class FeatureGates:
    """Every gate of the engine, where the release is known."""

    gates: tuple[Gate, ...] = GATES

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where a gate is closed."""
        if not setup.speculates or setup.release is None:
            return
        release = ".".join(str(part) for part in setup.release)
        for gate in self.gates:
            if gate.engine == setup.written.engine and setup.release < gate.below and gate.holds(setup):
                yield Topic("features by release", gate.source).stops(gate.text, f"release {release}", gate.fix)
