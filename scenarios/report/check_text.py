"""The report of `specdec check` as text and as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scenarios.report.words import paragraph

if TYPE_CHECKING:
    from scenarios.check.checking import CheckReport
    from scenarios.check.finding import Finding

_ORDER = ("stop", "warn", "pass")


def check_lines(report: CheckReport, *, brief: bool = False) -> list[str]:
    """Stops first, then warnings, then what passed; `brief` leaves the passes out."""
    counts = ", ".join(f"{len(report.at(level))} {level}" for level in _ORDER)
    lines = [f"{report.verdict.upper()}: {counts}"]
    if not report.speculates:
        lines.append("No speculation is configured: only what concerns every service was checked.")
    for level in _ORDER[: 2 if brief else 3]:
        for finding in report.at(level):
            lines += ["", *_finding_lines(finding)] if level != "pass" else _pass_lines(finding)
        if level == "warn" and not brief and report.at("pass"):
            lines.append("")
    if report.unchecked:
        lines += ["", "Not checked for want of a fact:"]
        lines += [line for text in report.unchecked for line in paragraph("", text)]
    return lines


def check_json(report: CheckReport) -> str:
    """The report with all fields."""
    content: dict[str, Any] = {
        "verdict": report.verdict,
        "speculates": report.speculates,
        "findings": [
            {
                "level": finding.level,
                "rule": finding.rule,
                "text": finding.text,
                "number": finding.number,
                "fix": finding.fix,
                "source": {"title": finding.source.title, "url": finding.source.url},
            }
            for finding in report.findings
        ],
        "unchecked": list(report.unchecked),
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _finding_lines(finding: Finding) -> list[str]:
    lines = paragraph(f"{finding.level:<6}", f"{finding.rule}: {finding.text}")
    lines += paragraph("  number", finding.number)
    lines += paragraph("  fix", finding.fix)
    return [*lines, f"{'  source':<12}{finding.source.title}, {finding.source.url}"]


def _pass_lines(finding: Finding) -> list[str]:
    return paragraph(f"{finding.level:<6}", f"{finding.rule}: {finding.text} ({finding.number})")
