import json

import numpy as np
import pytest

from roofline.errors import InvalidInput
from scenarios.acceptance import acceptance_cases
from scenarios.cli.main import run
from scenarios.files import TRACE_FOLDER, load_scenario, read_scenario_table, scenario_from_dict
from scenarios.imports.token_logs import TokenLog
from scenarios.proposing import proposer_of
from scenarios.questions.replay import measured_by_position, replay_log
from simulator.matchers import NgramMatcher, SuffixMatcher
from simulator.plan import expected_length

STREAMS = ("python_code", "json_records", "prose", "agent_log")
REPLAY = ("acceptance", "replay", "--log", "agent_log.jsonl")


def replayed(stream, matcher):
    return replay_log(TokenLog(TRACE_FOLDER / "streams" / f"{stream}.jsonl"), matcher)


@pytest.mark.parametrize("draft_tokens", [2, 4, 8])
def test_on_the_agent_log_suffix_decoding_is_at_least_as_good_as_ngram_lookup(draft_tokens):
    suffix = replayed("agent_log", SuffixMatcher(draft_tokens))
    for lookup in ((5, 5), (2, 5), (1, 3)):
        ngram = replayed("agent_log", NgramMatcher(draft_tokens, *lookup)).without_cache.overall
        assert suffix.without_cache.overall.acceptance_length >= ngram.acceptance_length
        assert suffix.best.overall.acceptance_length >= ngram.acceptance_length


@pytest.mark.parametrize("stream", STREAMS)
def test_earlier_responses_help_on_every_shipped_stream(stream):
    report = replayed(stream, SuffixMatcher(4))
    assert report.with_cache is not None
    assert report.with_cache.overall.acceptance_length > report.without_cache.overall.acceptance_length
    assert report.with_cache.overall.emitted_tokens == report.response_tokens - report.requests


def test_prose_is_matched_least_and_the_agent_log_most():
    lengths = [replayed(stream, NgramMatcher(4)).without_cache.overall.acceptance_length for stream in STREAMS]
    assert min(lengths) == lengths[STREAMS.index("prose")]
    assert max(lengths) == lengths[STREAMS.index("agent_log")]


def test_the_report_shows_every_grouping_and_the_options_of_decide(capsys):
    assert run([*REPLAY, "--proposer", "suffix", "-k", "4"]) == 0
    text = capsys.readouterr().out
    for part in ("own prompt and response", "and earlier responses", "by context length", "by tokens already emitted"):
        assert part in text
    for part in ("by turn", "by request class", "measured", "tokens/s", "accepted drafts a round"):
        assert part in text
    assert "specdec decide SCENARIO --method suffix -k 4 --proposal-fractions 0." in text


def test_json_holds_exact_histograms_and_nothing_else(capsys):
    assert run([*REPLAY, "--proposer", "ngram", "-k", "3", "--lookup-min", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    overall = report["without_cache"]["overall"]
    assert report["label"] == "measured"
    assert report["settings"] == {"draft_tokens": 3, "min_tokens": 2, "max_tokens": 2}
    assert report["with_cache"] is None
    assert sum(overall["accepted_histogram"]) == overall["rounds"]
    assert sum(each["rounds"] for each in report["without_cache"]["by_turn"].values()) == overall["rounds"]
    assert overall["acceptance_length"] == pytest.approx(1 + overall["accepted_tokens"] / overall["rounds"])
    assert sum(overall["per_position"]) == pytest.approx(overall["acceptance_length_when_proposing"] - 1)


def test_the_fragment_becomes_a_scenario_that_decide_takes(tmp_path, capsys):
    fragment, scenario = tmp_path / "measured.toml", tmp_path / "mine.toml"
    files = ("--fragment", str(fragment), "--into", "llama8b_h100_chat", "--out", str(scenario))
    assert run([*REPLAY, "--proposer", "suffix", "-k", "3", *files]) == 0
    assert fragment.read_text().startswith("# suffix replayed on agent_log.jsonl (sha256 ")
    loaded = load_scenario(scenario)
    measured = replayed("agent_log", SuffixMatcher(3)).best.overall
    assert loaded.speculation.method == "suffix"
    (case,) = acceptance_cases(loaded, 3)
    assert case.label == "measured"
    assert "measured on agent_log.jsonl (sha256 " in case.text
    for draft_tokens in (1, 3):
        length = expected_length(proposer_of(loaded.speculation), case.models[0], draft_tokens)
        assert length == pytest.approx(
            1 + measured.accepted_histogram[1:] @ np.minimum(np.arange(1, 4), draft_tokens) / measured.rounds, abs=1e-5
        )
    capsys.readouterr()
    quick = ("--rate", "4", "--requests", "60", "--seeds", "1", "--loads", "2,4", "--workers", "1")
    assert run(["decide", str(scenario), *quick]) in (0, 4)
    text = " ".join(capsys.readouterr().out.split())
    assert "K = 3" in text
    assert "measured on agent_log.jsonl" in text


def test_a_published_preset_cannot_pass_for_a_measurement():
    table = read_scenario_table("llama8b_h100_chat")
    table["acceptance"] = {"task": "chat", "measured_on": "my.jsonl"}
    with pytest.raises(InvalidInput, match="measured_on goes with a measured length"):
        scenario_from_dict(table)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("draft_tokens", [1, 4, 8])
def test_fractions_and_shares_multiply_to_what_was_accepted_and_never_rise(stream, draft_tokens):
    counts = replayed(stream, SuffixMatcher(draft_tokens)).best.overall
    fractions, shares = (np.array(each) for each in measured_by_position(counts))
    accepted = counts.per_position * counts.proposal_fraction
    assert np.allclose(fractions * shares, accepted, atol=2e-6)
    assert (np.diff(fractions) <= 0).all()
    assert (np.diff(shares) <= 0).all()
    assert 0.95 * counts.proposed_fractions.sum() <= fractions.sum() <= counts.proposed_fractions.sum() + 1e-5


def test_a_vocabulary_has_a_ceiling_only_with_a_log(tmp_path, capsys):
    target, draft, log = (tmp_path / name for name in ("target.json", "draft.json", "log.jsonl"))
    target.write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 1}}}))
    draft.write_text(json.dumps({"model": {"vocab": {"a": 7}}}))
    log.write_text('{"prompt": [], "response": [0, 0, 0, 1]}\n')
    command = ["acceptance", "vocabulary", "--target", str(target), "--draft", str(draft)]
    assert run(command) == 0
    assert "shared 1 (50.0% of the target's)\nno ceiling on acceptance follows" in capsys.readouterr().out
    assert run([*command, "--log", str(log), "-k", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ceiling_per_position"] == pytest.approx([3 / 4, 2 / 3])


def test_a_bank_is_shown_by_category(tmp_path, capsys):
    bank = tmp_path / "bank.csv"
    bank.write_text("commits,category,a0,a1\n2,code,1,1\n0,chat,0,0\n")
    assert run(["acceptance", "bank", str(bank)]) == 0
    text = capsys.readouterr().out
    assert "2 rounds of K = 2, measured" in text
    assert "1.000, 1.000" in text
    assert text.endswith("specdec decide SCENARIO -k 2 --per-position 0.5,0.5\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--log", "none.jsonl", "--proposer", "suffix"), "cannot be read"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "-k", "0"), "K must be in 1..64"),
        (("--log", "agent_log.jsonl", "--proposer", "ngram", "--max-depth", "9"), "--max-depth means nothing"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--lookup-max", "9"), "--lookup-max means nothing"),
        (("--log", "agent_log.jsonl", "--proposer", "ngram", "--lookup-min", "0"), "n-gram sizes"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--min-token-prob", "2"), "min_token_prob"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--tokenizer", "none.json"), "cannot be read"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--tokenizer", "a", "--bytes"), "keep one"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--into", "llama8b_h100_chat"), "belong together"),
        (("--log", "agent_log.jsonl", "--proposer", "suffix", "--bytes"), "0..255"),
    ],
)
def test_wrong_options_exit_2_with_one_sentence(capsys, arguments, said):
    assert run(["acceptance", "replay", *arguments]) == 2
    text = capsys.readouterr()
    assert text.out == ""
    assert text.err.startswith("error: ")
    assert said in text.err
    assert text.err.count("\n") == 1


def test_a_log_without_a_second_token_or_a_match_says_so(tmp_path, capsys):
    short, new = tmp_path / "short.jsonl", tmp_path / "new.jsonl"
    short.write_text('{"prompt": [1], "response": [2]}\n')
    assert run(["acceptance", "replay", "--log", str(short), "--proposer", "ngram"]) == 2
    assert "no response has more than one token" in capsys.readouterr().err
    new.write_text('{"prompt": [1], "response": [2, 3, 4]}\n')
    assert run(["acceptance", "replay", "--log", str(new), "--proposer", "ngram"]) == 0
    assert "specdec decide" not in capsys.readouterr().out
    assert run(["acceptance", "replay", "--log", str(new), "--proposer", "ngram", "--fragment", str(short)]) == 2
    assert "never found a match" in capsys.readouterr().err
