"""What `specdec validate --mine` prints: measured against predicted, the parts of the residual, the host time apart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from roofline.units import SECONDS_PER_MS
from scenarios.validate.own_run import Line, OwnRun

_UNTOLD_S = 1e-9


def own_run_lines(found: OwnRun) -> Iterator[str]:
    """The report."""
    yield f"{found.scenario.name}, arm {found.arm} at {found.point.text} ({found.label} step times)"
    yield ""
    fitted = found.host.calibration is not None
    heads = ("", "measured", "predicted", "error", "with host time" if fitted else "")
    rows = [heads, *(_row(line, fitted=fitted) for line in found.lines)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(heads))]
    for row in rows:
        first = row[0].ljust(widths[0])
        yield "  ".join([first, *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]).rstrip()
    yield ""
    yield from _residual(found)
    yield from _host(found)
    for note in found.notes:
        yield f"Note        {note}"


def _row(line: Line, *, fitted: bool) -> tuple[str, ...]:
    with_host = ""
    if fitted:
        with_host = f"{line.with_host:.4g} ({line.with_host / line.measured - 1:+.1%})"
    return (line.name, f"{line.measured:.4g}", f"{line.predicted:.4g}", f"{line.error_fraction:+.1%}", with_host)


def _residual(found: OwnRun) -> Iterator[str]:
    if not found.parts:
        yield "Residual    no mean TTFT was measured to split the time of a request by"
        return
    total_s = sum(part.residual_s for part in found.parts)
    parts = ", ".join(f"{part.name} {_signed(part.residual_s)}" for part in found.parts)
    yield f"Residual    a request took {_signed(total_s)} against the prediction, on average: {parts}"
    most = max(found.parts, key=lambda part: abs(part.residual_s))
    yield f"            what explains most of it is {most.name}: {_WHY[most.name]}"


_WHY = {
    "queue": "waiting, which grows with every step that is slower and with every token of cache that is missing",
    "prefill": "prompts took another time than predicted",
    "queue and prefill": "the time to the first token; the run does not tell waiting from prefill",
    "decode": "tokens after the first came at another pace than predicted",
    "step": "a step took another time than predicted",
    "acceptance": "a round brought another number of tokens than predicted",
}


def _host(found: OwnRun) -> Iterator[str]:
    host = found.host
    if host.calibration is None:
        yield f"Host time   none is fitted: {host.refused}"
        return
    yield (
        f"Host time   {host.extra_s / SECONDS_PER_MS:.3g} ms more a step would make mean TPOT agree (fitted to this "
        "run; it entered no prediction above)"
    )
    left = [part for part in found.parts if abs(part.with_host_s) > _UNTOLD_S]
    if left:
        parts = ", ".join(f"{part.name} {_signed(part.with_host_s)}" for part in left)
        yield f"            with it the residual is {_signed(sum(part.with_host_s for part in left))}: {parts}"
    yield "            --calibrate-host FILE writes the calibration with it, for --calibration"


def _signed(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "-"
    value = seconds / SECONDS_PER_MS
    return f"{value:+,.0f} ms" if abs(value) >= 100 else f"{value:+.3g} ms"
