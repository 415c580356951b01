"""The fit finds constants it was not told, reads no end-to-end row, and does not depend on order or unit."""

from dataclasses import replace
from datetime import date
from functools import cache

import numpy as np
import pytest

from calibrate.calibrating import calibrate_rows, launch_s
from calibrate.constants import host_of, operators_of
from calibrate.fit import Observed, fit_constants, observed_components
from calibrate.jobs import END_TO_END, Job
from calibrate.measurements import Row, rows_hash
from calibrate.predict import launches_of, machine_as_gpu, predict_s
from calibrate.report import as_json, report_on
from calibrate.samples import collect
from roofline.calibration import Calibration
from roofline.errors import InvalidInput
from roofline.operators import Shard, forward_operators, launches, logits_operators
from tests.calibrate.synthetic import (
    FORM,
    RECORD,
    SETTING,
    TRUE_SAMPLER,
    TRUE_VALUES,
    all_jobs,
    rows_of,
    true_calibration,
)

TODAY = date(2026, 11, 29)


@cache
def noiseless() -> Calibration:
    return calibrate_rows(rows_of(repetitions=10), RECORD, today=TODAY)


def test_noiseless_rows_recover_the_constants_to_one_in_a_million() -> None:
    found = noiseless()
    for fitted, true in zip(found.operators, operators_of(TRUE_VALUES, FORM, dtype="bf16"), strict=True):
        assert fitted.operator == true.operator
        assert fitted.tile_tokens == true.tile_tokens
        assert [knot.rows for knot in fitted.knots] == [knot.rows for knot in true.knots]
        for name in ("bytes_per_s", "flops_per_s", "p_norm", "overhead_s", "cache_bytes_per_s"):
            if getattr(true, name) is not None:
                assert getattr(fitted, name) == pytest.approx(getattr(true, name), rel=1e-6, abs=1e-12)
        for knot, true_knot in zip(fitted.knots, true.knots, strict=True):
            assert knot.factor == pytest.approx(true_knot.factor, rel=1e-6)
    assert found.host.model_dump() == pytest.approx(host_of(TRUE_VALUES).model_dump(), rel=1e-6, abs=1e-10)
    assert found.sampler.model_dump() == pytest.approx(TRUE_SAMPLER.model_dump(), rel=1e-6, abs=1e-12)


def observed(rows: list[Row]) -> Observed:
    return observed_components(collect(rows), SETTING)


def test_the_order_of_rows_does_not_matter() -> None:
    rows = rows_of(repetitions=5, noise=0.05)
    order = np.random.default_rng(1).permutation(len(rows))
    shuffled = [rows[index] for index in order]
    assert observed(shuffled).jobs == observed(rows).jobs
    assert np.array_equal(observed(shuffled).seconds, observed(rows).seconds)
    assert rows_hash(shuffled) == rows_hash(rows)


def test_the_unit_of_time_does_not_matter() -> None:
    in_ms = fit_constants(observed(rows_of(repetitions=2, seconds_per_unit=1e-3)), (FORM,))
    for name, value in in_ms.values.items():
        scale = 1e-3 if name.endswith("_per_s") else 1e3 if name.endswith("_s") else 1.0
        assert value == pytest.approx(TRUE_VALUES[name] * scale, rel=1e-6)


def test_end_to_end_rows_do_not_reach_the_fit() -> None:
    rows = rows_of(repetitions=3, noise=0.05)
    spoiled = [replace(row, busy_s=7.0 * row.busy_s) if row.job.kind in END_TO_END else row for row in rows]
    assert not {job.kind for job in observed(spoiled).jobs} & set(END_TO_END)
    assert np.array_equal(observed(spoiled).seconds, observed(rows).seconds)


@cache
def noisy() -> tuple[list[Row], Calibration]:
    rows = rows_of(repetitions=12, noise=0.04, seed=3)
    return rows, calibrate_rows(rows, RECORD, today=TODAY)


def test_noisy_rows_predict_held_out_rounds_within_the_noise() -> None:
    rows, calibration = noisy()
    report = report_on(rows, RECORD, calibration=calibration)
    assert report.verdict.stable
    assert report.median_abs_error < 0.025
    assert len(report.cells) == 48
    truth = predict_s(true_calibration(), SETTING, jobs=all_jobs())
    found = predict_s(calibration, SETTING, jobs=all_jobs())
    assert np.median(np.abs(found / truth - 1.0)) < 0.01


def test_standard_errors_cover_the_truth_and_shrink_without_noise() -> None:
    error = noisy()[1].standard_errors["gemm_bytes_per_s"]
    assert abs(noisy()[1].operators[0].bytes_per_s - TRUE_VALUES["gemm_bytes_per_s"]) < 4 * error
    assert noiseless().standard_errors["gemm_bytes_per_s"] < 1e-3 * error


def test_a_perfect_machine_is_reported_without_error_or_regret() -> None:
    rows = rows_of(repetitions=10)
    content = as_json(report_on(rows, RECORD, calibration=noiseless()))
    assert content["max_abs_error"] < 1e-6
    assert content["regret_mean"] == pytest.approx(0.0, abs=1e-9)
    assert content["right_side_share"] == 1.0
    assert content["noise_floor"] == pytest.approx(0.0, abs=1e-12)
    assert content["textbook_median_abs_error"] > 0.02
    assert content["verdict"] == {"stable": True, "reasons": []}


def test_too_few_repetitions_are_not_stable_and_the_reason_says_what_to_do() -> None:
    report = report_on(rows_of(repetitions=3), RECORD, calibration=noiseless())
    assert not report.verdict.stable
    assert "only 3 repetitions" in report.verdict.reasons[0]
    assert "--budget" in report.verdict.reasons[0]


def test_a_noisy_run_is_not_stable() -> None:
    rows = rows_of(repetitions=9, noise=0.4, seed=2)
    report = report_on(rows, RECORD, calibration=noiseless())
    assert not report.verdict.stable
    assert any("disagree" in reason for reason in report.verdict.reasons)


def test_rows_without_components_are_refused() -> None:
    rows = [row for row in rows_of(repetitions=1) if row.job.kind in END_TO_END]
    with pytest.raises(InvalidInput, match="no component"):
        calibrate_rows(rows, RECORD, today=TODAY)


def test_an_unknown_preset_in_the_record_is_refused() -> None:
    with pytest.raises(InvalidInput, match="preset must be one of"):
        calibrate_rows(rows_of(repetitions=1), {**RECORD, "preset": "huge"}, today=TODAY)


def test_a_launch_bound_pass_without_a_graph_gives_the_cost_of_a_launch() -> None:
    eager = Job("eager_forward", "draft", 1, 1, 128)
    rows = rows_of(repetitions=3)
    rows += [replace(rows[0], job=eager, repetition=n, busy_s=1e-3) for n in range(3)]
    assert launch_s(collect(rows), SETTING) == pytest.approx(1e-3 / (4 * (4 + 4) + 1))
    assert launch_s(collect(rows_of(repetitions=1)), SETTING) == 0.0


def test_launches_are_counted_as_the_roofline_counts_them() -> None:
    shard = Shard(gpu=machine_as_gpu(true_calibration()), calibration=true_calibration())
    for name in ("target", "draft"):
        model = SETTING.model(name)
        operators = [*forward_operators(model, np.array([1]), shard), *logits_operators(model, np.array([1]), shard)]
        assert launches_of(model) == launches(operators)
