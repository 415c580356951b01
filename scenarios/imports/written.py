"""What a serving configuration says, of any engine, in one vocabulary. Nothing is judged or filled in here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from roofline.errors import InvalidInput
from scenarios import notation

EngineName = Literal["vllm", "sglang", "trtllm", "llamacpp"]
Version = tuple[int, ...]
HIDDEN_STATE_METHODS = ("eagle", "eagle3", "mtp", "medusa", "mlp_speculator", "dflash", "dspark")
"""Their drafts are made from the target's hidden states, not from its tokens alone."""
MATCHING_METHODS = ("ngram", "suffix")


@dataclass(frozen=True, slots=True)
class Written:
    """A configuration as written. `None` means: not said, the engine chooses.

    `method` is one of draft_model, eagle, eagle3, mtp, ngram, suffix, medusa, mlp_speculator, dflash, dspark, pard,
    custom, or `unknown` for a name no release knows; `None` serves without speculation. `draft_tokens` is K:
    drafts in a row, the root or bonus token left out. `verify_rows` are the rows the target verifies per sequence and
    round, root included (K + 1, or the nodes of a tree). `top_k` is the branching of a tree, 1 for a chain.
    `sections` are the nested parts of a YAML file as they stand. `graph_sizes` and `graph_limit` count tokens or
    sequences, as `graph_unit` says.
    """

    engine: EngineName
    flags: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    speculative: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    sections: Mapping[str, Any] = field(default_factory=dict[str, Any])
    target: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    draft: str | None = None
    draft_quantization: str | None = None
    method: str | None = None
    method_text: str | None = None
    draft_tokens: int | None = None
    verify_rows: int | None = None
    top_k: int = 1
    tensor: int = 1
    draft_tensor: int | None = None
    pipeline: int = 1
    data: int = 1
    max_sequences: int | None = None
    max_batched_tokens: int | None = None
    max_context_tokens: int | None = None
    draft_context_tokens: int | None = None
    memory_fraction: float | None = None
    graph_sizes: tuple[int, ...] | None = None
    graph_limit: int | None = None
    graph_unit: Literal["tokens", "sequences"] = "sequences"
    chunked_prefill: bool | None = None
    eager: bool = False
    implied_version: Version | None = None

    @property
    def largest_graph(self) -> int | None:
        """The largest size the user allowed to be captured; None where the engine chooses."""
        if self.graph_sizes is not None:
            return max(self.graph_sizes, default=0)
        return self.graph_limit

    def switch(self, name: str) -> bool:
        """Whether a switch is on."""
        return name in self.flags and (self.flags[name] or "true").lower() not in ("false", "0", "off")


def version_of(text: str) -> Version:
    """`0.15.1`, `v0.7`, `b5142` or `1.2.0rc2` as numbers that compare."""
    found = re.fullmatch(r"[vb]?(\d+(?:\.\d+)*)(?:[.\-_+a-z].*)?", text.strip())
    if found is None:
        raise InvalidInput(f"--engine-version must be a release such as 0.15.1 or b5142, got {text!r}; correct it")
    return tuple(int(part) for part in found[1].split("."))


def whole(value: object, *, name: str) -> int | None:
    """A whole number of a flag or a key, or None where it is not given."""
    if value is None or value == "" or value == "auto":
        return None
    if isinstance(value, bool):
        raise InvalidInput(f"{name} must be a whole number, got {value!r}; correct it")
    if isinstance(value, str) and re.fullmatch(r"-\d+", value.strip()):
        return None
    return notation.human_tokens(str(value), field=name)


def share(value: object, *, name: str) -> float | None:
    """A fraction of a flag or a key in 0..1, or None where it is not given."""
    if value is None:
        return None
    number = notation.finite(str(value), field=name, example="0.9")
    if not 0.0 < number <= 1.0:
        raise InvalidInput(f"{name} must be above 0 and at most 1, got {number:g}; write it like 0.9")
    return number


def sizes_of(value: object, *, name: str) -> tuple[int, ...] | None:
    """A list of sizes: `[1, 2, 4]`, `1,2,4` or `1 2 4`."""
    if value is None:
        return None
    parts = re.findall(r"[^\s,\[\]]+", str(value))
    numbers = [whole(part, name=name) for part in parts]
    return tuple(sorted(number for number in numbers if number is not None))
