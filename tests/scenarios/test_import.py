import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InvalidInput
from scenarios.cli.main import run
from scenarios.files import load_scenario, read_scenario_table, scenario_from_dict
from scenarios.imports.measured.combine import combined, read_files
from scenarios.imports.measured.fields import Fields
from scenarios.imports.measured.fragment import fragment
from scenarios.imports.measured.recognise import read_measured
from scenarios.imports.measured.vllm_bench import serve_run
from scenarios.imports.measured.vocabulary import MeasuredRun, accepted_from, unconditional_from_histogram
from tests.source_tree import ROOT

DATA = ROOT / "tests" / "data" / "measured"
HAND = DATA / "from_schema"

# file: (format, requests, mean input, mean output, K, acceptance length, by position)
REAL = {
    "vllm_serve_default.json": ("vllm bench serve", 8, 21.0, 48.0, 3, 2.784, (0.770, 0.619, 0.396)),
    "vllm_serve_detailed.json": ("vllm bench serve", 16, 22.375, 48.0, 3, 2.746, (0.775, 0.571, 0.400)),
    "guidellm.json": ("guidellm json", 8, 51.375, 32.0, None, None, ()),
    "guidellm.csv": ("guidellm csv", 8, 51.375, 32.0, None, None, ()),
    "azure.csv": ("azure trace", 40, None, None, None, None, ()),
    "mooncake.jsonl": ("mooncake trace", 30, None, None, None, None, ()),
    "requests/requests.jsonl": ("request timestamps", 40, None, None, None, None, ()),
}
FROM_SCHEMA = {
    "vllm_latency.json": ("vllm bench latency", 3, None, None, None, None, ()),
    "vllm_throughput.json": ("vllm bench throughput", 400, None, None, None, None, ()),
    "vllm_forward.json": ("vllm bench forward", None, None, None, None, None, ()),
    "sglang_serving.jsonl": ("sglang bench_serving", 240, 512.0, 128.0, 3, 2.5, ()),
    "aiperf.json": ("aiperf summary", 100, 550.0, 255.0, 3, 2.6, (0.75, 0.55, 0.30)),
    "aiperf.jsonl": ("aiperf requests", 3, 541.333, 255.0, 3, 2.25, (0.65, 0.40, 0.20)),
    "vllm_before.prom": ("prometheus dump", 16, 500.0, 48.0, 3, 2.746, (0.775, 0.571, 0.400)),
    "vllm_prefixed.prom": ("prometheus dump", 16, 500.0, 48.0, 3, 2.746, (0.775, 0.571, 0.400)),
    "sglang.prom": ("prometheus dump", 100, 1000.0, 250.0, 3, 2.5, ()),
    "vllm.log": ("vllm log", None, None, None, 3, 2.565, (0.725, 0.515, 0.325)),
    "sglang.log": ("sglang log", None, None, None, 3, 2.4, ()),
    "llamacpp.log": ("llamacpp log", None, None, None, None, None, ()),
    "burstgpt.csv": ("burstgpt trace", 3, 973.0, 150.333, None, None, ()),
    "bailian.jsonl": ("bailian trace", 3, 47.667, 20.0, None, None, ()),
}
ALL = {
    **{DATA / name: told for name, told in REAL.items()},
    **{HAND / name: told for name, told in FROM_SCHEMA.items()},
}


@pytest.mark.parametrize("path", list(ALL), ids=lambda path: path.name)
def test_every_format_is_recognised_and_read_into_one_vocabulary(path):
    form, requests, prompt, output, drafts, length, positions = ALL[path]
    [one] = read_measured(path)
    assert (one.format, one.finished) == (form, requests)
    for told, expected in ((one.input_tokens_mean, prompt), (one.output_tokens_mean, output)):
        if expected is not None:
            assert told == pytest.approx(expected, rel=1e-3)
    if length is None:
        assert one.accepted is None
    else:
        assert one.accepted is not None
        assert one.accepted.draft_tokens == drafts
        assert one.accepted.acceptance_length == pytest.approx(length, abs=2e-3)
        assert one.accepted.per_position == pytest.approx(positions, abs=1e-3)


@pytest.mark.parametrize("path", list(ALL), ids=lambda path: path.name)
def test_every_fragment_completes_to_a_scenario(path, tmp_path):
    whole, _ = read_files([path])
    table, _ = fragment(whole)
    table["target"] = {"model": "meta-llama/Llama-3.1-8B-Instruct"}
    table["hardware"] = {"gpu": "H100-SXM"}
    table["workload"].setdefault("input_tokens", 100) if table["workload"]["kind"] != "trace" else None
    table["workload"].setdefault("output_tokens", 50) if table["workload"]["kind"] != "trace" else None
    scenario = scenario_from_dict(table)
    assert scenario.measured is not None
    assert scenario.measured.sources[0] == path.name


# how a tool says it -> AL with the bonus token, and unconditional shares by position, at K = 3
CONVENTIONS = [
    ({"per_position": (0.8, 0.6, 0.3)}, 2.7, (0.8, 0.6, 0.3)),  # vLLM: unconditional
    ({"length": 2.7, "draft_tokens": 3}, 2.7, ()),  # SGLang, vLLM: bonus included
    ({"rate_fraction": 1.7 / 3, "draft_tokens": 3}, 2.7, ()),  # accepted / drafted
    ({"length": 2.7, "rate_fraction": 1.7 / 3}, 2.7, ()),  # both: K follows
    ({"per_position": (0.8, 0.6, 0.3), "length": 2.7, "rate_fraction": 1.7 / 3}, 2.7, (0.8, 0.6, 0.3)),
    ({"rate_fraction": 1.7 / 2.9, "draft_tokens": 3, "drafted_per_round": 2.9}, 2.7, ()),  # some rounds drafted less
]


@pytest.mark.parametrize(("told", "length", "positions"), CONVENTIONS)
def test_each_convention_of_acceptance_becomes_the_same_length(told, length, positions):
    accepted, notes = accepted_from(**told)
    assert accepted is not None
    assert accepted.acceptance_length == pytest.approx(length)
    assert accepted.draft_tokens == 3
    assert accepted.per_position == pytest.approx(positions)
    assert not [note for note in notes if note.kind == "contradicts"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"per_position": (0.8, 0.6, 0.3), "length": 2.2}, "tokens per round are 2.700 by its positions, 2.200"),
        ({"per_position": (0.3, 0.6, 0.8)}, "rises"),
        ({"per_position": (0.8, 0.6), "draft_tokens": 3}, "2 positions were told for K = 3"),
        ({"length": 5.0, "draft_tokens": 3}, "more than 4 tokens per round"),
        ({"rate_fraction": 0.5}, "without K"),
    ],
)
def test_tellings_that_contradict_each_other_are_left_out_and_said(told, words):
    accepted, notes = accepted_from(**told)
    assert accepted is None
    assert any(words in note.text for note in notes)


def test_a_histogram_of_accepted_drafts_becomes_unconditional_shares():
    assert unconditional_from_histogram([25, 20, 25, 30]) == pytest.approx((0.75, 0.55, 0.30))
    assert unconditional_from_histogram([0, 0]) == ()


def test_the_rate_of_vllm_is_in_percent_and_sglangs_draft_tokens_count_the_root():
    [serve] = read_measured(DATA / "vllm_serve_default.json")
    raw = json.loads((DATA / "vllm_serve_default.json").read_text())
    assert serve.accepted is not None
    assert serve.accepted.acceptance_length == pytest.approx(1 + 3 * raw["spec_decode_acceptance_rate"] / 100, rel=1e-6)
    [sglang] = read_measured(HAND / "sglang_serving.jsonl")
    assert any("count the root" in note.text for note in sglang.notes)


def test_times_are_in_seconds_and_tpot_is_per_token_after_the_first():
    [serve] = read_measured(DATA / "vllm_serve_detailed.json")
    assert serve.times["tpot"]["mean"] == pytest.approx(0.0047613, rel=1e-4)
    assert serve.times["itl"]["p99"] == pytest.approx(0.0168889, rel=1e-4)
    [llm] = read_measured(DATA / "guidellm.json")
    tpot_s = (llm.times["latency"]["mean"] - llm.times["ttft"]["mean"]) / 31
    assert llm.times["tpot"]["mean"] == pytest.approx(tpot_s, rel=0.01)
    [perf] = read_measured(HAND / "aiperf.json")
    assert perf.times["tpot"]["mean"] == pytest.approx((1.5 - 0.09) / 254, rel=0.01)
    assert perf.times["itl"]["mean"] == pytest.approx(0.0142)


def test_requests_that_were_measured_keep_their_arrivals_lengths_and_times():
    [one] = read_measured(DATA / "requests" / "requests.jsonl")
    lines = [json.loads(line) for line in (DATA / "requests" / "requests.jsonl").read_text().splitlines()]
    assert one.requests is not None
    assert one.requests.arrival_s is not None
    assert one.requests.arrival_s[0] == 0.0
    assert one.times["queue"]["mean"] == pytest.approx(np.mean([x["scheduled_ts"] - x["queued_ts"] for x in lines]))
    assert one.model == "meta-llama/Llama-3.1-8B"
    assert one.settings == {"tensor_parallel": 1, "max_sequences": 128, "max_batched_tokens": 2048}


def test_two_dumps_are_the_window_between_them_and_the_order_counts():
    before, after = HAND / "vllm_before.prom", HAND / "vllm_after.prom"
    whole, _ = read_files([before, after])
    assert whole.window == "between two scrapes"
    assert whole.finished == 32
    assert whole.prefix_hit_fraction == pytest.approx(0.25)
    assert whole.times["ttft"]["p50"] == pytest.approx(0.05)  # 8 of 16 lie below the middle of 0.04 to 0.06
    with pytest.raises(InvalidInput, match=r"falls from .* wrong order"):
        read_files([after, before])


def test_prefix_reuse_of_block_hashes_counts_blocks_of_the_format():
    [bailian] = read_measured(HAND / "bailian.jsonl")
    assert bailian.prefix_hit_fraction == pytest.approx(32 / (40 + 70 + 33))  # two blocks of 16 tokens
    [mooncake] = read_measured(DATA / "mooncake.jsonl")
    assert mooncake.prefix_hit_fraction is not None
    assert mooncake.prefix_hit_fraction > 0.03


def test_failed_requests_of_burstgpt_are_left_out_and_counted():
    [one] = read_measured(HAND / "burstgpt.csv")
    assert any("1 requests failed" in note.text for note in one.notes)
    assert one.rate_per_s == pytest.approx(2 / 114)


def test_host_overhead_is_the_gap_between_chunks_less_the_forward_pass(tmp_path):
    serve = json.loads((DATA / "vllm_serve_default.json").read_text())  # 8 requests at once, K = 3, ITL 12.65 ms
    (tmp_path / "serve.json").write_text(json.dumps(serve))
    shutil.copy(HAND / "vllm_forward.json", tmp_path)
    whole, _ = read_files([tmp_path / "serve.json", tmp_path / "vllm_forward.json"])
    table, _ = fragment(whole)
    assert table["measured"]["host_s"] == pytest.approx(0.012650050834531777 - 0.0069)


def test_a_file_of_several_runs_asks_which(tmp_path):
    two = HAND / "sglang_serving_two_runs.jsonl"
    with pytest.raises(InvalidInput, match=r"holds 2 runs \(1: 4 requests/s; 2: 8 requests/s\).*--run N"):
        read_files([two])
    whole, _ = read_files([two], run=2)
    assert whole.rate_per_s == 8.0
    appended = tmp_path / "appended.json"
    text = (DATA / "vllm_serve_default.json").read_text()
    appended.write_text(f"{text}\n{text}")  # --append-result
    assert len(read_measured(appended)) == 2


def test_files_that_contradict_each_other_lose_the_field_and_say_so():
    one = MeasuredRun("a", "a.json", model="A", rate_per_s=4.0, accepted=accepted_from(length=2.5, draft_tokens=3)[0])
    other = MeasuredRun("b", "b.json", model="A", rate_per_s=8.0, accepted=accepted_from(length=2.0, draft_tokens=3)[0])
    whole = combined([one, other])
    assert (whole.model, whole.rate_per_s, whole.accepted) == ("A", None, None)
    assert sum(note.kind == "contradicts" for note in whole.notes) == 2


def test_what_one_file_lacks_another_tells():
    whole, _ = read_files([DATA / "guidellm.json", HAND / "vllm.log"])
    assert whole.accepted is not None
    assert whole.times["tpot"]["mean"] > 0
    assert not [note for note in whole.notes if note.text.startswith("acceptance")]


def test_contradictions_within_a_serve_file_are_said():
    raw = json.loads((DATA / "vllm_serve_default.json").read_text())
    told = serve_run(Fields({**raw, "spec_decode_acceptance_length": 1.4, "output_throughput": 9.0}, "x"), "x")
    texts = " ".join(note.text for note in told.notes if note.kind == "contradicts")
    assert "by its positions" in texts
    assert "output_throughput" in texts


def broken(draw_text, source: Path, tmp_path: Path) -> str | None:
    """The sentence of the error, None where the file is still read."""
    file = tmp_path / source.name
    file.write_text(draw_text)
    try:
        read_measured(file)
    except InvalidInput as error:
        return str(error)
    return None


@pytest.mark.parametrize("path", list(ALL), ids=lambda path: path.name)
@settings(max_examples=8)
@given(share=st.floats(0.0, 0.99))
def test_a_file_cut_anywhere_is_read_or_refused_in_one_sentence(path, share, tmp_path_factory):
    text = path.read_text()
    said = broken(text[: int(share * len(text))], path, tmp_path_factory.mktemp("cut"))
    assert said is None or ("\n" not in said and path.name in said and ";" in said)


@pytest.mark.parametrize("path", list(ALL), ids=lambda path: path.name)
@settings(max_examples=12)
@given(place=st.floats(0.0, 0.999), put=st.sampled_from(['"x"', "-1", "null", "[]", "{}", "1e400", "NaN", ",", "true"]))
def test_a_file_with_a_value_of_another_kind_is_read_or_refused_in_one_sentence(path, place, put, tmp_path_factory):
    text = path.read_text()
    numbers = [index for index, char in enumerate(text) if char.isdigit() and not text[index - 1].isalnum()]
    start = numbers[int(place * len(numbers))]
    end = start
    while end < len(text) and (text[end].isdigit() or text[end] in ".eE"):
        end += 1
    said = broken(text[:start] + put + text[end:], path, tmp_path_factory.mktemp("put"))
    assert said is None or ("\n" not in said and path.name in said)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("hello", "in no format that is known"),
        ("{}", "in no format that is known"),
        ("[]", "is an empty list"),
        ("[1, 2]", "no object"),
        ('{"num_prompts": 1, "completed": 1}{"avg_latency": 1}', "mixes vllm bench latency and vllm bench serve"),
        ('{"num_prompts": "many", "completed": 1}', "num_prompts must be a finite number"),
        ('{"num_prompts": 2, "completed": 1, "input_lens": [1, "x"]}', "input_lens must be a list of numbers"),
        ("vllm:num_requests_running 3\nvllm:prompt_tokens_total{", "is cut off"),
        ("Decode batch, #running-req:", "none whole enough"),
        ("vllm:prompt_tokens_total 3\nsglang:num_requests_total 3\n", "mixes metrics of sglang and vllm"),
    ],
)
def test_files_that_are_none_of_these_are_one_sentence(tmp_path, text, words):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_measured(tmp_path / "x.json")
    (tmp_path / "y.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InvalidInput, match="no UTF-8 text"):
        read_measured(tmp_path / "y.json")


def test_the_command_writes_a_scenario_that_simulate_and_decide_accept(capsys, tmp_path):
    out = tmp_path / "mine.toml"
    assert run(["import", str(DATA / "vllm_serve_detailed.json"), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "AL 2.746 at K = 3" in said
    assert (tmp_path / "mine-requests.csv").read_text().count("\n") == 17
    table = read_scenario_table(out)
    assert table["workload"]["path"] == str(tmp_path / "mine-requests.csv")
    complete = [
        "--model", "meta-llama/Llama-3.1-8B-Instruct", "--gpu", "H100-SXM", "--method", "eagle3", "--draft-config",
        "SafeAILab/EAGLE3-LLaMA3.1-8B", "--draft-tokens", "3",
    ]  # fmt: skip
    assert run(["simulate", str(out), *complete, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert run(["decide", str(out), *complete, "--workers", "1", "--seeds", "1", "--loads", "1x", "--json"]) in (0, 4)


def test_without_out_the_scenario_goes_to_stdout_and_the_report_to_stderr(capsys, tmp_path):
    assert run(["import", str(HAND / "aiperf.json")]) == 0
    said = capsys.readouterr()
    (tmp_path / "x.toml").write_text(said.out)
    assert read_scenario_table(tmp_path / "x.toml")["acceptance"]["per_position"] == [0.75, 0.55, 0.3]
    assert "converted" in said.err
    assert run(["import", str(tmp_path / "missing.json")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_scenario_without_measurements_is_what_it_was():
    assert load_scenario("llama8b_h100_chat").measured is None
