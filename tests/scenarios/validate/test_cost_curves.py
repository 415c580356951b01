"""Single times: what a quantity means, ranges, and every shipped point computed or explained."""

import math

import pytest

from scenarios.validate.cost_curves import COLUMNS, CurvePoint, curve_points

RUN = {
    "curve": "c",
    "source": "s",
    "x": "x",
    "measured": "1.0",
    "hardware": "H100-SXM",
    "tensor_parallel": "1",
    "engine": "vllm",
    "target": "meta-llama/Llama-3.1-8B-Instruct",
    "batch": "1",
    "context_tokens": "200",
}
HEAD = {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "k": "3"}


def _predicted(tmp_path, **changes: str) -> CurvePoint:
    path = tmp_path / "curves.csv"
    cells = {**dict.fromkeys(COLUMNS, ""), **RUN, **changes}
    path.write_text(",".join(COLUMNS) + "\n" + ",".join(f'"{cells[name]}"' for name in COLUMNS) + "\n")
    (point,), problems = curve_points(path)
    assert problems == ()
    return point


def _point(**changes: object) -> CurvePoint:
    made = {"measured": 2.0, "low": 2.0, "high": 2.0, "predicted": 2.0, **changes}
    return CurvePoint(
        curve="c",
        source="s",
        quantity="step_s",
        x="",
        assumed="",
        status="computed",
        **made,  # type: ignore[arg-type]
    )


def test_the_error_counts_from_the_nearer_end_of_a_published_range():
    assert _point(predicted=2.2).error == pytest.approx(0.1)
    assert _point(low=1.0, high=3.0, predicted=2.9).error == 0.0
    assert _point(low=1.0, high=3.0, predicted=3.3).error == pytest.approx(0.1)
    assert _point(low=1.0, high=3.0, predicted=0.9).error == pytest.approx(-0.1)


def test_a_round_takes_longer_than_a_plain_step_and_drafting_is_a_part_of_it(tmp_path):
    plain = _predicted(tmp_path, quantity="step_s")
    round_ = _predicted(tmp_path, quantity="step_s", **HEAD)
    share = _predicted(tmp_path, quantity="draft_share", **HEAD)
    assert 0.004 < plain.predicted < round_.predicted < 2 * plain.predicted
    assert 0.0 < share.predicted < 1.0 - plain.predicted / round_.predicted


def test_batching_gains_what_the_step_does_not_lose(tmp_path):
    ratio = _predicted(tmp_path, quantity="batch_ratio", batch="8").predicted
    gain = _predicted(tmp_path, quantity="batch_scaling", batch="8").predicted
    assert ratio > 1.0
    assert gain == pytest.approx(8.0 / ratio)


def test_dequantised_weights_pay_more_for_rows_than_sixteen_bit_ones(tmp_path):
    wide = {"quantity": "verify_ratio", "rows": "60", "hardware": "A100-SXM-80GB"}
    dense = _predicted(tmp_path, **wide).predicted
    dequantised = _predicted(tmp_path, **wide, target_quantization="int4").predicted
    assert 1.0 < dense < dequantised


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quantity": "colour"}, "'colour' is not known"),
        ({"hardware": "H999"}, "H999"),
        ({"reason": "no name"}, "no name"),
    ],
)
def test_a_point_that_cannot_be_computed_says_why(tmp_path, changes, said):
    point = _predicted(tmp_path, **changes)
    assert point.status == "not computed"
    assert said in point.reason
    assert math.isnan(point.predicted)


def test_every_shipped_point_is_computed_or_explained():
    points, problems = curve_points()
    assert problems == ()
    assert len(points) == 29
    for point in points:
        assert (point.status == "computed") == (point.reason == "") == math.isfinite(point.predicted)
        if point.status == "computed":
            assert point.predicted > 0.0
            assert point.assumed
