"""The rows of the chapter: complete, labelled, as the page says, and flipping with their numbers."""

import math
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from roofline.errors import UnknownName
from scenarios.chapter.judging import judge
from scenarios.chapter.l10_waterfall import waterfall
from scenarios.chapter.l16_goodput import goodput
from scenarios.chapter.rows import ROWS, chapter_rows, row_names
from scenarios.cli.main import run
from scenarios.report.chapter_text import chapter_page, row_section
from tests.scenarios.chapter.rows import CHEAP, inside, outside, row

PAGE = Path(__file__).parents[3] / "docs" / "chapter.md"
EXPENSIVE = tuple(name for name in ROWS if name not in CHEAP)
ALL = (*CHEAP, *(pytest.param(name, marks=pytest.mark.slow) for name in EXPENSIVE))


def claim_of(made, words):
    return next(claim for claim in made.claims if words in claim.says)


@pytest.mark.parametrize("name", ALL)
def test_every_claim_has_numbers_with_a_label_and_what_is_published_a_source(name):
    made = row(name)
    assert made.id == name
    assert made.says
    for claim in made.claims:
        assert claim.missing or claim.judged
        assert all(quantity.source for quantity in claim.published)
        assert all(quantity.label == "measured" for quantity in claim.published)
        assert not any(math.isinf(quantity.value) for quantity in claim.judged)


@pytest.mark.parametrize("name", ALL)
def test_every_verdict_flips_when_the_numbers_cross_the_range(name):
    for claim in row(name).claims:
        if not claim.missing:
            assert judge(inside(claim)) == "holds"
            assert judge(outside(claim)) == "does not hold"


@pytest.mark.parametrize("name", ALL)
def test_the_verdict_of_the_row_flips_with_its_claims(name):
    made = row(name)
    known = [claim for claim in made.claims if not claim.missing]
    assert replace(made, claims=tuple(inside(claim) for claim in known)).verdict == "holds"
    assert replace(made, claims=tuple(outside(claim) for claim in known)).verdict == "does not hold"


@pytest.mark.parametrize("name", ALL)
def test_the_page_says_what_the_row_computes(name):
    assert row_section(row(name)) in PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_row_in_order():
    headings = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert [heading.split()[1] for heading in headings] == list(ROWS)


def test_the_waterfall_flips_with_the_acceptance():
    hard = waterfall(0, alpha=0.2)
    assert judge(claim_of(row("L10"), "both together")) == "in part"
    assert judge(claim_of(hard, "both together")) == "does not hold"


def test_the_waterfall_explains_the_gap_term_by_term():
    made = row("L10")
    four, lost, orders = made.tables
    assert all(float(line[9]) < float(line[8]) for line in four.rows), "the product is not reached"
    steps = [float(line[1]) for line in lost.rows]
    assert steps == sorted(steps, reverse=True)
    for line in orders.rows:
        assert sum(float(cell) for cell in line[2:6]) == pytest.approx(float(line[6]), rel=0.02)


@pytest.mark.slow
def test_goodput_flips_where_the_objective_is_loose():
    loose = goodput(0, slo=("tpot_p95=10s",))
    assert judge(claim_of(row("L16"), "goodput shows it")) == "holds"
    assert judge(claim_of(loose, "goodput shows it")) == "does not hold"


@pytest.mark.slow
def test_every_dont_flips_between_its_two_scenarios():
    flips = [claim for claim in row("L12").claims if "silent just before" in claim.says]
    assert len(flips) == 7
    assert [judge(claim) for claim in flips] == ["holds"] * 7


@pytest.mark.slow
def test_loads_of_a_dense_model_and_of_a_mixture_are_swept():
    models = {line[0] for line in row("L3").tables[0].rows}
    assert models == {"8B dense", "30B-A3B mixture"}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ROWS))
def test_the_command_of_a_row_answers(name, capsys):
    words = shlex.split(row(name).command)
    assert words[0] == "specdec"
    assert run(words[1:]) in (0, 3, 4)
    assert capsys.readouterr().out


def test_rows_are_asked_for_by_number_in_any_order():
    assert row_names(()) == tuple(ROWS)
    assert row_names(("l10", "2")) == ("L2", "L10")


def test_an_unknown_row_is_refused_with_those_there_are():
    with pytest.raises(UnknownName, match="L1, L2"):
        row_names(("L17",))


def test_progress_is_told_after_every_row():
    told: list[tuple[int, int]] = []
    rows = chapter_rows(("L10", "L6"), progress=lambda done, total: told.append((done, total)))
    assert [each.id for each in rows] == ["L6", "L10"]
    assert told == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.slow
def test_workers_and_a_second_run_change_nothing():
    names = ("L6", "L9", "L10")
    assert chapter_page(chapter_rows(names, workers=2)) == chapter_page(chapter_rows(names))
