import io
import re
from base64 import b64decode

import pytest
from fontTools.ttLib import TTFont

from scenarios.build import build_service
from scenarios.check.checking import check
from scenarios.check.reading import CheckOptions, read_setup
from scenarios.cli.main import run
from scenarios.figures import FIGURES
from scenarios.figures.assumptions import assumptions_from
from scenarios.figures.writing import Request, write_page
from scenarios.files import read_scenario_table, scenario_from_dict, write_text_at_once
from scenarios.questions.decide import decide_service
from scenarios.report.html_decision import decision_page, scenario_toml
from tests.scenarios.figures.chromium import chromium, opened
from tests.scenarios.figures.pages import Page, downloads, faults

HOSTILE = "<script>alert(1)</script>"
MAX_PAGE_BYTES = 6_000_000
needs_chromium = pytest.mark.skipif(chromium() is None, reason="no Chromium: set $CHROMIUM or install one")


def request_for(*names, language="zh", settings=()):
    return Request(names, language=language, assumptions=assumptions_from(settings), settings=settings, seed=0)


@pytest.fixture(scope="module")
def figures_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    [name] = write_page(request_for("speedup_vs_alpha", "moe_coverage", settings=("alpha=0.8",)), folder)
    return folder / name


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A small decision about a mixture of experts whose names try to break out of the page."""
    table = read_scenario_table("qwen3_30b_a3b_h100")
    table |= {"name": HOSTILE, "description": '"><img src=x onerror=alert(2)>', "run": {"seeds": 1}}
    table |= {"loads": {"rates_per_s": [4.0, 32.0]}, "workload": {**table["workload"], "requests": 120}}
    service = build_service(scenario_from_dict(table))
    decision = decide_service(service)
    html = decision_page(service, decision, checked=check(read_setup(table, CheckOptions())))
    file = tmp_path_factory.mktemp("report") / "report.html"
    write_text_at_once(file, html)
    return file, decision


def test_the_page_of_figures_needs_nothing_but_itself(figures_page):
    html = figures_page.read_text(encoding="utf-8")
    assert faults(html) == []
    page = Page(html)
    assert page.tags.count("img") == 2
    assert "specdec figures moe_coverage --lang zh --set alpha=0.8" in page.text
    [first, second] = downloads(html)
    assert first.startswith("basis,draft_cost_ratio")
    assert "covered_fraction" in second


def test_a_chinese_page_brings_its_characters_along(figures_page):
    html = figures_page.read_text(encoding="utf-8")
    found = re.search(r"url\(data:font/sfnt;base64,([^)]*)\)", html)
    assert found is not None
    font = TTFont(io.BytesIO(b64decode(found[1])))
    written = {ord(char) for char in Page(html).text if "\u4e00" <= char <= "\u9fff"}
    assert len(written) > 100
    assert written <= set(font.getBestCmap())


def test_a_page_is_the_same_text_every_time(tmp_path):
    texts = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        [name] = write_page(request_for("speedup_vs_alpha"), folder)
        texts.append((folder / name).read_text(encoding="utf-8"))
    assert texts[0] == texts[1]


def test_the_report_needs_nothing_but_itself_and_runs_nothing(report):
    file, _ = report
    html = file.read_text(encoding="utf-8")
    assert faults(html) == []
    assert HOSTILE not in html
    page = Page(html)
    assert HOSTILE in page.text
    assert '"><img src=x onerror=alert(2)>' in page.text
    assert page.tags.count("img") == 4


def test_the_report_says_what_a_planner_forwards(report):
    file, decision = report
    text = Page(file.read_text(encoding="utf-8")).text
    assert "num_speculative_tokens_per_batch_size" in text
    for wanted in ("Round cost R", "Memory of one GPU", "Check of the configuration", "calibrated", "assumed"):
        assert wanted in text
    for load in decision.loads:
        assert f"{load.round.ratio:.2f}" in text
    assert decision.published.text in text


def test_the_scenario_in_the_report_is_the_one_that_was_decided(report):
    import tomllib

    file, decision = report
    [offered] = downloads(file.read_text(encoding="utf-8"))
    assert scenario_from_dict(tomllib.loads(offered)) == decision.scenario


@pytest.mark.parametrize("preset", ["llama8b_h100_chat", "llama70b_h100_azure"])
def test_a_scenario_survives_being_written_and_read(preset):
    import tomllib

    scenario = scenario_from_dict(read_scenario_table(preset))
    assert scenario_from_dict(tomllib.loads(scenario_toml(scenario))) == scenario


@needs_chromium
def test_chromium_opens_both_pages_without_a_complaint(figures_page, report):
    for file, images in ((figures_page, 2), (report[0], 4)):
        found = opened(file)
        assert found["console"] == []
        assert found["asked"] == []
        assert (found["scripts"], found["broken"], found["dead"]) == (0, 0, [])
        assert found["images"] == images
        assert found["overflow"] <= 0
    assert found["heading"] == HOSTILE


@pytest.mark.slow
@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_of_all_figures_is_small_and_opens(language, tmp_path):
    [name] = write_page(request_for(*FIGURES, language=language), tmp_path)
    page = tmp_path / name
    assert page.stat().st_size < MAX_PAGE_BYTES
    assert faults(page.read_text(encoding="utf-8")) == []
    if chromium() is not None:
        found = opened(page)
        assert (found["console"], found["asked"], found["broken"], found["dead"]) == ([], [], 0, [])
        assert found["images"] == len(FIGURES)


BROKEN = """<!DOCTYPE html><html><head><style>@import "x.css"; body { background: url(x.png) }</style></head>
<body><h1 id="a">x</h1><h2 id="a">y</h2><a href="#nowhere">z</a><img src="http://nowhere.invalid/b.png" onerror="1">
<script>throw 1</script>
</body></html>"""


def test_faults_of_a_page_are_found():
    assert len(faults(BROKEN)) == 7


@needs_chromium
def test_chromium_complains_about_a_broken_page(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text(BROKEN, encoding="utf-8")
    found = opened(page)
    assert found["console"]
    assert "http://nowhere.invalid/b.png" in found["asked"]
    assert (found["scripts"], found["broken"], found["dead"]) == (1, 1, ["#nowhere"])


def _decide(*arguments):
    small = ["--requests", "60", "--seeds", "1", "--loads", "4,8", "--workers", "1"]
    return run(["decide", "llama8b_h100_chat", *small, *arguments])


def test_decide_writes_the_report_for_everyone_to_read(tmp_path, capsys):
    file = tmp_path / "new" / "report.html"
    assert _decide("--report", str(file)) == 0
    assert file.stat().st_mode & 0o444 == 0o444
    assert faults(file.read_text(encoding="utf-8")) == []
    assert str(file) in capsys.readouterr().out


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_simulated(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert _decide("--report", str(blocked / "report.html")) == 2
    assert "--report" in capsys.readouterr().err
