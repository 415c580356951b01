import inspect
import re
import string
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from roofline.errors import InvalidInput, UnknownName
from scenarios.figures import FIGURES, course, drawing, show, speedup_vs_alpha, speedup_vs_k, tokens_per_round
from scenarios.figures.assumptions import Assumptions, assumptions_from
from scenarios.figures.course import checked_names, compute, drawn
from scenarios.figures.drawing import course_style, wrapped
from scenarios.figures.fonts import chinese_family
from scenarios.figures.words import BASES, LANGUAGES, all_texts
from tests.scenarios.figures.golden import differences
from tests.scenarios.figures.text_boxes import problems
from tests.source_tree import ROOT

DEFAULTS = Assumptions()


def test_a_font_with_chinese_characters_is_installed():
    assert chinese_family() is not None, 'install one: pip install "specdec-sim[chinese]", or fonts-noto-cjk'


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_its_golden_data_and_draws_in_both_languages_without_overlap(name):
    """Warnings are errors here, so that a character no font has fails as well."""
    data = compute(name, DEFAULTS, seed=0)
    assert differences(name, data)[:3] == []
    assert {*data.columns["basis"]} <= {*BASES}
    for language in LANGUAGES:
        figure = drawn(name, data, language=language, assumptions=DEFAULTS)
        assert figure.words.language == language
        assert figure.figure.bbox.width == 1600
        with course_style(language):
            assert problems(figure.figure) == []
        assert all(len(figure.text(key)) > 20 for key in ("see", "try"))
        assert "{" not in figure.text("see") + figure.text("title")


def test_expected_tokens_at_alpha_0_7_are_the_textbook_ones():
    data = compute("tokens_per_round", DEFAULTS, seed=0).where(basis="closed form", alpha=0.7)
    found = [round(float(data.where(draft_tokens=k).values("acceptance_length")[0]), 2) for k in (1, 2, 3, 5, 7)]
    assert found == [1.70, 2.19, 2.53, 2.94, 3.14]


def test_simulated_rounds_yield_what_the_closed_form_says():
    data = compute("tokens_per_round", DEFAULTS, seed=0)
    simulated = data.where(basis="simulated")
    for row in simulated.rows():
        formula = data.where(basis="closed form", draft_tokens=row["draft_tokens"], alpha=row["alpha"])
        assert row["acceptance_length"] == pytest.approx(formula.values("acceptance_length")[0], rel=0.02)


def test_break_even_at_a_draft_cost_of_a_tenth_is_the_textbook_one():
    data = compute("speedup_vs_alpha", DEFAULTS, seed=0).where(point="break-even", draft_cost_ratio=0.1)
    assert data.columns["draft_tokens"] == (1, 3, 5, 7)
    assert [round(float(alpha), 2) for alpha in data.values("alpha")] == [0.10, 0.23, 0.33, 0.41]


def test_the_best_k_at_alpha_0_7_and_a_draft_cost_of_a_tenth_is_4_with_1_98():
    data = compute("speedup_vs_k", DEFAULTS, seed=0).where(curve="alpha", value=0.7, best=1)
    assert data.one("draft_tokens") == 4
    assert round(float(data.values("speedup")[0]), 2) == 1.98


def test_eight_of_128_experts_cover_6_23_64_and_98_percent_at_1_4_16_and_64_tokens():
    data = compute("moe_coverage", DEFAULTS, seed=0).where(panel="coverage", curve="even")
    assert (data.one("experts"), data.one("experts_per_token")) == (128, 8)
    found = [round(100 * float(data.where(tokens=count).values("covered_fraction")[0])) for count in (1, 4, 16, 64)]
    assert found == [6, 23, 64, 98]


def test_overlapping_and_clipped_texts_and_missing_characters_are_found():
    with course_style("en"):
        figure = drawing.canvas()
        figure.text(0.5, 0.5, "one text")
        figure.text(0.51, 0.5, "another")
        figure.text(0.98, 0.1, "far too long for this place")
        found = problems(figure)
        assert sorted(line.split(":")[0] for line in found) == ["clipped", "overlap"]
        figure.text(0.1, 0.9, "\U000f0000")
        with pytest.warns(UserWarning, match="missing from font"):
            problems(figure)


@pytest.mark.parametrize("palette", [drawing.COLOURS, drawing.SHADES])
def test_colours_differ_in_grey(palette):
    grey = [np.dot(to_rgb(color), (0.2126, 0.7152, 0.0722)) for color in palette]
    lightness = np.sort([116 * _cube_root(value) - 16 for value in grey])
    assert np.diff(lightness).min() >= 10


def _cube_root(value: float) -> float:
    linear = value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
    return linear ** (1 / 3)


def _places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_say_the_same_things_with_the_same_places():
    english, chinese = (all_texts(language) for language in LANGUAGES)
    assert {name: set(table) for name, table in english.items()} == {name: set(t) for name, t in chinese.items()}
    for name, table in english.items():
        for key, text in table.items():
            assert _places(text) == _places(chinese[name][key]), f"{name}.{key}"


def test_every_figure_has_title_and_paragraphs():
    for language in LANGUAGES:
        for name in FIGURES:
            assert {"title", "see", "try"} <= set(all_texts(language)[name])


def test_the_chinese_texts_are_chinese():
    for name, table in all_texts("zh").items():
        for key in ("title", "see", "try"):
            if key in table:
                assert re.search(r"[\u4e00-\u9fff]", table[key]), f"{name}.{key}"


def test_drawing_computes_nothing():
    """A drawing function gets its table and its words; it is given no assumptions and no seed."""
    for name in FIGURES:
        module = course._module(name)
        assert list(inspect.signature(module.draw).parameters) == ["figure", "data", "words"]
        assert list(inspect.signature(module.compute).parameters) == ["assumptions", "seed"]


def test_a_figure_is_the_same_bytes_every_time():
    one, other = (show(speedup_vs_alpha) for _ in range(2))
    assert one.image("svg") == other.image("svg")
    assert one.data == other.data


def test_a_setting_changes_the_figure():
    found = show(speedup_vs_k, draft_cost_ratio=0.02).data.where(curve="alpha", value=0.7, best=1)
    assert found.one("draft_tokens") > 4


def test_measured_points_of_one_machine_are_not_drawn_for_another():
    data = compute("speedup_vs_k", assumptions_from(["gpu=A100-SXM-80GB"]), seed=0)
    assert "measured" not in data.columns["basis"]
    assert drawn("speedup_vs_k", data, language="en", assumptions=assumptions_from(["gpu=A100-SXM-80GB"])).figure


def test_another_model_takes_its_own_head():
    assert assumptions_from(["model=Qwen/Qwen3-8B"]).head == "SpecForge/EAGLE3-qwen3-8b"
    with pytest.raises(InvalidInput, match="--set draft=NAME"):
        _ = assumptions_from(["model=Qwen/Qwen3-14B"]).head


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("alpha", "NAME=VALUE"),
        ("alpah=0.5", "nearest: alpha"),
        ("alpha=1.2", "less than 1"),
        ("draft_tokens=99", "less than or equal to 8"),
        ("draft_tokens=two", "valid integer"),
    ],
)
def test_a_wrong_setting_is_one_sentence(setting, said):
    with pytest.raises(InvalidInput, match=said):
        assumptions_from([setting])


def test_a_setting_given_twice_is_refused():
    with pytest.raises(InvalidInput, match="twice"):
        assumptions_from(["alpha=0.5", "alpha=0.6"])


def test_an_unknown_figure_names_the_nearest():
    with pytest.raises(UnknownName, match="speedup_vs_load"):
        checked_names(["speedup_vs_loads"])


def test_chinese_is_wrapped_between_characters_and_not_before_a_mark():
    lines = wrapped("一二三四五六，七八九十", 12)
    assert lines == ["一二三四五", "六，七八九十"]
    assert wrapped("four words stand here", 11) == ["four words", "stand here"]


def test_a_notebook_shows_a_figure_as_a_picture():
    assert show(tokens_per_round, language="zh")._repr_png_().startswith(b"\x89PNG")


def test_listing_the_figures_imports_no_matplotlib():
    code = "import sys, scenarios.figures as f; assert len(f.FIGURES) == 15; assert 'matplotlib' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
