"""What `specdec acceptance` prints and writes: tables, JSON, and a fragment of a scenario."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import tomli_w

from scenarios.fragments import acceptance_fragment
from scenarios.imports.acceptance_banks import AcceptanceBank
from scenarios.questions.replay import ReplayReport, VocabularyCeiling, measured_acceptance, measured_by_position
from scenarios.report import words
from simulator.matchers import ReplayCounts, RoundCounts
from simulator.matchers.counts import MAX_TURN

_COLUMNS = ("group", "rounds", "AL", "proposes", "drafts", "accepted")


def replay_lines(report: ReplayReport) -> list[str]:
    """The report as text: both ways of proposing overall, then the groups of the better one."""
    rows = [["own prompt and response", *_figures(report.without_cache.overall)]]
    if report.with_cache is not None:
        rows.append(["and earlier responses", *_figures(report.with_cache.overall)])
    best = report.best.overall
    log_tokens = report.prompt_tokens + report.response_tokens
    lines = [
        f"{report.method} on {report.log_name}: {report.requests:,} requests, {report.response_tokens:,} response and "
        f"{report.prompt_tokens:,} prompt tokens ({report.tokens_are}), measured",
        f"  K = {best.draft_tokens}, {_settings(report)}",
        f"  replayed in {report.seconds:.2f} s: {log_tokens / report.seconds:,.0f} tokens/s",
        *_cut_lines(report),
        "",
        *words.grid(list(_COLUMNS), rows, left=1),
        "",
        f"accepted drafts a round{_which(report)}: "
        + ", ".join(f"{accepted}: {count:,}" for accepted, count in enumerate(best.accepted_histogram)),
        f"p_i of rounds that propose: {_shares(best.per_position)}",
        f"share of rounds with at least i drafts: {_shares(best.proposed_fractions)}",
        f"c_i of positions that were drafted: {_shares(best.conditional)}",
    ]
    for title, groups in _named_groups(report, report.best):
        rows = [[name, *_figures(counts)] for name, counts in groups]
        lines += ["", f"by {title}{_which(report)}", *words.grid(list(_COLUMNS), rows, left=1)]
    return lines


def replay_json(report: ReplayReport) -> str:
    """Everything that was counted."""
    content = {
        "method": report.method,
        "settings": dataclasses.asdict(report.matcher),
        "label": "measured",
        "log": {
            "name": report.log_name,
            "sha256": report.log_sha256,
            "tokens_are": report.tokens_are,
            "requests": report.requests,
            "prompt_tokens": report.prompt_tokens,
            "response_tokens": report.response_tokens,
        },
        "replay_s": report.seconds,
        "cut_requests": report.cut_requests,
        "without_cache": _counts_json(report, report.without_cache),
        "with_cache": None if report.with_cache is None else _counts_json(report, report.with_cache),
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def scenario_fragment(report: ReplayReport) -> dict[str, Any]:
    """The tables `speculation` and `acceptance` of a scenario, as measured (with the cache where there is one).

    Raises
    ------
    InvalidInput
        Nothing was ever proposed.
    """
    return acceptance_fragment(report.method, report.best.overall, measured_on=source_text(report))


def source_text(report: ReplayReport) -> str:
    """What the numbers were measured on."""
    return (
        f"{report.log_name} (sha256 {report.log_sha256[:16]}, {report.requests} requests, {report.response_tokens} "
        f"response tokens, {report.tokens_are})"
    )


def fragment_toml(report: ReplayReport) -> str:
    """The fragment as TOML, with its source as a comment."""
    what = (
        "# proposal_fractions: share of rounds with at least 1, 2, … drafts; per_position: accepted among these\n"
        if report.method == "suffix"
        else "# per_position: of rounds that propose\n"
    )
    return f"# {report.method} replayed on {source_text(report)}\n{what}{tomli_w.dumps(scenario_fragment(report))}"


def decide_options(report: ReplayReport) -> str:
    """The same as options of `specdec decide`."""
    counts = report.best.overall
    if report.method == "suffix":
        fractions, shares = measured_by_position(counts)
        proposed = f"--proposal-fractions {','.join(f'{share:g}' for share in fractions)}"
    else:
        shares, fraction = measured_acceptance(counts)
        proposed = f"--proposal-fraction {fraction:g}"
    return (
        f"--method {report.method} -k {counts.draft_tokens} {proposed} "
        f"--per-position {','.join(f'{share:g}' for share in shares)}"
    )


def ceiling_lines(ceiling: VocabularyCeiling) -> list[str]:
    """The overlap of two vocabularies and what it allows."""
    overlap = ceiling.overlap
    lines = [
        f"target {overlap.target_tokens:,} tokens, draft {overlap.draft_tokens:,}; shared "
        f"{overlap.shared_tokens:,} ({overlap.target_fraction:.1%} of the target's)",
    ]
    if not ceiling.per_position:
        return [
            *lines,
            "no ceiling on acceptance follows from that share, because tokens are not used alike: give --log with "
            "token ids that the target emitted",
        ]
    return [
        *lines,
        f"ceiling of p_i on {ceiling.response_tokens:,} response tokens, measured: {_shares(ceiling.per_position)}",
        f"ceiling of the acceptance length at K = {len(ceiling.per_position)}: {ceiling.acceptance_length:.2f}",
    ]


def ceiling_json(ceiling: VocabularyCeiling) -> str:
    """The same as JSON."""
    overlap = ceiling.overlap
    content = {
        "target_tokens": overlap.target_tokens,
        "draft_tokens": overlap.draft_tokens,
        "shared_tokens": overlap.shared_tokens,
        "shared_fraction": overlap.target_fraction,
        "ceiling_per_position": list(ceiling.per_position),
        "response_tokens": ceiling.response_tokens,
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def bank_lines(bank: AcceptanceBank) -> list[str]:
    """A bank by category, as measured."""
    names: list[str | None] = [None, *bank.categories]
    rows = [
        [
            name or "all",
            f"{len(bank.rounds_of(name)):,}",
            f"{bank.acceptance_length(name):.3f}",
            _shares(bank.acceptance(name).unconditional),
        ]
        for name in names
    ]
    title = f"{bank.name}: {len(bank.commits):,} rounds of K = {bank.draft_tokens}, measured"
    shares = ",".join(f"{share:.6g}" for share in bank.acceptance().unconditional)
    table = words.grid(["category", "rounds", "AL", "p_i"], rows, left=1)
    return [title, *table, "", f"specdec decide SCENARIO -k {bank.draft_tokens} --per-position {shares}"]


def _cut_lines(report: ReplayReport) -> list[str]:
    if not report.cut_requests:
        return []
    return [f"  memory: {report.cut_requests:,} responses left the cache earlier than in the engine (--cached-tokens)"]


def _settings(report: ReplayReport) -> str:
    given = dataclasses.asdict(report.matcher)
    return ", ".join(f"{name} {value}" for name, value in given.items() if name != "draft_tokens")


def _which(report: ReplayReport) -> str:
    return "" if report.with_cache is None else ", with earlier responses"


def _figures(counts: RoundCounts) -> list[str]:
    return [
        f"{counts.rounds:,}",
        f"{counts.acceptance_length:.3f}",
        words.share_text(counts.proposal_fraction),
        _number(counts.drafts_per_proposing_round),
        words.share_text(counts.acceptance_rate_fraction) if counts.drafted_tokens else "-",
    ]


def _number(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def _shares(shares: Any) -> str:
    return ", ".join(f"{float(share):.3f}" if math.isfinite(share) else "-" for share in shares)


def _named_groups(report: ReplayReport, counts: ReplayCounts) -> list[tuple[str, list[tuple[str, RoundCounts]]]]:
    def sized(groups: dict[tuple[int, int], RoundCounts]) -> list[tuple[str, RoundCounts]]:
        return [(f"{low:,}-{high:,}", group) for (low, high), group in groups.items()]

    turns = [(f"{turn}" if turn < MAX_TURN else f"{turn} and later", group) for turn, group in counts.by_turn.items()]
    classes = [(report.class_names[index], group) for index, group in counts.by_class.items()]
    return [
        ("context length in tokens", sized(counts.by_context_tokens)),
        ("tokens already emitted", sized(counts.by_emitted_tokens)),
        ("turn", turns),
        ("request class", classes),
    ]


def _counts_json(report: ReplayReport, counts: ReplayCounts) -> dict[str, Any]:
    keys = ("by_context_tokens", "by_emitted_tokens", "by_turn", "by_class")
    groups = _named_groups(report, counts)
    named = {
        key: {name: _group_json(group) for name, group in rows} for key, (_, rows) in zip(keys, groups, strict=True)
    }
    return {"overall": _group_json(counts.overall), **named}


def _group_json(counts: RoundCounts) -> dict[str, Any]:
    return {
        "rounds": counts.rounds,
        "proposing_rounds": counts.proposing_rounds,
        "drafted_tokens": counts.drafted_tokens,
        "accepted_tokens": counts.accepted_tokens,
        "emitted_tokens": counts.emitted_tokens,
        "acceptance_length": counts.acceptance_length,
        "acceptance_length_when_proposing": _finite(counts.acceptance_length_when_proposing),
        "tokens_per_round": counts.tokens_per_round,
        "proposal_fraction": counts.proposal_fraction,
        "acceptance_rate_fraction": _finite(counts.acceptance_rate_fraction),
        "proposed_fractions": [_finite(share) for share in counts.proposed_fractions.tolist()],
        "per_position": [_finite(share) for share in counts.per_position.tolist()],
        "conditional": [_finite(share) for share in counts.conditional.tolist()],
        "accepted_histogram": counts.accepted_histogram.tolist(),
        "rounds_by_drafted_accepted": counts.by_drafted_accepted.tolist(),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
