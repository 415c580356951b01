"""Cases: bands and directions as they are told, rows put together by hand, every shipped row computed or explained."""

import math

import pytest

from scenarios.validate.cases import CheckResult, judge_cases, run_check
from scenarios.validate.checks import CHECKS, COLUMNS, COMBINED, Check, read_checks, scenario_of

RUN = {
    "case": "T1",
    "grade": "B",
    "arm": "on",
    "metric": "tpot_speedup",
    "low": "1.0",
    "high": "1.5",
    "hardware": "H100-SXM",
    "engine": "vllm",
    "target": "meta-llama/Llama-3.1-8B-Instruct",
    "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B",
    "method": "eagle3",
    "k": "2",
    "acceptance": "2.2@2",
    "load": "concurrency 1",
    "input_tokens": "64",
    "output_tokens": "64",
    "options": "workload.requests=6",
}


def _check(**changes: str) -> Check:
    cells = {**dict.fromkeys(COLUMNS, ""), **RUN, **changes}
    return Check(
        case=cells["case"],
        grade=cells["grade"],
        arm=cells["arm"],
        metric=cells["metric"],  # type: ignore[arg-type]
        low=float(cells["low"]) if cells["low"] else None,
        high=float(cells["high"]) if cells["high"] else None,
        measured=None,
        direction=cells["direction"],
        of=tuple(cells["of"].split()),
        assumed="",
        url="",
        reason=cells["reason"],
        cells=cells,
    )


def _known(arm: str, value: float, **changes: str) -> CheckResult:
    return CheckResult(_check(arm=arm, **changes), "computed", predicted=value, label="catalogue")


def test_a_prediction_is_in_its_band_with_both_ends_and_on_its_side_of_one():
    inside = CheckResult(_check(direction="above"), "computed", predicted=1.5)
    outside = CheckResult(_check(direction="above"), "computed", predicted=0.99)
    assert (inside.in_band, inside.direction_right) == (True, True)
    assert (outside.in_band, outside.direction_right) == (False, False)
    assert CheckResult(_check(low="", high=""), "computed", predicted=1.2).in_band is None
    assert CheckResult(_check(), "not computed", "why").in_band is None


def test_ratio_best_k_and_crossover_are_put_together_from_other_rows():
    arms = [_known(f"k{k}", value, k=str(k)) for k, value in ((1, 1.2), (2, 1.4), (3, 1.3))]
    loads = [_known(f"b{b}", value, load=f"concurrency {b}") for b, value in ((1, 1.5), (10, 1.1), (20, 0.9))]
    combined = [
        _check(arm="r", metric="ratio", of="k2 k1"),
        _check(arm="best", metric="best_k", of="k1 k2 k3"),
        _check(arm="cross", metric="crossover", of="b1 b10 b20"),
        _check(arm="never", metric="crossover", of="b1 b10"),
        _check(arm="broken", metric="ratio", of="k1 k9"),
    ]
    checks = [*(one.check for one in (*arms, *loads)), *combined]
    (case,) = judge_cases(checks, {one.check.name: one for one in (*arms, *loads)})
    found = {one.check.arm: one for one in case.checks}
    assert found["r"].predicted == pytest.approx(1.4 / 1.2)
    assert found["best"].predicted == 2.0
    assert found["cross"].predicted == pytest.approx(15.0)
    assert math.isinf(found["never"].predicted)
    assert "k9" in found["broken"].reason


def test_a_case_is_right_only_where_all_its_directions_are():
    good, bad = _known("a", 1.2, direction="above"), _known("b", 1.2, direction="below")
    (case,) = judge_cases([good.check, bad.check], {one.check.name: one for one in (good, bad)})
    assert case.direction_right is False
    assert case.in_band is True


def test_more_acceptance_is_a_larger_speed_up():
    low, high = (run_check(_check(acceptance=text)).predicted for text in ("1.2@2", "2.8@2"))
    assert low < 1.0 < high


def test_options_of_the_speculating_arm_leave_the_plain_arm_alone():
    both = run_check(_check(options="workload.requests=6; engine.enforce_eager=true"))
    only_on = run_check(_check(on_options='engine.enforce_eager=true; hardware.gpu="H100-SXM"'))
    assert only_on.predicted < run_check(_check()).predicted
    assert only_on.predicted <= both.predicted
    scenario = scenario_of(_check(on_options="engine.enforce_eager=true"), speculating=False)
    assert not scenario.engine.enforce_eager


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": "no/such-model"}, "no/such-model"),
        ({"load": "often"}, "load must read"),
        ({"options": "engine.max_sequences=many"}, "no JSON value"),
        ({"acceptance": ""}, "acceptance is not given"),
        ({"reason": "not in the catalogue"}, "not in the catalogue"),
    ],
)
def test_a_row_that_cannot_be_computed_says_why(changes, said):
    found = run_check(_check(**changes))
    assert found.status == "not computed"
    assert said in found.reason
    assert math.isnan(found.predicted)


def test_shipped_checks_read_without_a_problem_and_name_their_source():
    checks, problems = read_checks(CHECKS)
    assert problems == ()
    assert {check.grade for check in checks} == {"A", "B"}
    assert len({check.case for check in checks}) == 27
    for check in checks:
        assert check.url.startswith("https://github.com/")
        assert check.reason or check.metric in COMBINED or check.assumed
        if check.low is not None and check.high is not None:
            assert check.low < check.high
            assert check.measured is None or check.low <= check.measured <= check.high
        if not check.reason and check.metric not in COMBINED:
            scenario_of(check)


def test_combined_rows_refer_to_arms_before_them():
    checks, _ = read_checks(CHECKS)
    seen: dict[str, set[str]] = {}
    for check in checks:
        arms = seen.setdefault(check.case, set())
        assert set(check.of) <= arms, check.name
        arms.add(check.arm)


def test_a_row_with_an_unknown_metric_is_named_and_left_out(tmp_path):
    path = tmp_path / "checks.csv"
    path.write_text(",".join(COLUMNS) + "\nC1,A,x,speed" + "," * (len(COLUMNS) - 4) + "\n")
    checks, problems = read_checks(path)
    assert checks == ()
    assert "line 2" in str(problems[0])
    assert "'speed'" in str(problems[0])
