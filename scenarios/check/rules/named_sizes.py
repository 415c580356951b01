"""Memory by the sizes in the models' names, where no config is at hand: weights alone, a lower bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from roofline.units import gib_from_bytes
from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.rules.memory import CONTEXT_BYTES, DRAFT_OUTSIDE_PLAN_BELOW
from scenarios.check.setup import Setup

_BITS = (
    *(("fp8", 8.0), ("w8a8", 8.0), ("int8", 8.0), ("q8_0", 8.5), ("awq", 4.25), ("gptq", 4.25), ("int4", 4.25)),
    *(("w4a16", 4.25), ("mxfp4", 4.25), ("nvfp4", 4.5), ("fp4", 4.5), ("q6_k", 6.6), ("q5_k", 5.7), ("q4_k", 4.85)),
)
"""Bits per weight by what a name or option contains, scales included."""


@final
@dataclass(frozen=True, slots=True)
class NamedWeightsFit:
    """`Qwen2.5-32B` and `Qwen2.5-7B` say how many parameters they hold; their weights must fit."""

    topic: ClassVar[Topic] = Topic("memory by name", sources.VLLM_OOM)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where the weights alone do not fit, or a draft does not fit what an old engine leaves."""
        written, gpu = setup.written, setup.gpu
        if setup.model("target") is not None or gpu is None:
            return
        target_bytes = named_bytes(written.target, written.quantization)
        draft_bytes = named_bytes(written.draft, written.draft_quantization) or 0.0
        if target_bytes is None:
            return
        gpus = written.tensor * written.pipeline
        target_each, draft_each = target_bytes / gpus, draft_bytes / (written.draft_tensor or gpus)
        usable = gpu.memory_bytes * setup.memory_fraction
        parts = (
            f"weights {gib_from_bytes(target_each):.1f} + draft {gib_from_bytes(draft_each):.1f} GiB per GPU by name"
        )
        fix = "use more GPUs, a quantised checkpoint, a smaller draft, or ngram or suffix, which hold no weights"
        spare = gpu.memory_bytes - usable - CONTEXT_BYTES
        if target_each + draft_each > usable:
            yield self.topic.stops(
                "the weights alone do not fit", f"{parts} > {gib_from_bytes(usable):.1f} of {gpu.name}", fix
            )
        elif written.engine == "vllm" and setup.before(*DRAFT_OUTSIDE_PLAN_BELOW) and draft_each > spare:
            yield self.topic.stops(
                "this release sizes the cache before the draft is loaded, and the draft does not fit what is left",
                f"{parts}, {gib_from_bytes(spare):.1f} left",
                fix,
            )
        else:
            yield self.topic.passes("the weights fit", f"{parts}, {gib_from_bytes(usable):.1f} usable")


def named_bytes(name: str | None, quantization: str | None) -> float | None:
    """Bytes of the weights by the parameters in a name (`8x7B` is one number), 16 bits where no format is named."""
    found = re.search(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z])", (name or "").lower().replace("_", "-"))
    if found is None:
        return None
    text = f"{name} {quantization or ''}".lower()
    bits = next((bits for word, bits in _BITS if word in text), 16)
    return float(found[1] or 1) * float(found[2]) * 1e9 * bits / 8
