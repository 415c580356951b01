"""From a row to the scenario it was measured in: K, trees, acceptance, loads, open fields."""

import csv
import io
from dataclasses import replace

import pytest

from roofline.errors import InvalidInput
from scenarios.validate.given_acceptance import acceptance_length_of
from scenarios.validate.priors import Range, chosen, quantiles
from scenarios.validate.row_scenario import setups_of
from scenarios.validate.rows import rows_of
from scenarios.validate.shapes import shape_of

FULL = {
    "id": "T1", "source_id": "T", "source": "t", "url_or_ref": "https://example.org", "hardware": "H100", "n_gpus": "1",
    "engine": "vLLM V1", "target_model": "Llama-3.1-8B-Instruct", "method": "eagle3", "k": "3", "dataset": "MT-bench",
    "tree_or_chain": "chain", "load_type": "batch_size", "load_value": "1", "input_len": "100", "output_len": "300",
    "mean_accept_len_tau": "2.8", "tau_convention": "incl. bonus", "metric": "tpot_ms", "speedup": "1.9", "tp": "1",
    "simulable": "full",
}  # fmt: skip


def row_of(tmp_path, **changes):
    cells = FULL | changes
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(cells))
    writer.writeheader()
    writer.writerow(cells)
    file = tmp_path / "row.csv"
    file.write_text(stream.getvalue(), encoding="utf-8")
    return rows_of([file])[0][0]


def test_a_row_is_priced_with_the_release_of_the_day_it_says(tmp_path):
    def profile(said):
        return setups_of(row_of(tmp_path, quote_location=said)).engine

    assert [profile("comment 2025-04-24"), profile("comment 2025-09-14"), profile("Table 5")] == [
        "vllm-0.8",
        "vllm",
        "vllm",
    ]


@pytest.mark.parametrize(
    ("k", "method", "shape"),
    [
        ("5", "eagle3", (5, 5, 1)),
        ("block 16", "dflash", (15, 15, 1)),
        ("steps=5,topk=1,draft_tokens=6", "eagle3", (5, 5, 1)),
        ("steps=5,topk=8,draft_tokens=32", "eagle3", (31, 5, 8)),
        ("tree 60 (steps 7, topk 10)", "eagle3", (59, 7, 10)),
        ("draft-max 8, draft-min 1", "draft_model", (8, 8, 1)),
        ("adaptive<=7", "dspark", (7, 7, 1)),
        ("K=5", "eagle3", (5, 5, 1)),
        ("4 tokens", "mtp", (4, 4, 1)),
        ("steps=3,topk=4,draft_tokens=16", "mtp", (3, 3, 1)),
    ],
)
def test_k_is_read_in_every_spelling_with_the_root_left_out(tmp_path, k, method, shape):
    found = shape_of(row_of(tmp_path, k=k), method=method, engine="sglang")
    assert (found.draft_tokens, found.depth, found.beam) == shape


def test_a_window_that_counts_the_verified_token_has_one_draft_less(tmp_path):
    row = row_of(tmp_path, k="4", notes="k includes verified token in SGLang convention")
    assert shape_of(row, method="mtp", engine="sglang").draft_tokens == 3


def test_k_that_is_not_understood_is_quoted(tmp_path):
    with pytest.raises(InvalidInput, match="'lots'"):
        shape_of(row_of(tmp_path, k="lots"), method="eagle3", engine="vllm")


def length(row, method="eagle3"):
    return acceptance_length_of(row, shape_of(row, method=method, engine="vllm"), method=method, model="x").length


def test_accepted_over_drafted_becomes_a_length_and_is_never_taken_for_alpha(tmp_path):
    row = row_of(tmp_path, mean_accept_len_tau="", acceptance_rate_alpha="0.6", k="4")
    assert length(row).middle == pytest.approx(1 + 4 * 0.6)


def test_percent_and_ranges_of_acceptance_are_read(tmp_path):
    row = row_of(tmp_path, mean_accept_len_tau="", acceptance_rate_alpha="44-50", k="2")
    assert (length(row).low, length(row).high) == pytest.approx((1.88, 2.0))


def test_a_length_that_leaves_out_the_bonus_gets_it(tmp_path):
    assert length(row_of(tmp_path, mean_accept_len_tau="1.8", tau_convention="excl. bonus")).middle == 2.8


def test_a_length_beyond_k_plus_one_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"exceeds K \+ 1"):
        length(row_of(tmp_path, mean_accept_len_tau="5.5"))


def test_a_full_row_has_one_setup_and_an_open_one_has_draws_around_it(tmp_path):
    whole = setups_of(row_of(tmp_path))
    assert len(whole.variants) == 1
    assert not whole.assumed
    open_row = setups_of(row_of(tmp_path, tp="", n_gpus="", mean_accept_len_tau=""))
    assert len(open_row.variants) == 9
    assert {setup.deployment["hardware"]["tensor_parallel"] for setup in open_row.variants} == {1, 2}
    assert len({setup.length for setup in open_row.variants}) > 5


def test_a_row_never_says_how_fast_it_was(tmp_path):
    row = row_of(tmp_path, baseline_value="7.0", value="3.7")
    slower = replace(row, speedup=0.5, baseline_value=70.0, value=1.0)
    assert setups_of(row).variants == setups_of(slower).variants


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"speedup": ""}, "no speed-up"),
        ({"load_type": "interactivity_tok_s_user"}, "equal tokens/s per user"),
        ({"simulable": "no", "notes": "iso"}, "not comparable: iso"),
        ({"load_value": "many"}, "load_value"),
        ({"method": "lookahead"}, "not among the proposers"),
    ],
)
def test_rows_that_cannot_be_computed_say_why(tmp_path, changes, reason):
    with pytest.raises(InvalidInput, match=reason):
        setups_of(row_of(tmp_path, **changes))


def test_no_hardware_means_draws_over_those_the_notes_name(tmp_path):
    found = setups_of(row_of(tmp_path, hardware="", n_gpus="", tp="", notes="A100 or H100, not said"))
    assert {setup.deployment["hardware"]["gpu"] for setup in found.variants} == {"A100-SXM-80GB", "H100-SXM"}
    assert any("hardware not given" in note for note in found.assumed)


def test_draws_are_stratified_and_depend_on_row_and_field_alone():
    first = quantiles("R1", "length")
    assert first == quantiles("R1", "length") != quantiles("R2", "length")
    assert first[0] == 0.5
    assert sorted(first[1:]) == pytest.approx([(part + 0.5) / 8 for part in range(8)])


def test_ranges_and_options_give_their_middle_first():
    assert Range(1.0, 2.0, 4.0).at(0.5) == 2.0
    assert Range(1.0, 2.0, 4.0).at(0.01) == 1.0
    assert Range(1.0, 2.0, 4.0).at(0.99) == 4.0
    assert chosen(["a", "b"], 0.5) == "a"
    assert {chosen(["a", "b"], quantile) for quantile in quantiles("x", "y")} == {"a", "b"}
