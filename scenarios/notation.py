"""Compact notations of users: `2.4@3`, `tpot_p95=40ms`, `16k`, and the nearest name to a misspelt one."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from roofline.errors import InvalidInput
from roofline.units import SECONDS_PER_MS, SECONDS_PER_US

SLO_METRICS = ("ttft", "tpot", "latency")
_SECONDS_BY_UNIT = {"us": SECONDS_PER_US, "ms": SECONDS_PER_MS, "s": 1.0}
_TOKENS_BY_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


@dataclass(frozen=True, slots=True)
class SloText:
    """One service-level objective: `metric` at `quantile` (None: every request) within `limit_s`."""

    metric: str
    quantile: float | None
    limit_s: float


def nearest(name: str, known: Iterable[str]) -> str:
    """A clause naming the nearest known names, or all of them where none is near."""
    options = sorted(known)
    close = difflib.get_close_matches(name, options, n=3, cutoff=0.5)
    lowered = [option for option in options if name.lower() in option.lower()][:3]
    found = list(dict.fromkeys(close + lowered))[:4]
    if found:
        return "nearest: " + ", ".join(found)
    return "known: " + ", ".join(options[:12]) + (", …" if len(options) > 12 else "")


def finite(text: str, *, field: str, example: str) -> float:
    """A finite number; NaN and infinity are refused."""
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"{field} must be a number, got {text!r}; write it like {example}") from None
    if not math.isfinite(value):
        raise InvalidInput(f"{field} must be a finite number, got {text!r}; write it like {example}")
    return value


def whole(text: str, *, field: str, example: str, least: int = 1) -> int:
    """A whole number of at least `least`, which is 0 or more."""
    if not text.isdecimal() or int(text) < least:
        raise InvalidInput(f"{field} must be a whole number of at least {least}, got {text!r}; write it like {example}")
    return int(text)


def acceptance_length_at(text: str) -> tuple[float, int]:
    """`2.4@3`: acceptance length 2.4 (bonus token included) observed at K = 3."""
    head, at, tail = text.strip().partition("@")
    length = finite(head, field="acceptance length", example="2.4@3")
    if not at:
        raise InvalidInput(
            f"acceptance length {text!r} says nothing without the number of draft tokens it was seen at; "
            f"write it like {head}@3 for K = 3"
        )
    if not re.fullmatch(r"[0-9]+", tail) or int(tail) < 1:
        raise InvalidInput(
            f"acceptance length {text!r}: the number of draft tokens after @ must be a whole number of at "
            f"least 1, got {tail!r}; write it like {head}@3"
        )
    draft_tokens = int(tail)
    if not 1.0 <= length <= draft_tokens + 1:
        raise InvalidInput(
            f"acceptance length must be in 1..{draft_tokens + 1} at K = {draft_tokens} (K drafts and the "
            "bonus "
            f"token), got {length:g}; correct the length or the K after @"
        )
    return length, draft_tokens


def slo(text: str) -> SloText:
    """`tpot_p95=40ms`, `ttft_p99=1s`; `tpot=40ms` binds every request."""
    shape = re.fullmatch(r"\s*([a-z]+)(?:_p([0-9.]+))?\s*=\s*([-+0-9.a-z]+?)\s*(us|ms|s)\s*", text)
    if shape is None:
        raise InvalidInput(
            f"slo {text!r} must read METRIC_pQUANTILE=TIME with a unit (us, ms or s); write it like tpot_p95=40ms"
        )
    metric, quantile_text, number, unit = shape.groups()
    if metric not in SLO_METRICS:
        raise InvalidInput(
            f"slo {text!r}: metric must be one of {', '.join(SLO_METRICS)}, got {metric!r}; "
            f"{nearest(metric, SLO_METRICS)}"
        )
    limit_s = finite(number, field=f"slo {text!r}", example="tpot_p95=40ms") * _SECONDS_BY_UNIT[unit]
    if limit_s <= 0:
        raise InvalidInput(f"slo {text!r}: the limit must be above 0, got {number}{unit}; give a positive time")
    quantile = None
    if quantile_text is not None:
        percent = finite(quantile_text, field=f"slo {text!r}", example="tpot_p95=40ms")
        if not 0 < percent < 100:
            raise InvalidInput(f"slo {text!r}: the percentile must be between 0 and 100, got {quantile_text}")
        quantile = percent / 100
    return SloText(metric=metric, quantile=quantile, limit_s=limit_s)


def human_tokens(text: str, *, field: str) -> int:
    """A whole number with the suffixes that vLLM reads: 16k = 16,000, 16K = 16,384."""
    shape = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgKMG]?)", text.strip())
    if shape is None:
        raise InvalidInput(f"{field} must be a whole number (16384, 16k or 16K), got {text!r}; correct it")
    number, suffix = shape.groups()
    value = float(number) * _TOKENS_BY_SUFFIX.get(suffix, 1)
    if value != int(value):
        raise InvalidInput(f"{field} must be a whole number, got {text!r}; correct it")
    return int(value)


def number_list(text: str, *, field: str, example: str) -> tuple[float, ...]:
    """Comma-separated finite numbers, at least one."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise InvalidInput(f"{field} must list at least one number, got {text!r}; write it like {example}")
    return tuple(finite(part, field=field, example=example) for part in parts)
