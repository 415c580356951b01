"""What `specdec decide` prints: verdict first, then reasons, the table of loads, assumptions and flags."""

from __future__ import annotations

from scenarios.questions.decide import Decision
from scenarios.questions.load_run import ArmAtLoad, CaseAtLoad, LoadOutcome
from scenarios.report import words
from scenarios.report.verdict_text import advice_lines, cost_lines, headline, interval_lines, why_lines

_HEADER = [
    *("load", "arm", "TTFT p50", "p95", "p99 ms", "TPOT p50", "p95", "p99 ms"),
    *("tok/s", "goodput", "batch", "AL", "needed", "S(TPOT)", "S(throughput)", ""),
]


def decision_text(decision: Decision) -> str:
    """The whole report, without a final newline."""
    parts = [
        [headline(decision)],
        interval_lines(decision),
        [*why_lines(decision), *advice_lines(decision), *cost_lines(decision)],
        load_table(decision),
        assumption_lines(decision),
        flag_lines(decision),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def load_rows(decision: Decision) -> tuple[list[str], list[list[str]]]:
    """Header and cells: two rows a load, plain and speculating; three speculating where a preset carries its spread."""
    rows: list[list[str]] = []
    for load in decision.loads:
        needed = _break_even_cell(load)
        first = words.load_text(load.point.value, load.point.kind)
        rows.append([first, "off", *_arm_cells(load.off), "" if load.cases else needed, "", "", ""])
        for case in (*load.cases, *([load.advised] if load.advised is not None else [])):
            name = "on" if case.name == "given" else f"on {case.name}"
            rows.append(["", name, *_arm_cells(case.on), needed, *_speedup_cells(case)])
    return list(_HEADER), rows


def load_table(decision: Decision) -> list[str]:
    """The rows of all loads, aligned, and how they were made."""
    table = words.grid(*load_rows(decision))
    seeds = decision.scenario.run.seeds
    return [
        *table,
        f"  ({decision.requests:,} requests a load, {seeds} seeds; intervals are 95 %, from pairs; needed: "
        "AL to break even)",
    ]


def _arm_cells(arm: ArmAtLoad) -> list[str]:
    return [
        *(words.time_text(value) for value in arm.ttft_s),
        *(words.time_text(value) for value in arm.tpot_s),
        words.number(arm.throughput_tokens_per_s),
        words.share_text(arm.goodput_fraction),
        words.number(arm.mean_batch),
        f"{arm.acceptance_length:.2f}",
    ]


def _speedup_cells(case: CaseAtLoad) -> list[str]:
    return [words.speedup(case.tpot_speedup), words.speedup(case.throughput_speedup), case.word]


def _break_even_cell(load: LoadOutcome) -> str:
    kind = load.break_even.kind
    return f"{load.break_even.length:.2f}" if kind == "at" else "cannot say" if kind == "unknown" else kind


def assumption_rows(decision: Decision) -> list[tuple[str, str]]:
    """(label, text) of everything taken as given."""
    return [(item.label, item.text) for item in decision.assumptions]


def assumption_lines(decision: Decision) -> list[str]:
    """Everything taken as given, with its label, and how far off such answers were."""
    published = decision.published
    label = published.label if published.rows else "assumed"
    rows = [*assumption_rows(decision), (label, published.text)]
    return ["Rests on", *(words.labelled_text(label, text) for label, text in rows)]


def flag_lines(decision: Decision) -> list[str]:
    """Serve flags that counted, that did not, and that nobody knows."""
    lines: list[str] = []
    for fate in ("honoured", "ignored", "unknown"):
        found = [flag for flag in decision.flags if flag.fate == fate]
        if not found:
            continue
        if fate == "honoured":
            names = ", ".join(f"{flag.flag} {flag.value}".strip() for flag in found)
            lines += words.paragraph("  honoured", names)
        else:
            for flag in found:
                lines += words.paragraph(f"  {fate}", f"{f'{flag.flag} {flag.value}'.strip()}: {flag.reason}")
    return ["Serve flags", *lines] if lines else []
