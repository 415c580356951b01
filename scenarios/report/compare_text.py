"""What `specdec compare` prints: both latencies, and the terms that moved, the largest first."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator

from roofline.units import SECONDS_PER_MS
from scenarios.questions.compare import Comparison, Moved, RequestTime

_ROUNDING_S = 1e-9
_WHOLE = 1000
_HEAD = ("term", "A", "B", "moved ms", "95 %", "")


def compare_lines(found: Comparison) -> Iterator[str]:
    """The report."""
    a, b = found.times
    for letter, place in (("A", 0), ("B", 1)):
        state = ", SATURATED: its waiting grows with the length of the run" if found.saturated[place] else ""
        time, label = found.times[place], found.labels[place]
        yield (
            f"{letter}  {found.names[place]}, arm {found.arms[place]} at {found.loads[place].text}: mean latency "
            f"{_ms(time.latency_s)} ms, TPOT {_ms(time.tpot_s)} ms, batch {time.batch:.3g} ({label}){state}"
        )
    ratio = b.latency_s / a.latency_s
    moved = f"{_signed_ms(found.total.estimate_s)} ms{_words(found.total)}"
    yield f"B takes {ratio:.3g} times as long as A ({moved})"
    yield ""
    yield from _table(found)
    yield ""
    yield _biggest(found)


def _table(found: Comparison) -> Iterator[str]:
    order = sorted(found.moved, key=lambda term: -abs(term.estimate_s))
    rows = [_HEAD, *(_row(term, *found.times) for term in order if _shown(term))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    for row in rows:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        yield "  ".join([first, *rest, row[-1]]).rstrip()


def _shown(term: Moved) -> bool:
    """Terms that both runs lack are left out; sums of many steps leave rounding behind."""
    return term.name not in ("held", "lengths") or abs(term.estimate_s) > _ROUNDING_S


def _row(term: Moved, a: RequestTime, b: RequestTime) -> tuple[str, ...]:
    before, after = (_value(term.name, time) for time in (a, b))
    width = f"±{_ms(term.half_width_s)}" if math.isfinite(term.half_width_s) else "one seed"
    moved = _signed_ms(term.estimate_s)
    return (_NAMES[term.name], before, after, moved, width, "tie" if term.is_tie else "")


_NAMES = {
    "queue": "queue (wait, ms)",
    "prefill": "prefill (to the first token, ms)",
    "verify": "verify (ms a round)",
    "draft": "draft (ms a round)",
    "host": "host (ms a round)",
    "acceptance": "acceptance (tokens a round)",
    "held": "held (in no round, ms a token)",
    "lengths": "lengths (tokens after the first)",
}


def _value(name: str, time: RequestTime) -> str:
    match name:
        case "acceptance":
            return f"{time.acceptance_length:.3g}"
        case "lengths":
            return f"{time.later_tokens:.4g}"
        case _:
            return _ms(getattr(time, f"{name}_s"))


def _biggest(found: Comparison) -> str:
    told = [term for term in found.moved if not term.is_tie]
    if not told:
        return "No term differs beyond its interval: the two are a tie."
    most = max(told, key=lambda term: abs(term.estimate_s))
    way = "slows" if most.estimate_s > 0 else "speeds"
    return f"What moved most is {most.name}: it {way} B by {_ms(abs(most.estimate_s))} ms a request."


def _words(moved: Moved) -> str:
    if not math.isfinite(moved.half_width_s):
        return ", one seed: no interval"
    return f" ± {_ms(moved.half_width_s)}{', a tie' if moved.is_tie else ''}"


def _ms(seconds: float) -> str:
    value = seconds / SECONDS_PER_MS
    return f"{value:,.0f}" if abs(value) >= _WHOLE else f"{value:.3g}"


def _signed_ms(seconds: float) -> str:
    return f"{'+' if seconds >= 0 else '-'}{_ms(abs(seconds))}"


def compare_json(found: Comparison) -> str:
    """The comparison as one document; an open interval is null."""
    content = dataclasses.asdict(found)
    for term in (content["total"], *content["moved"]):
        term["half_width_s"] = term["half_width_s"] if math.isfinite(term["half_width_s"]) else None
    return json.dumps(content, indent=2) + "\n"
