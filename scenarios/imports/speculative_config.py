"""vLLM's `--speculative-config`: JSON or dotted flags to scenario tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.imports import serve_flags

_METHODS = ("ngram", "draft_model", "suffix", "eagle", "eagle3", "mtp")
_REFUSED_METHODS = {
    "dflash": "parallel drafting comes later",
    "dspark": "parallel drafting comes later",
    "custom_class": "its cost is not known",
    "extract_hidden_states": "it drafts nothing",
    "mlp_speculator": "this engine version has dropped it",
    "medusa": "this engine version has dropped it",
}
_GAMMA_OF_OLD_RATE = 0.85
Row = tuple[str, str, Any, str]


def speculative_tables(text: str | None, dotted: Mapping[str, str]) -> tuple[dict[str, Any], list[Row]]:
    """Tables (`speculation`, `hardware`, `engine`, perhaps `acceptance`) and the fate of every key.

    Raises
    ------
    InvalidInput
        Not JSON, a value out of range, or a method that is not computed.
    """
    if text is None and not dotted:
        return {}, []
    config = {
        **(_json_object(text) if text is not None else {}),
        **{k: _scalar(v) for k, v in dotted.items()},
    }
    rows = [_fate(key, value) for key, value in config.items()]
    if config.get("tensor_parallel_size") is not None:
        raise InvalidInput(
            "speculative-config: tensor_parallel_size is refused by the engine; use draft_tensor_parallel_size"
        )
    if config.get("parallel_drafting"):
        raise InvalidInput(
            "speculative-config: parallel_drafting cannot be computed yet; remove it to draft in a chain"
        )
    method = _method(config)
    draft_tokens = _draft_tokens(config)
    speculation: dict[str, Any] = {"method": method}
    if draft_tokens is not None:
        speculation["draft_tokens"] = draft_tokens
    model = config.get("model")
    if model is not None and method not in ("ngram", "suffix"):
        speculation["draft"] = str(model)
    if config.get("quantization") is not None:
        speculation["draft_quantization"] = str(config["quantization"])
    ranges = config.get("num_speculative_tokens_per_batch_size")
    if ranges:
        speculation["draft_tokens_by_batch"] = _ranges(ranges, draft_tokens)
    tables: dict[str, Any] = {"speculation": speculation}
    if config.get("draft_tensor_parallel_size") is not None:
        tables["hardware"] = {"draft_tensor_parallel": config["draft_tensor_parallel_size"]}
    if config.get("enforce_eager") is not None:
        tables["engine"] = {"draft_enforce_eager": bool(config["enforce_eager"])}
    acceptance = _synthetic(config, draft_tokens)
    if acceptance is not None:
        tables["acceptance"] = acceptance
    return tables, rows


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"--speculative-config must be a JSON object, got {_short(text)!r} (position {error.pos}: "
            f'{error.msg}); write it like \'{{"method": "eagle3", "num_speculative_tokens": 3}}\''
        ) from error
    if not isinstance(value, dict):
        raise InvalidInput(f"--speculative-config must be a JSON object, got {_short(text)!r}; write {{…}}")
    return cast("dict[str, Any]", value)


def _scalar(text: str) -> Any:
    """A dotted value: JSON where it reads as such, else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _method(config: Mapping[str, Any]) -> str:
    """The proposer, detected from the draft's name where it is not given, as the engine does."""
    given = config.get("method")
    model = str(config.get("model") or "")
    if given is None:
        lowered = model.lower()
        if lowered in ("ngram", "[ngram]"):
            given = "ngram"
        elif "eagle3" in lowered or "eagle-3" in lowered:
            given = "eagle3"
        elif "eagle-" in lowered:
            given = "eagle"
        elif "dflash" in lowered or "dspark" in lowered:
            given = "dflash" if "dflash" in lowered else "dspark"
        elif "mtp" in lowered:
            given = "mtp"
        elif model:
            given = "draft_model"
        else:
            raise InvalidInput('speculative-config names neither method nor model; add "method": "eagle3" or so')
    name = str(given)
    if name.endswith("_mtp"):
        return "mtp"
    if name == "ngram_gpu":
        return "ngram"
    if name in _REFUSED_METHODS:
        raise InvalidInput(
            f"speculative-config: method {name!r} cannot be computed: {_REFUSED_METHODS[name]}; use another method"
        )
    if name not in _METHODS:
        raise InvalidInput(f"speculative-config: method {name!r} is not known; {notation.nearest(name, _METHODS)}")
    return name


def _draft_tokens(config: Mapping[str, Any]) -> int | None:
    value = config.get("num_speculative_tokens")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(
            "speculative-config: num_speculative_tokens (K) must be a whole number of at least 1, got "
            f"{value!r}; "
            "give K, or drop the speculative-config to serve without"
        )
    return value


def _ranges(value: Any, draft_tokens: int | None) -> list[list[int]]:
    """Inclusive (first, last, K) rows; K is capped by num_speculative_tokens as the engine does."""
    rows: list[list[int]] = []
    for row in cast("list[Any]", value if isinstance(value, list) else [value]):
        entries = cast("list[Any]", row) if isinstance(row, list) else []
        if len(entries) != 3 or not all(isinstance(part, int) for part in entries):
            raise InvalidInput(
                "speculative-config: num_speculative_tokens_per_batch_size rows must be [first, last, K], "
                "got "
                f"{row!r}; write them like [[1, 8, 4], [9, 64, 2]]"
            )
        first, last, k = (int(part) for part in entries)
        rows.append([first, last, min(k, draft_tokens) if draft_tokens is not None else k])
    return rows


def _synthetic(config: Mapping[str, Any], draft_tokens: int | None) -> dict[str, Any] | None:
    """Acceptance of the engine's synthetic mode, as unconditional shares by position."""
    if config.get("rejection_sample_method") != "synthetic":
        return None
    rates = config.get("synthetic_acceptance_rates")
    length = config.get("synthetic_acceptance_length")
    old_rate = config.get("synthetic_acceptance_rate")
    given = [value for value in (rates, length, old_rate) if value is not None]
    if len(given) != 1 or draft_tokens is None:
        raise InvalidInput(
            "speculative-config: rejection_sample_method synthetic needs num_speculative_tokens and "
            "exactly one of "
            "synthetic_acceptance_rates, synthetic_acceptance_length and synthetic_acceptance_rate; give one"
        )
    if rates is not None:
        shares = [float(rate) for rate in cast("list[Any]", rates)]
        if len(shares) != draft_tokens:
            raise InvalidInput(
                f"speculative-config: synthetic_acceptance_rates must have {draft_tokens} entries (K), got "
                f"{len(shares)}; give one per position"
            )
    elif length is not None:
        shares = least_variance_shares(float(length), draft_tokens)
    else:
        shares = shares_of_mean_rate(float(cast("Any", old_rate)), draft_tokens)
    return {"per_position": shares, "synthetic": True}


def least_variance_shares(length: float, draft_tokens: int) -> list[float]:
    """`[1] * floor(L - 1) + [fraction] + [0] * …`: the engine's expansion of an acceptance length."""
    if not 1.0 <= length <= draft_tokens + 1:
        raise InvalidInput(
            f"speculative-config: synthetic_acceptance_length must be in 1..{draft_tokens + 1} (K + 1), got "
            f"{length:g}; correct it"
        )
    extra = length - 1.0
    return [min(1.0, max(0.0, extra - position)) for position in range(draft_tokens)]


def shares_of_mean_rate(rate: float, draft_tokens: int) -> list[float]:
    """The older scalar knob: conditional `a * g**i` with the mean over K of the joint shares equal to `rate`.

    `g` is the smallest value of at least 0.85 for which `a` stays at most 1.
    """
    if not 0.0 <= rate <= 1.0:
        raise InvalidInput(f"speculative-config: synthetic_acceptance_rate must be in 0..1, got {rate:g}; correct it")

    def shares(a: float, g: float) -> list[float]:
        joint, result = 1.0, list[float]()
        for position in range(draft_tokens):
            joint *= a * g**position
            result.append(joint)
        return result

    def mean(a: float, g: float) -> float:
        return math.fsum(shares(a, g)) / draft_tokens

    saturated = mean(1.0, _GAMMA_OF_OLD_RATE) < rate
    low, high = (_GAMMA_OF_OLD_RATE, 1.0) if saturated else (0.0, 1.0)
    for _ in range(60):
        middle = (low + high) / 2
        value = mean(1.0, middle) if saturated else mean(middle, _GAMMA_OF_OLD_RATE)
        low, high = (middle, high) if value < rate else (low, middle)
    return shares(1.0, high) if saturated else shares(high, _GAMMA_OF_OLD_RATE)


def _fate(key: str, value: Any) -> Row:
    flag, shown = f"speculative-config.{key}", json.dumps(value)
    if key in serve_flags.SPECULATIVE_HONOURED:
        return (flag, shown, "honoured", "speculation")
    if key in serve_flags.SPECULATIVE_IGNORED:
        return (flag, shown, "ignored", serve_flags.SPECULATIVE_IGNORED[key])
    known = {*serve_flags.SPECULATIVE_HONOURED, *serve_flags.SPECULATIVE_IGNORED}
    return (flag, shown, "unknown", f"not a known key; {notation.nearest(key, known)}")
