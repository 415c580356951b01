"""A decision on one self-contained page: what people forward instead of terminal output."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import tomli_w

from roofline.units import gib_from_bytes
from scenarios.report import words
from scenarios.report.decision_text import assumption_rows, load_rows
from scenarios.report.page import data_uri, rendered, svg_uri
from scenarios.report.verdict_text import advice_lines, cost_lines, headline, interval_lines, why_lines

if TYPE_CHECKING:
    from scenarios.build import Service
    from scenarios.check.checking import CheckReport
    from scenarios.questions.decide import Decision
    from scenarios.schema import Scenario

LEVELS = ("stop", "warn", "pass")


def decision_page(service: Service, decision: Decision, *, checked: CheckReport | None) -> str:
    """The page as text. `checked` are the findings of `specdec check`; None where the setup could not be read by it."""
    from scenarios.report.plot import report_figures

    scenario = scenario_toml(decision.scenario)
    header, rows = load_rows(decision)
    return rendered(
        "decision.html",
        name=decision.scenario.name,
        description=decision.scenario.description,
        headline=headline(decision),
        intervals=[line.strip() for line in interval_lines(decision)],
        paragraphs=_paragraphs([*why_lines(decision), *advice_lines(decision), *cost_lines(decision)]),
        schedule=None if decision.advice is None else _schedule(decision),
        load_header=header,
        load_rows=rows,
        requests=f"{decision.requests:,}",
        seeds=decision.scenario.run.seeds,
        figures=[
            {"name": figure.name, "caption": figure.caption, "image": svg_uri(figure.svg)}
            for figure in report_figures(service, decision)
        ],
        rounds=[_round(load) for load in decision.loads],
        memory=_memory(decision),
        checked=None if checked is None else _findings(checked),
        assumptions=assumption_rows(decision),
        published=decision.published.text,
        published_sources=", ".join(decision.published.sources),
        scenario=scenario,
        scenario_file=data_uri(scenario.encode(), "application/toml"),
        version=decision.version,
        seed=decision.scenario.run.seed,
    )


def scenario_toml(scenario: Scenario) -> str:
    """The scenario as a file that `specdec decide` reads again; what is at its default is left out."""
    content = scenario.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return tomli_w.dumps({"schema_version": scenario.schema_version, **content, "workload": _workload(scenario)})


def _workload(scenario: Scenario) -> dict[str, Any]:
    """The kind of workload is always said: it tells the classes apart."""
    content = scenario.workload.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"kind": scenario.workload.kind, **content}


def _schedule(decision: Decision) -> str:
    """The advised K as an option of the serve line."""
    advice = decision.advice
    return "" if advice is None else f"--speculative-config {shlex.quote(advice.engine_json())}"


def _paragraphs(lines: list[str]) -> list[dict[str, str]]:
    """Titled lines of the terminal's report put back together; the schedule has its own place on the page."""
    found: list[dict[str, str]] = []
    for line in lines:
        title, text = line[:12].strip(), line[12:].strip()
        if text.startswith("{"):
            continue
        if title or not found:
            found.append({"title": title, "text": text})
        else:
            found[-1]["text"] += f" {text}"
    return found


def _round(load: Any) -> list[str]:
    split = load.round
    parts = (split.verify, split.draft, split.host, split.ratio)
    length = load.middle.on.acceptance_length if load.middle is not None else None
    return [
        load.point.text,
        str(split.batch),
        str(split.draft_tokens),
        *(f"{part:.2f}" for part in parts),
        "-" if length is None else f"{length:.2f}",
        words.time_text(split.plain_s),
    ]


def _memory(decision: Decision) -> list[tuple[str, str]]:
    account = decision.memory
    kv_bytes = account.kv_tokens * (account.kv_bytes_per_token + account.draft_kv_bytes_per_token)
    sizes = {
        "usable memory": account.usable_bytes,
        "weights": account.weights_bytes,
        "draft weights": account.draft_weights_bytes,
        "workspace (activations, logits)": account.workspace_bytes,
        "KV cache": kv_bytes,
    }
    return [
        *((name, f"{gib_from_bytes(size_bytes):.2f} GiB") for name, size_bytes in sizes.items()),
        ("KV cache, tokens", f"{account.kv_tokens:,}"),
        ("tokens lost to the draft", f"{account.kv_tokens_lost:,}"),
    ]


def _findings(report: CheckReport) -> dict[str, Any]:
    return {
        "verdict": report.verdict,
        "counts": ", ".join(f"{len(report.at(level))} {level}" for level in LEVELS),
        "findings": [finding for level in LEVELS[:2] for finding in report.at(level)],
        "passed": [finding.rule for finding in report.at("pass")],
        "unchecked": report.unchecked,
    }
