import json

import pytest

from roofline.calibration import Verdict, load_calibration
from roofline.catalog import gpu
from roofline.counts import weight_formats
from roofline.efficiency import textbook_calibration
from roofline.errors import InvalidInput
from roofline.hf_config import load_model


def written(folder, **changes):
    """A calibration file with fields replaced."""
    content = json.loads(textbook_calibration(gpu("H100-SXM")).model_dump_json())
    path = folder / "calibration.json"
    path.write_text(json.dumps({**content, **changes}), encoding="utf-8")
    return path


def test_residuals_may_be_written_column_by_column(tmp_path):
    columns = {
        "group": ["gemm", "attention"], "rows": [3, 4], "median_abs_error_fraction": [0.1, 0.2],
        "p90_abs_error_fraction": [0.3, 0.4],
    }  # fmt: skip
    read = load_calibration(written(tmp_path, residuals=columns)).residuals
    assert [(one.group, one.rows, one.p90_abs_error_fraction) for one in read] == [
        ("gemm", 3, 0.3),
        ("attention", 4, 0.4),
    ]


def test_columns_of_two_lengths_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="one length"):
        load_calibration(written(tmp_path, residuals={"group": ["gemm"], "rows": [3, 4]}))


def test_constants_of_a_format_nobody_serves_do_not_make_a_verdict_unstable():
    verdict = Verdict(stable=True, by_weights={"fp8": ("missed",), "bf16": ("off",)})
    assert verdict.of({"nvfp4"}).stable
    assert verdict.of({"bf16"}).reasons == ("off",)
    assert not verdict.of({"fp8", "nvfp4"}).stable
    assert not Verdict(stable=False, reasons=("drifted",)).of(set()).stable


def test_a_verdict_on_a_format_is_the_one_on_the_constants_that_stand_in_for_it():
    textbook = textbook_calibration(gpu("H100-SXM"))
    missed = textbook.model_copy(update={"verdict": Verdict(stable=True, by_weights={"fp8": ("missed",)})})
    assert not missed.verdict_on({"bf16", "fp8_block"}).stable
    assert missed.verdict_on({"bf16", "fp16"}).stable


def test_a_dense_model_serves_no_format_of_experts():
    assert weight_formats(load_model("meta-llama/Llama-3.1-8B-Instruct")) == {"bf16"}
    assert "fp8_block" in weight_formats(load_model("deepseek-ai/DeepSeek-V3"))
