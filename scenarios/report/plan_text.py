"""What `specdec plan` prints: the answer, the ranked rows, more about the best, what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.plan.answer import Best, Cost, CountTried, Plan, PlanRow, Reached
from scenarios.report import words

_HEADER = [
    *("", "GPU", "TP", "precision", "mode", "K", "replicas", "GPUs", "perfect", "attained", "one fewer"),
    *("TTFT p95", "TPOT p95 ms", "tok/s/GPU", "tok/s/user", "batch", "AL", ""),
]
_MODE = {"off": "off", "static": "static K", "schedule": "best K", "dynamic": "dynamic"}


def plan_text(plan: Plan) -> str:
    """The whole report, without a final newline."""
    parts = [
        [headline(plan)],
        best_lines(plan),
        table_lines(plan),
        excluded_lines(plan),
        ["Rests on", *(words.labelled_text(item.label, item.text) for item in plan.assumptions)],
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def headline(plan: Plan) -> str:
    """The first line: what to buy, or that nothing does."""
    load = words.load_text(plan.load_per_s, "rate")
    if plan.best is None:
        return f"{plan.rows[0].status}: no deployment meets the objectives at {load}"
    row = plan.best.row
    assert row.count is not None
    return (
        f"{_counted(row.count.replicas, 'replica')} of {row.choice.gpus_per_replica} x {row.choice.gpu} "
        f"({_counted(row.gpus or 0, 'GPU')}, {row.choice.precision}, speculation {_MODE[row.mode]}{_drafts(row)}) "
        f"for {load}: "
        f"{_reached_text(_scarcest(row.count.reached))}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _drafts(row: PlanRow) -> str:
    return f" {row.draft_tokens}" if row.mode == "static" else ""


def _reached_text(reached: Reached) -> str:
    share, half = 100 * reached.fraction, 100 * reached.half_width_fraction
    return f"{share:.1f} % (+- {half:.1f}) meet {reached.objective}, {100 * reached.wanted_fraction:g} % must"


def best_lines(plan: Plan) -> list[str]:
    """Paragraphs about the best row."""
    best = plan.best
    if best is None or best.row.count is None:
        return []
    lines = [*_decision_lines(best), *_room_lines(best), *_mark_lines(best)]
    lines += _mean_lines(plan, best)
    lines += _cost_lines(plan.costs[0], plan)
    return lines


def _decision_lines(best: Best) -> list[str]:
    row, fewer = best.row, best.row.one_fewer
    assert row.count is not None
    text = (
        f"{_counted(row.count.seeds, 'seed')}, {'decided by the interval' if row.count.decided else 'by the estimate'}."
    )
    if fewer is not None:
        word = "misses" if fewer.decided else "may or may not do"
        text += f" One replica fewer {word}: {_reached_text(_scarcest(fewer.reached))}."
    elif row.replicas is not None and row.replicas > 1:
        text += " One replica fewer cannot do the work, whoever schedules it."
    text += f" A perfect system needs {row.bound_replicas:.2g} replicas for the work alone."
    return words.paragraph("Decision", text)


def _room_lines(best: Best) -> list[str]:
    row = best.row
    assert row.replicas is not None
    more = f"{100 * best.headroom_fraction:.0f} %"
    room = f"at least {more}" if best.headroom_is_bound else more
    spare = (row.replicas + 1) * row.choice.gpus_per_replica
    text = f"The load may grow by {room} before an objective is missed. "
    text += f"N + 1, so that one replica may fail: {row.replicas + 1} replicas, {spare} GPUs."
    return words.paragraph("Headroom", text)


def _mark_lines(best: Best) -> list[str]:
    marks = best.marks
    full = (
        f"the backlog grows from {marks.saturation_per_s:.3g} req/s on"
        if marks.saturation_per_s is not None
        else f"the backlog does not grow up to {marks.highest_per_s:.3g} req/s"
    )
    text = (
        f"One replica: knee at {marks.knee_per_s:.3g} req/s (throughput over latency), peak at {marks.peak_per_s:.3g} "
        f"req/s (most requests inside the objectives), saturation: {full}."
    )
    return words.paragraph("Marks", text)


def _mean_lines(plan: Plan, best: Best) -> list[str]:
    scaled = best.scaled
    if scaled is None:
        return []
    options = plan.options
    met = "meets the objectives" if scaled.meets else "misses an objective at any target"
    text = (
        f"With an autoscaler ({options.start_delay_s:g} s to start, {options.cool_down_s:g} s to cool down): "
        f"{scaled.mean_replicas:.1f} replicas on average, {scaled.peak_replicas} at most, at a target of "
        f"{scaled.target_outstanding:.3g} requests in each; {met}: {_reached_text(_scarcest(scaled.reached))}."
    )
    return words.paragraph("Mean", text)


def _cost_lines(cost: Cost, plan: Plan) -> list[str]:
    parts = [
        f"{name} {value:.3g} a million output tokens ({spare:.3g} with N + 1)"
        for name, value, spare in (
            ("usage-based", cost.usage_per_million_tokens, cost.usage_spare_per_million_tokens),
            ("reserved", cost.reserved_per_million_tokens, cost.reserved_spare_per_million_tokens),
        )
        if value is not None and spare is not None
    ]
    if not parts:
        return words.paragraph("Cost", "No price was given (--price GPU=MONEY per GPU and hour), so none is shown.")
    return words.paragraph("Cost", f"{'; '.join(parts)}, at the prices you gave.")


def table_lines(plan: Plan) -> list[str]:
    """The rows with a count, best first; a star marks the Pareto front."""
    front = set(plan.pareto)
    ranked = [(index, row) for index, row in enumerate(plan.rows) if row.count is not None]
    if not ranked:
        return []
    priced = any(cost.usage_per_million_tokens or cost.reserved_per_million_tokens for cost in plan.costs)
    header = [*_HEADER[:-1], *(["usage/Mtok", "reserved/Mtok"] if priced else []), ""]
    rows = [
        [*_cells(row), *(_cost_cells(plan.costs[index]) if priced else []), "*" if index in front else ""]
        for index, row in ranked
    ]
    note = (
        f"  ({plan.requests:,} requests; attained: the objective with the least to spare; perfect: replicas that the "
        "work alone takes; *: no other is better in both tok/s/GPU and tok/s/user)"
    )
    return [
        *words.grid([each.lstrip() for each in header], [[str(cell) for cell in row] for row in rows], left=5),
        note,
    ]


def _cells(row: PlanRow) -> list[str]:
    count = row.count
    assert count is not None
    sure = "" if count.decided else "~"
    return [
        "",
        row.choice.gpu,
        str(row.choice.tensor_parallel),
        row.choice.precision,
        _MODE[row.mode],
        str(row.draft_tokens or "-"),
        f"{sure}{count.replicas}",
        str(row.gpus),
        f"{row.bound_replicas:.1f}",
        f"{100 * _scarcest(count.reached).fraction:.1f} %",
        f"{100 * _scarcest(row.one_fewer.reached).fraction:.1f} %" if row.one_fewer is not None else "-",
        words.time_text(count.ttft_s[1]),
        words.time_text(count.tpot_s[1]),
        words.number(row.gpu_tokens_per_s(count)),
        words.number(count.user_tokens_per_s),
        words.number(count.mean_batch),
        f"{count.acceptance_length:.2f}",
    ]


def _scarcest(reached: Sequence[Reached]) -> Reached:
    """The objective with the least to spare."""
    return min(reached, key=lambda each: each.fraction - each.wanted_fraction)


def _cost_cells(cost: Cost) -> list[str]:
    values = (cost.usage_per_million_tokens, cost.reserved_per_million_tokens)
    return ["-" if value is None else words.number(value) for value in values]


def verification_lines(chosen: CountTried, fewer: CountTried | None) -> list[str]:
    """The chosen count and one fewer on other seeds."""
    lines: list[str] = []
    for count in (chosen, fewer):
        if count is not None:
            shares = "; ".join(_reached_text(each) for each in count.reached)
            verdict = "meets" if count.meets else "misses"
            lines += words.paragraph(
                "Verified", f"{_counted(count.replicas, 'replica')}, {count.seeds} other seeds: {verdict}: {shares}."
            )
    return ["", *lines]


def excluded_lines(plan: Plan) -> list[str]:
    """Rows without a count, each with its reason."""
    lines: list[str] = []
    for row in plan.rows:
        if row.count is None:
            name = f"{row.choice.tensor_parallel} x {row.choice.gpu}, {row.choice.precision}, {_MODE[row.mode]}"
            lines += words.paragraph("  ", f"{name}: {row.status}: {row.reason}")
    return ["Not possible", *lines] if lines else []
