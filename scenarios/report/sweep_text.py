"""What `specdec sweep` prints: how many scenarios, the best and what ties with it, and the table's head."""

# pandas ships no types:
# pyright: basic
from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from roofline.units import SECONDS_PER_MS
from scenarios.report.files import plain
from scenarios.sweeps.best import arm_of

if TYPE_CHECKING:
    from scenarios.sweeps.sweeping import Sweep

Row = dict[str, Any]
SHOWN = 10
_EXTRA = ("off_tpot_p95_s", "on_tpot_p95_s", "on_ttft_p95_s", "on_throughput_tokens_per_s", "on_goodput_fraction")
_HEADS = {
    "tpot_speedup": "S(TPOT)",
    "throughput_speedup": "S(throughput)",
    "off_tpot_p95_s": "off TPOT p95 ms",
    "on_tpot_p95_s": "on TPOT p95 ms",
    "on_ttft_p95_s": "on TTFT p95 ms",
    "on_throughput_tokens_per_s": "on tok/s",
    "on_goodput_fraction": "on goodput",
}


def sweep_lines(sweep: Sweep) -> Iterator[str]:
    """The report."""
    table: Any = sweep.table
    yield _counts(sweep, table)
    yield _best(sweep, table)
    yield ""
    yield from _head(sweep, table)
    yield ""
    labels = ", ".join(sorted({str(label) for label in table["label"].dropna()})) or "no"
    yield f"Simulated, on {labels} step times; the intervals are over seeds, not over what the simulation leaves out."
    reasons = table.loc[table["reason"].fillna("") != "", ["status", "reason"]].drop_duplicates()
    for status, reason in reasons.head(3).itertuples(index=False):
        yield f"{status}: {reason}"


def _counts(sweep: Sweep, table: Any) -> str:
    by_status = cast("dict[str, int]", table["status"].value_counts().to_dict())
    parts = [f"{count:,} {status}" for status, count in sorted(by_status.items())]
    held = int(table[f"{arm_of(sweep.metric)}_saturated"].eq(True).sum())
    kept = f"; {sweep.restored:,} were on disk already" if sweep.restored else ""
    return (
        f"{sweep.scenarios:,} scenarios x {sweep.seeds} seeds: {', '.join(parts)}; {held:,} saturated "
        f"({arm_of(sweep.metric)} arm){kept}"
    )


def _best(sweep: Sweep, table: Any) -> str:
    [first] = _records(table.head(1))
    if not math.isfinite(first[sweep.metric]) or _yes(first[f"{arm_of(sweep.metric)}_saturated"]):
        return f"No scenario has a {sweep.metric} while it keeps up"
    ties = int(table["tie"].sum()) - 1
    at = ", ".join(f"{name} = {_value(first[name])}" for name in sweep.axes)
    tied = (
        "nothing ties with it" if ties == 0 else f"{ties:,} scenario{'s' * (ties > 1)} tie{'s' * (ties == 1)} with it"
    )
    return f"Best {sweep.metric} {_metric(first, sweep.metric)} at {at or 'the scenario as it is'}; {tied}"


def _head(sweep: Sweep, table: Any) -> Iterator[str]:
    extra = [name for name in _EXTRA if name != sweep.metric and table[name].notna().any()]
    heads = [*(name.rsplit(".", 1)[-1] for name in sweep.axes), _HEADS.get(sweep.metric, sweep.metric), ""]
    rows = [[*heads, *(_HEADS[name] for name in extra)]]
    for row in _records(table.head(SHOWN)):
        mark = _mark(row, best=len(rows) == 1, arm=arm_of(sweep.metric))
        cells = [*(_value(row[name]) for name in sweep.axes), _metric(row, sweep.metric), mark]
        rows.append([*cells, *(_scaled(name, row[name]) for name in extra)])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    if len(table) > SHOWN:
        yield f"… and {len(table) - SHOWN:,} more"


def _mark(row: Row, *, best: bool, arm: str) -> str:
    if row["status"] != "answered":
        return str(row["status"])
    if _yes(row[f"{arm}_saturated"]):
        return "saturated"
    return "best" if best else "tie" if row["tie"] else ""


def _yes(answer: Any) -> bool:
    """An answer may be missing, as None or NaN."""
    return answer is not None and answer == 1


def _metric(row: Row, name: str) -> str:
    value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if not math.isfinite(value):
        return "-"
    return f"{value:.4g}" if not math.isfinite(low) else f"{value:.4g} ({low:.4g}-{high:.4g})"


def _scaled(name: str, value: float) -> str:
    if not math.isfinite(value):
        return "-"
    if name.endswith("_fraction"):
        return f"{value:.0%}"
    if name.endswith("_s") and not name.endswith("_per_s"):
        return f"{value / SECONDS_PER_MS:.3g}"
    return f"{value:.4g}"


def _records(table: Any) -> list[Row]:
    return cast("list[Row]", table.to_dict(orient="records"))


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sweep_json(sweep: Sweep) -> str:
    """The best rows and the counts as one document."""
    table = sweep.table.head(SHOWN)
    rows = [plain(row) for row in _records(table)]
    content = {
        "scenarios": sweep.scenarios,
        "seeds": sweep.seeds,
        "metric": sweep.metric,
        "axes": list(sweep.axes),
        "restored": sweep.restored,
        "results": str(sweep.results),
        "best": rows,
    }
    return json.dumps(content, indent=2) + "\n"
