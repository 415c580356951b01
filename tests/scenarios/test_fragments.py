"""Fragments of measured acceptance: what one command writes another takes, for the proposers it holds for."""

import json
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from roofline.errors import InvalidInput
from scenarios.cli.main import run as specdec
from scenarios.fragments import acceptance_fragment, put_fragment
from simulator.matchers import RoundCounts

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


def test_a_matchers_fragment_brings_its_share_of_rounds_and_a_bare_scenario_takes_its_method(tmp_path):
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


def test_a_command_takes_a_fragment_and_no_second_acceptance(capsys, tmp_path):
    words = ["simulate", "llama8b_h100_chat", "-k", "2", "--acceptance", str(fragment(tmp_path, "eagle")), "--at", "1x"]
    code = specdec([*words, "--requests", "200", "--json"])
    printed = capsys.readouterr().out
    assert code == 0
    assert json.loads(printed)
    assert specdec([*words, "--alpha", "0.5"]) == 2
    assert "acceptance is given twice, by --alpha and --acceptance" in capsys.readouterr().err
