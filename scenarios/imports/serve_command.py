"""A `vllm serve …` command line, read into scenario tables; every flag is accounted for.

Also `python -m vllm.entrypoints.openai.api_server …` and, for chains, `python -m sglang.launch_server …`.
Follows vLLM 0.33.0; the older scalar `synthetic_acceptance_rate` is understood too.
"""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Literal

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.imports import serve_flags
from scenarios.imports.speculative_config import speculative_tables

Fate = Literal["honoured", "ignored", "unknown"]


@dataclass(frozen=True, slots=True)
class FlagReport:
    """What became of one flag; `reason` says where it went, or why it did not count."""

    flag: str
    value: str
    fate: Fate
    reason: str


@dataclass(frozen=True, slots=True)
class ServeCommand:
    """Scenario tables of a serve line (target, hardware, engine, speculation, perhaps acceptance)."""

    engine: str
    scenario: dict[str, Any]
    flags: tuple[FlagReport, ...]


@dataclass(slots=True)
class _Words:
    """Flags by canonical name, in order; `None` is a switch."""

    positional: list[str] = field(default_factory=list[str])
    flags: dict[str, str | None] = field(default_factory=dict[str, str | None])
    dotted: dict[str, str] = field(default_factory=dict[str, str])
    environment: list[str] = field(default_factory=list[str])


def parse_serve_command(command: str) -> ServeCommand:
    """Scenario tables and the fate of every flag.

    Raises
    ------
    InvalidInput
        Not a serve line, a value of the wrong kind, a speculative-config that is not JSON, or a way of
        serving that is not computed (separate replicas).
    """
    words = _split(command)
    if words and words[0] == "sglang":
        from scenarios.imports.sglang_command import parse_sglang_words

        scenario, flags = parse_sglang_words(words[1:])
        return ServeCommand("sglang", scenario, tuple(FlagReport(*row) for row in flags))
    return _vllm(_sort_words(words))


def _split(command: str) -> list[str]:
    """Words after the launcher, the first of them `vllm` or `sglang` for SGLang."""
    try:
        words = shlex.split(command.replace("\\\r\n", " ").replace("\\\n", " "), comments=False)
    except ValueError as error:
        raise InvalidInput(
            f"serve command cannot be split into words ({error}); close the quotes as the shell wants them"
        ) from error
    environment: list[str] = []
    while words and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*=.*", words[0]):
        environment.append(words.pop(0))
    text = " ".join(words[:3])
    if re.match(r"\S*vllm serve(\s|$)", text):
        rest = words[2:]
    elif re.match(r"\S*python[0-9.]* -m vllm\.entrypoints\.openai\.api_server", text):
        rest = words[3:]
    elif re.match(r"\S*python[0-9.]* -m sglang\.launch_server", text):
        return ["sglang", *words[3:]]
    else:
        raise InvalidInput(
            f"serve command must start with `vllm serve MODEL`, got {text or 'nothing'!r}; paste the whole "
            "line "
            "(`python -m vllm.entrypoints.openai.api_server` and `python -m sglang.launch_server` are "
            "read too)"
        )
    return [*(f"\0{assignment}" for assignment in environment), *rest]


def _sort_words(words: list[str]) -> _Words:
    result = _Words()
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word.startswith("\0"):
            result.environment.append(word[1:])
        elif not word.startswith("-") or word == "-":
            result.positional.append(word)
        else:
            _take_flag(word, todo, result)
    return result


def _take_flag(word: str, todo: list[str], result: _Words) -> None:
    name, equals, value = word.partition("=")
    optimization = re.fullmatch(r"-O\.?(\d)", name)
    if optimization:
        result.flags["optimization-level"] = optimization[1]
        return
    name = name.lstrip("-")
    head, dot, tail = name.partition(".")
    head = canonical(head)
    if dot:
        text = value if equals else _value(word, todo)
        if head == "speculative-config":
            result.dotted[tail.replace("-", "_")] = text
        else:
            result.flags[f"{head}.{tail}"] = text
        return
    negated = head.startswith("no-") and head[3:] in serve_flags.SWITCHES
    if negated or head in serve_flags.SWITCHES:
        if todo and not equals and todo[0].lower() in ("true", "false"):
            value, equals = todo.pop(0), "="
        on = (not equals or value.lower() in ("true", "1")) != negated
        result.flags[head.removeprefix("no-") if negated else head] = None if on else "false"
        return
    if _known(head):
        result.flags[head] = value if equals else _value(word, todo)
    else:
        has_value = bool(todo) and not todo[0].startswith("-")
        result.flags[head] = value if equals else todo.pop(0) if has_value else None


def _value(word: str, todo: list[str]) -> str:
    if not todo or (todo[0].startswith("--") and not todo[0].startswith("--{")):
        raise InvalidInput(f"serve command: {word} needs a value; write it like `{word} VALUE`")
    return todo.pop(0)


def canonical(name: str) -> str:
    """A flag's long name with dashes."""
    plain = name.replace("_", "-")
    return serve_flags.ALIASES.get(plain, plain)


def _known(name: str) -> bool:
    return name in serve_flags.HONOURED or name in serve_flags.IGNORED or name in serve_flags.HARMLESS


def _vllm(words: _Words) -> ServeCommand:
    flags = dict(words.flags)
    model = flags.get("model") or (words.positional[0] if words.positional else None)
    if not model:
        raise InvalidInput("serve command names no model; write `vllm serve MODEL …`")
    if len(words.positional) > 1:
        raise InvalidInput(
            f"serve command has the stray words {' '.join(words.positional[1:])!r} beside the model "
            f"{model!r}; "
            "quote values with spaces"
        )
    speculative, reports = speculative_tables(flags.get("speculative-config"), words.dotted)
    scenario: dict[str, Any] = {
        "target": _without_none(
            model=model,
            quantization=flags.get("quantization"),
            kv_cache_dtype=None if flags.get("kv-cache-dtype") in (None, "auto") else flags["kv-cache-dtype"],
        ),
        "hardware": {
            "tensor_parallel": _whole(flags, "tensor-parallel-size") or 1,
            **_other_parallelism(flags),
            **({"expert_parallel": True} if flags.get("enable-expert-parallel", "") is None else {}),
            **speculative.pop("hardware", {}),
        },
        "engine": {**_engine(flags), **speculative.pop("engine", {})},
        **speculative,
    }
    _check_dtype(flags.get("dtype"))
    report = [FlagReport("MODEL", model, "honoured", serve_flags.HONOURED["model"])]
    report += [_fate(name, value) for name, value in flags.items() if name not in ("model", "speculative-config")]
    report += [FlagReport(*row) for row in reports]
    report += [
        FlagReport(text.partition("=")[0], text.partition("=")[2], "ignored", "environment variable")
        for text in words.environment
    ]
    return ServeCommand("vllm", scenario, tuple(report))


def _engine(flags: dict[str, str | None]) -> dict[str, Any]:
    engine: dict[str, Any] = {"profile": "vllm"}
    utilization = flags.get("gpu-memory-utilization")
    if utilization is not None:
        share = notation.finite(utilization, field="--gpu-memory-utilization", example="0.92")
        engine["gpu_memory_utilization_fraction"] = share
    for flag, key in (
        ("block-size", "block_tokens"),
        ("num-gpu-blocks-override", "kv_blocks"),
        ("max-model-len", "max_context_tokens"),
        ("max-num-batched-tokens", "max_batched_tokens"),
        ("max-num-seqs", "max_sequences"),
        ("long-prefill-token-threshold", "long_prefill_threshold_tokens"),
    ):
        value = None if flags.get(flag) in ("auto", "-1") else _whole(flags, flag)
        if value is not None:
            engine[key] = value
    for flag, key in (("enable-chunked-prefill", "chunked_prefill"), ("enforce-eager", "enforce_eager")):
        if flag in flags:
            engine[key] = flags[flag] is None
    return engine


def _whole(flags: dict[str, str | None], name: str) -> int | None:
    text = flags.get(name)
    return None if text is None else notation.human_tokens(text, field=f"--{name}")


def _other_parallelism(flags: dict[str, str | None]) -> dict[str, int]:
    """Stages, and ranks that share experts; ranks that share nothing are replicas, of which one is simulated."""
    replicas = _whole(flags, "data-parallel-size")
    if replicas not in (None, 1) and "enable-expert-parallel" not in flags:
        raise InvalidInput(
            f"--data-parallel-size must be 1 without --enable-expert-parallel, got {replicas}: one replica is "
            f"simulated; drop the flag and give the load of one replica (the total divided by {replicas})"
        )
    return _without_none(pipeline_parallel=_whole(flags, "pipeline-parallel-size"), data_parallel=replicas)


def _check_dtype(dtype: str | None) -> None:
    if dtype not in (None, "auto", "half", "float16", "bfloat16"):
        raise InvalidInput(f"--dtype must be auto, half, float16 or bfloat16, got {dtype!r}; serve in 16 bits")


def _fate(name: str, value: str | None) -> FlagReport:
    shown = "" if value is None else value
    flag = f"--{name}"
    if name in serve_flags.HONOURED:
        return FlagReport(flag, shown, "honoured", serve_flags.HONOURED[name])
    if name.partition(".")[0] in serve_flags.IGNORED:
        return FlagReport(flag, shown, "ignored", serve_flags.IGNORED[name.partition(".")[0]])
    if name in serve_flags.HARMLESS:
        return FlagReport(flag, shown, "ignored", serve_flags.NO_EFFECT)
    known = {*serve_flags.HONOURED, *serve_flags.IGNORED, *serve_flags.HARMLESS}
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    return FlagReport(flag, shown, "unknown", f"not a known flag{', nearest: ' + ', '.join(near) if near else ''}")


def _without_none(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
