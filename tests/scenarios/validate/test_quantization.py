"""Gains of quantisation: products, formats that are not computed, and every shipped row computed or explained."""

import math

import pytest

from scenarios.validate.quantization import COLUMNS, is_sixteen_bit, quant_points

RUN = {
    "id": "Q1",
    "source": "s",
    "hardware": "H100 SXM",
    "n_gpus": "1",
    "engine": "vLLM",
    "target_model": "Qwen3-8B",
    "target_quant": "fp8",
    "method": "eagle3",
    "k": "3",
    "dataset": "GSM8K",
    "batch_size": "1",
    "mean_accept_len_tau": "2.4",
    "quant_only_speedup_vs_fp16": "1.4",
    "spec_speedup_on_same_quant": "1.5",
    "combined_speedup_vs_fp16": "2.1",
}


def _gains(tmp_path, **changes: str):
    path = tmp_path / "q.csv"
    cells = {**dict.fromkeys(COLUMNS, ""), **RUN, **changes}
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(f'"{cells[name]}"' for name in COLUMNS) + "\n")
    points, _ = quant_points(path)
    return {point.gain: point for point in points}


def test_both_gains_together_are_the_product_of_each(tmp_path):
    found = _gains(tmp_path)
    product = found["quantisation"].predicted * found["speculation"].predicted
    assert found["both"].predicted == pytest.approx(product)
    assert 1.2 < found["quantisation"].predicted < 2.0
    assert found["both"].error == pytest.approx(product / 2.1 - 1.0)


def test_weights_of_sixteen_bits_gain_nothing_and_only_speculation_is_compared(tmp_path):
    assert is_sixteen_bit("FP16/BF16")
    assert set(_gains(tmp_path, target_quant="bf16")) == {"speculation"}


def test_plain_decoding_compares_quantisation_alone(tmp_path):
    found = _gains(tmp_path, method="none", k="", spec_speedup_on_same_quant="", combined_speedup_vs_fp16="")
    assert set(found) == {"quantisation"}
    assert found["quantisation"].status == "computed"


def test_fewer_bits_gain_more(tmp_path):
    eight, four = (_gains(tmp_path, target_quant=text)["quantisation"].predicted for text in ("fp8", "W4A16-g128"))
    assert 1.0 < eight < four


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target_quant": "W4A8-QoQ"}, "W4A8"),
        ({"hardware": ""}, "hardware is not given"),
        ({"engine": "mlx-lm"}, "MLX"),
        ({"target_model": "Unheard-of-9B"}, "Unheard-of-9B"),
    ],
)
def test_a_gain_that_cannot_be_computed_says_why(tmp_path, changes, said):
    for point in _gains(tmp_path, **changes).values():
        assert point.status == "not computed"
        assert said in point.reason
        assert math.isnan(point.predicted)


def test_every_shipped_gain_is_computed_or_explained():
    points, problems = quant_points()
    assert problems == ()
    assert sum(point.status == "computed" for point in points) >= 30
    for point in points:
        assert (point.status == "computed") == (point.reason == "")
        assert point.measured > 0.0
