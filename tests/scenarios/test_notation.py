import pytest

from roofline.errors import InvalidInput
from scenarios import notation


def test_an_acceptance_length_carries_its_draft_tokens():
    assert notation.acceptance_length_at("2.4@3") == (2.4, 3)
    assert notation.acceptance_length_at(" 1@1 ") == (1.0, 1)
    assert notation.acceptance_length_at("4@3") == (4.0, 3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2.4", ("2.4", "without", "2.4@3")),
        ("4.1@3", ("4.1", "1..4")),
        ("0.9@3", ("0.9", "1..4")),
        ("nan@3", ("nan", "finite")),
        ("inf@3", ("inf", "finite")),
        ("two@3", ("two", "number")),
        ("2.4@-3", ("-3", "whole number")),
        ("2.4@0", ("'0'", "at least 1")),
        ("2.4@", ("2.4@", "whole number")),
    ],
)
def test_a_wrong_acceptance_length_names_value_and_fix(text, words):
    with pytest.raises(InvalidInput) as caught:
        notation.acceptance_length_at(text)
    assert all(word in str(caught.value) for word in words)


def test_objectives_are_read_with_metric_quantile_and_unit():
    slo = notation.slo("tpot_p95=40ms")
    assert (slo.metric, slo.quantile) == ("tpot", 0.95)
    assert slo.limit_s == pytest.approx(0.040)
    assert notation.slo("ttft_p99.9=1.5s").quantile == pytest.approx(0.999)
    assert notation.slo("latency=2s").quantile is None


@pytest.mark.parametrize(
    "text",
    ["tpot_p95=40", "tpot=ms", "itl_p95=40ms", "tpot_p0=4ms", "tpot_p100=4ms", "tpot_p95=nanms", "tpot_p95=-4ms"],
)
def test_wrong_objectives_are_refused_by_name(text):
    with pytest.raises(InvalidInput, match="slo"):
        notation.slo(text)


def test_suffixes_of_token_counts_are_read_as_the_engine_reads_them():
    assert notation.human_tokens("16k", field="x") == 16_000
    assert notation.human_tokens("16K", field="x") == 16_384
    assert notation.human_tokens("1.5K", field="x") == 1_536
    with pytest.raises(InvalidInput, match="--max-num-seqs must be a whole number"):
        notation.human_tokens("many", field="--max-num-seqs")


def test_the_nearest_name_is_named_and_all_names_where_none_is_near():
    assert "H100-SXM" in notation.nearest("H100-SMX", ["H100-SXM", "L4", "V100"])
    assert notation.nearest("zzz", ["a", "b"]) == "known: a, b"
