"""Fragments of measured acceptance: what one command writes another takes, for the proposers it holds for."""

import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from roofline.errors import InvalidInput
from scenarios.cli.main import run as specdec
from scenarios.cli.options import scenario_table
from scenarios.files import scenario_from_dict
from scenarios.fragments import acceptance_fragment, put_fragment
from simulator.matchers import RoundCounts

EAGLE3 = (
    "vllm serve m/target "
    """--speculative-config '{"method": "eagle3", "model": "a/head", "num_speculative_tokens": 2}'"""
)
NGRAM = """vllm serve m/target --speculative-config '{"method": "ngram", "num_speculative_tokens": 2}'"""
COUNTS = RoundCounts(np.array([[20, 0, 0], [10, 10, 0], [10, 20, 30]]), without_bonus=0)
"""Rounds by drafted (0 to 2) and accepted."""


def fragment(folder: Path, method: str) -> Path:
    path = folder / f"{method}.toml"
    path.write_text(tomli_w.dumps(acceptance_fragment(method, COUNTS, measured_on="a test")))
    return path


def test_shares_are_of_rounds_that_propose_and_of_places_with_a_draft_for_suffix_decoding():
    head = acceptance_fragment("eagle", COUNTS, measured_on="a test")
    assert head["acceptance"] == {"per_position": [0.75, 0.375], "measured_on": "a test"}
    assert head["speculation"] == {"method": "eagle", "draft_tokens": 2}
    ngram = acceptance_fragment("ngram", COUNTS, measured_on="a test")
    assert ngram["speculation"]["proposal_fraction"] == pytest.approx(0.8)
    suffix = acceptance_fragment("suffix", COUNTS, measured_on="a test")
    assert suffix["speculation"]["proposal_fractions"] == pytest.approx([0.8, 0.6])
    assert suffix["acceptance"]["per_position"] == pytest.approx([0.75, 0.5])


def test_a_fragment_replaces_the_acceptance_and_leaves_the_proposer(tmp_path):
    own = {"method": "eagle3", "draft": "a/head", "draft_tokens": 2}
    table = {"speculation": dict(own), "acceptance": {"alpha": 0.6}}
    put_fragment(table, str(fragment(tmp_path, "eagle")))
    assert table["speculation"] == own
    assert table["acceptance"]["per_position"] == [0.75, 0.375]


def test_a_matchers_fragment_brings_its_proposal_fraction_and_a_bare_scenario_takes_its_method(tmp_path):
    table = {"speculation": {"method": "ngram", "draft_tokens": 2, "proposal_fraction": 0.1}}
    put_fragment(table, str(fragment(tmp_path, "ngram")))
    assert table["speculation"]["proposal_fraction"] == pytest.approx(0.8)
    bare: dict = {"speculation": {"draft_tokens": 1}}
    put_fragment(bare, str(fragment(tmp_path, "ngram")))
    assert bare["speculation"] == {"method": "ngram", "draft_tokens": 1, "proposal_fraction": pytest.approx(0.8)}


def test_what_is_no_fragment_of_this_proposer_is_refused(tmp_path):
    table = {"speculation": {"method": "eagle3"}}
    with pytest.raises(InvalidInput, match="was measured with ngram, which says nothing of eagle3"):
        put_fragment(table, str(fragment(tmp_path, "ngram")))
    with pytest.raises(InvalidInput, match="is not a file"):
        put_fragment(table, str(tmp_path / "missing.toml"))
    other = tmp_path / "other.toml"
    other.write_text("[workload]\nkind = 'poisson'\n")
    with pytest.raises(InvalidInput, match=r"has no tables \[speculation\] and \[acceptance\]"):
        put_fragment(table, str(other))


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ("[speculation]\nmethod = 'eagle'\n[acceptance]\nalpha = 0.6\n", "has no acceptance.measured_on"),
        ("[speculation]\n[acceptance]\nalpha = 0.6\nmeasured_on = 'x'\n", "must be what drafted .*, got nothing"),
        ("[speculation]\nmethod = 'none'\n[acceptance]\nalpha = 0.6\nmeasured_on = 'x'\n", "what drafted .*, got none"),
    ],
)
def test_a_fragment_says_what_drafted_and_what_it_was_measured_on(tmp_path, tables, problem):
    file = tmp_path / "other.toml"
    file.write_text(tables)
    with pytest.raises(InvalidInput, match=problem):
        put_fragment({"speculation": {"method": "eagle3"}}, str(file))


def test_a_scenario_that_drafts_nothing_is_told_how_to_draft(tmp_path):
    with pytest.raises(InvalidInput, match=r"speculation\.method is 'none'; give --method ngram, or leave"):
        put_fragment({"speculation": {"method": "none"}}, str(fragment(tmp_path, "ngram")))


def over_serve_line(line, file, **options):
    given = {"gpu": "H100-SXM", "rate": "4", "input_tokens": "200", "output_tokens": "100"}
    table, origin = scenario_table(None, {**given, "serve": line, "acceptance": str(file), **options})
    return scenario_from_dict(table, origin=origin)


def test_a_serve_line_keeps_its_proposer_and_takes_acceptance_and_proposal_fraction(tmp_path):
    served = over_serve_line(EAGLE3, fragment(tmp_path, "eagle"))
    assert (served.speculation.method, served.speculation.draft) == ("eagle3", "a/head")
    assert served.acceptance.per_position == (0.75, 0.375)
    served = over_serve_line(NGRAM, fragment(tmp_path, "ngram"), draft_tokens="2")
    assert (served.speculation.method, served.speculation.proposal_fraction) == ("ngram", pytest.approx(0.8))


def test_a_serve_line_that_leaves_drafts_open_takes_those_of_the_fragment(tmp_path):
    speculation = over_serve_line("vllm serve m/target", fragment(tmp_path, "ngram")).speculation
    assert (speculation.method, speculation.draft_tokens) == ("ngram", 2)


def test_a_fragment_of_another_kind_than_the_serve_line_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="says nothing of eagle3; give a fragment of eagle3, or serve with ngram"):
        over_serve_line(EAGLE3, fragment(tmp_path, "ngram"))
    with pytest.raises(InvalidInput, match="was measured with eagle, which says nothing of ngram"):
        over_serve_line(NGRAM, fragment(tmp_path, "eagle"))


def test_check_holds_a_fragment_against_the_serve_line_or_file_it_checks(capsys, tmp_path):
    script = tmp_path / "serve.sh"
    script.write_text(EAGLE3)
    for served in (("--serve", EAGLE3), ("--file", str(script))):
        assert specdec(["check", *served, "--acceptance", str(fragment(tmp_path, "ngram"))]) == 2
        assert "was measured with ngram, which says nothing of eagle3" in capsys.readouterr().err
        assert specdec(["check", *served, "--acceptance", str(fragment(tmp_path, "eagle"))]) in (0, 3)
        assert "eagle3" in capsys.readouterr().out
    unknown = EAGLE3.replace("eagle3", "nobody_knows")
    assert specdec(["check", "--serve", unknown, "--acceptance", str(fragment(tmp_path, "ngram"))]) in (0, 3)


def test_a_command_answers_for_a_fragment_as_for_its_numbers_and_calls_them_measured(capsys, tmp_path):
    words = ["simulate", "llama8b_h100_chat", "-k", "2", "--at", "1x", "--requests", "200", "--json"]

    def answer(*acceptance):
        assert specdec([*words, *acceptance]) == 0
        return json.loads(capsys.readouterr().out)

    measured = answer("--acceptance", str(fragment(tmp_path, "eagle")))
    given = answer("--per-position", "0.75,0.375")
    assert measured["scenario"].pop("acceptance") == given["scenario"].pop("acceptance") | {"measured_on": "a test"}
    (said,) = [each for each in measured.pop("assumptions") if each not in given["assumptions"]]
    assert said["label"] == "measured"
    assert "0.75, 0.375 by position, measured on a test" in said["text"]
    del given["assumptions"]
    assert measured == given


def test_nothing_is_given_beside_a_fragment_that_it_measures(capsys, tmp_path):
    words = ["simulate", "llama8b_h100_chat", "--acceptance", str(fragment(tmp_path, "ngram"))]
    assert specdec([*words, "--alpha", "0.5"]) == 2
    assert "acceptance is given twice, by --alpha and --acceptance" in capsys.readouterr().err
    for option, value in (("--proposal-fraction", "0.5"), ("--proposal-fractions", "0.5,0.4")):
        assert specdec([*words, "--method", "ngram", option, value]) == 2
        assert f"proposals are given twice, by {option} and --acceptance; keep one" in capsys.readouterr().err
