"""`docs/validation.md`: what was predicted beside what was measured, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scenarios.validate.errors import CLASSES, Family, computed
from scenarios.validate.explain import TERMS
from scenarios.validate.report_tables import (
    case_ablation_lines,
    case_lines,
    curve_lines,
    percent,
    quantization_lines,
    shape_lines,
)
from scenarios.validate.run import Validation
from scenarios.validate.texts import HEAD, KNOWN_FAULTS, READ

_FAMILY_HEAD = (
    "| rows of | rows | sources | median | p90 | bias | median of sources | slower caught | faster caught |",
    "|---|---|---|---|---|---|---|---|---|",
)
MOST_REASONS = 40


def report_text(validation: Validation) -> str:
    """The page. Every figure on it is computed; same rows, same page."""
    parts = [HEAD, *_overview(validation), READ, *_families(validation), *_ablation_part(validation)]
    parts += [*_sweeps(validation), *_intervals(validation), *_worst(validation)]
    parts += [*case_lines(validation.cases), *case_ablation_lines(validation.case_ablations)]
    parts += [*curve_lines(validation.curves), *shape_lines(validation.shapes)]
    parts += [*quantization_lines(validation.quantization), KNOWN_FAULTS, *_not_computed(validation)]
    return "\n".join(parts) + "\n"


def _overview(validation: Validation) -> Iterator[str]:
    rows, done = len(validation.predictions), computed(validation.predictions)
    sources = len({one.row.source_id for one in done})
    yield f"Of {rows} rows, {len(done)} from {sources} sources are computed; the others are listed with their reasons."
    yield ""
    yield (
        "| full rows of | rows | sources | median of sources | median | p90 | constant S/AL, fitted to these rows | "
        "constant S/AL of other sources | always on is right |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for name, base in validation.baselines.items():
        one = next(family for family in validation.families if family.name == name)
        known, other = base.constant_in_sample, base.constant_other_sources
        yield (
            f"| {name} | {one.rows} | {one.sources} | {percent(one.source_median)} | {percent(one.median_abs_error)} | "
            f"{percent(one.p90_abs_error)} | {percent(known.median_abs_error)}, p90 {percent(known.p90_abs_error)} | "
            f"{percent(other.median_abs_error)}, p90 {percent(other.p90_abs_error)} | {percent(base.always_on)} |"
        )
    yield ""


def _families(validation: Validation) -> Iterator[str]:
    yield "## Families"
    yield ""
    yield from _FAMILY_HEAD
    for one in validation.families:
        yield _family_line(one)
    yield ""


def _family_line(one: Family) -> str:
    slower = f"{percent(one.slower_caught)} of {one.slower_rows}" if one.slower_rows else "-"
    faster = f"{percent(one.faster_caught)} of {one.faster_rows}" if one.faster_rows else "-"
    return (
        f"| {one.name} | {one.rows} | {one.sources} | {percent(one.median_abs_error)} | {percent(one.p90_abs_error)} | "
        f"{percent(one.bias, signed=True)} | {percent(one.source_median)} | {slower} | {faster} |"
    )


def _ablation_part(validation: Validation) -> Iterator[str]:
    yield "## What each term is worth"
    yield ""
    yield "The same full rows with a term of the model taken out:"
    yield ""
    yield "| rows of | model | median of sources | median | p90 | bias |"
    yield "|---|---|---|---|---|---|"
    for name, changed in validation.ablations.items():
        for one in changed:
            yield (
                f"| {name} | {one.name} | {percent(one.source_median)} | {percent(one.median_abs_error)} | "
                f"{percent(one.p90_abs_error)} | {percent(one.bias, signed=True)} |"
            )
    yield ""


def _sweeps(validation: Validation) -> Iterator[str]:
    if not validation.sweeps:
        return
    count = Counter(one.verdict for one in validation.sweeps)
    crossing = count["hit"] + count["miss"]
    never = count["right never"] + count["false crossing"]
    yield "## Load sweeps"
    yield ""
    yield (
        f"{len(validation.sweeps)} configurations were measured at three loads or more; "
        f"{count['not computed']} are not computed. Of {crossing} that cross S = 1, {count['hit']} are predicted "
        f"within one measured step of load. Of {never} that never cross, {count['false crossing']} are predicted to."
    )
    yield "The base rate, never crossing, misses every one of the first and no one of the second."
    yield ""
    yield "| sweep | loads | measured S | predicted S | verdict |"
    yield "|---|---|---|---|---|"
    for one in validation.sweeps:
        loads = " ".join(f"{load:g}" for load in one.loads)
        measured, predicted = (" ".join(f"{value:.2f}" for value in values) for values in (one.measured, one.predicted))
        verdict = one.verdict if one.verdict != "not computed" else f"not computed: {one.reason}"
        yield f"| {one.source} {one.name} | {loads} | {measured} | {predicted} | {verdict} |"
    yield ""


def _intervals(validation: Validation) -> Iterator[str]:
    partial = [one for one in validation.families if one.name.startswith("partial rows")]
    if not partial:
        return
    yield "## Rows that leave something open"
    yield ""
    yield (
        "Open fields are drawn from declared priors (`scenarios/validate/priors.toml`, published acceptance of the "
        "method and task); the 80 % interval also holds what the model was off on full rows of other sources."
    )
    yield ""
    yield "| rows of | rows | median | measured inside the interval | median width (high / low) |"
    yield "|---|---|---|---|---|"
    for one in partial:
        yield (
            f"| {one.name} | {one.rows} | {percent(one.median_abs_error)} | {percent(one.coverage)} | {one.width:.2f} |"
        )
    yield ""


def _worst(validation: Validation) -> Iterator[str]:
    if not validation.worst:
        return
    yield "## The worst rows"
    yield ""
    yield (
        "The term is the one that needs the smallest change for the row to be right, an acceptance length that was "
        "published counting four times; the factor is that change."
    )
    yield ""
    yield "| row | engine, GPU, model | method | load | measured | predicted | term | factor |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in validation.worst:
        one = each.prediction
        yield (
            f"| {one.row.source_id} {one.row.id} | {one.engine}, {one.gpu}, {one.model} | {one.tags['method']} "
            f"{one.row.k} | {one.row.load_value:g} | {one.row.speedup:.2f} | {one.speedup:.2f} | {each.term} | "
            f"{each.factors[each.term]:.2f} |"
        )
    yield ""
    terms = Counter(each.term for each in validation.worst)
    yield "By term: " + ", ".join(f"{name} {terms[name]}" for name in TERMS if terms[name]) + "."
    yield ""


def _not_computed(validation: Validation) -> Iterator[str]:
    yield "## Not computed"
    yield ""
    reasons = Counter(one.reason for one in validation.predictions if one.status != "computed")
    yield "| rows | reason |"
    yield "|---|---|"
    for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:MOST_REASONS]:
        yield f"| {count} | {reason.replace('|', '/')} |"
    left = sorted(reasons.values(), reverse=True)[MOST_REASONS:]
    if left:
        yield f"| {sum(left)} | {len(left)} other reasons, in validation.csv |"
    yield ""
    yield from _problem_lines(validation)


def _problem_lines(validation: Validation) -> Iterator[str]:
    if validation.problems:
        yield f"{len(validation.problems)} cells or columns could not be used, the first of them:"
        yield ""
        yield from (f"- {problem}" for problem in validation.problems[:10])


def class_lines(families: Sequence[Family]) -> Iterator[str]:
    """One line an engine class, for the terminal."""
    for one in families:
        if one.name in CLASSES or one.name == "partial rows":
            yield (
                f"{one.name}: {one.rows} rows of {one.sources} sources, median |error| {percent(one.median_abs_error)} "
                f"(of sources {percent(one.source_median)}), p90 {percent(one.p90_abs_error)}, "
                f"bias {percent(one.bias, signed=True)}"
            )
