import json
import math

import numpy as np
import pytest

from roofline.cost import round_cost
from roofline.errors import DoesNotFit, InvalidInput
from scenarios import decide
from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from scenarios.loads import load_points, workload_at
from scenarios.questions.advice import advise
from scenarios.questions.decide import decide_service
from scenarios.report.decision_text import decision_text
from scenarios.report.files import decision_json, loads_csv


def scenario(**changes):
    """An 8B model on one H100: quick to simulate."""
    content = {
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"length": "2.5@3"},
        "workload": {"kind": "poisson", "requests": 200, "input_tokens": 200, "output_tokens": 100},
        "loads": {"rates_per_s": [2.0, 8.0]},
        "run": {"seeds": 2},
    }
    return scenario_from_dict({**content, **changes})


CLOSED = {"kind": "closed", "requests": 40, "input_tokens": 200, "output_tokens": 201}


def test_one_request_at_a_time_is_as_much_faster_as_al_over_r():
    decision = decide(scenario(workload=CLOSED, loads={"concurrencies": [1]}))
    [load] = decision.loads
    split = load.round
    assert split.batch == 1
    # The simulated context grows from 200 to 401 tokens, R is taken at its mean; AL is cut at the end of a request.
    assert load.middle is not None
    assert load.middle.tpot_speedup.estimate == pytest.approx(load.middle.on.acceptance_length / split.ratio, rel=0.02)
    assert load.break_even.kind == "at"
    assert load.break_even.length == pytest.approx(split.ratio, rel=0.02)


def test_at_the_break_even_length_both_arms_are_equally_fast():
    loads = {"rates_per_s": [20.0]}
    length = decide(scenario(loads=loads)).loads[0].break_even.length
    again = decide(scenario(loads=loads, acceptance={"length": f"{length:.6f}@3"}, run={"seeds": 1}))
    middle = again.loads[0].middle
    assert middle is not None
    assert middle.tpot_speedup.estimate == pytest.approx(1.0, abs=0.006)


def test_without_acceptance_nothing_is_invented_and_the_break_even_is_the_answer():
    decision = decide(scenario(acceptance=None))
    assert decision.verdict.headline == "CANNOT SAY"
    assert decision.cases == ()
    assert decision.advice is None
    text = decision_text(decision)
    assert text.startswith("CANNOT SAY without an acceptance length: pays if AL > ")
    assert all(load.cases == () and 1.0 < load.break_even.length < 4.0 for load in decision.loads)


def test_a_task_preset_is_labelled_assumed_and_carries_its_spread():
    decision = decide(scenario(acceptance={"task": "chat"}))
    assert [case.name for case in decision.cases] == ["p10", "median", "p90"]
    assert {case.label for case in decision.cases} == {"assumed"}
    for load in decision.loads:
        low, middle, high = (case.tpot_speedup.estimate for case in load.cases)
        assert low < middle < high
    assert "chat" in decision_text(decision).splitlines()[0]


def test_a_spread_that_straddles_the_break_even_is_no_answer():
    busy = {"kind": "closed", "requests": 600, "input_tokens": 200, "output_tokens": 100}
    decision = decide(scenario(acceptance={"task": "chat"}, workload=busy, loads={"concurrencies": [150]}))
    p10, _, p90 = decision.loads[0].cases
    assert p10.on.acceptance_length < decision.loads[0].break_even.length < p90.on.acceptance_length
    assert (p10.word, p90.word) == ("OFF", "ON")
    assert decision.verdict.headline == "CANNOT SAY"


def test_the_number_of_workers_changes_nothing():
    alone, together = (decide(scenario(), workers=workers) for workers in (1, 2))
    assert decision_json(alone) == decision_json(together)


def test_no_acceptance_at_all_is_off_at_every_load():
    decision = decide(scenario(acceptance={"alpha": 0.0}))
    assert decision.verdict.headline == "OFF"
    assert decision_text(decision).startswith("OFF at every load asked")


def test_a_flood_of_requests_is_saturated():
    flood = {"kind": "poisson", "requests": 1500, "input_tokens": 2000, "output_tokens": 500}
    decision = decide(scenario(workload=flood, loads={"rates_per_s": [150.0, 300.0]}, run={"seeds": 1}))
    assert decision.saturated_everywhere
    assert decision_text(decision).startswith("SATURATED")


def test_a_model_that_does_not_fit_raises_with_its_account():
    big = {"model": "meta-llama/Llama-3.1-70B-Instruct"}
    with pytest.raises(DoesNotFit, match="weights 131"):
        decide(scenario(target=big, speculation={"method": "ngram", "draft_tokens": 3, "proposal_fraction": 0.5}))


def test_nothing_to_decide_is_said():
    with pytest.raises(InvalidInput, match="nothing to decide"):
        decide(scenario(speculation={"method": "none"}, acceptance=None))


def test_a_window_shorter_than_the_contexts_is_reported():
    long_prompts = {"kind": "poisson", "requests": 60, "input_tokens": 4000, "output_tokens": 50}
    decision = decide(scenario(workload=long_prompts, loads={"rates_per_s": [1.0]}, run={"seeds": 1}))
    assert decision.window is not None
    assert decision.window.requests_beyond_fraction == 1.0
    assert decision.loads[0].middle.on.acceptance_length == 1.0
    assert "100 % of the requests grow longer" in decision_text(decision)


def test_the_advised_k_is_the_best_of_all_k_up_to_the_tolerance():
    service = build_service(scenario(run={"seeds": 1, "max_draft_tokens": 6}))
    [case] = service.cases
    advice = advise(service.on, case, context_tokens=300, max_draft_tokens=6)
    assert advice.ranges[0].first == 1
    for item, following in zip(advice.ranges, advice.ranges[1:], strict=False):
        assert following.first == item.last + 1
    for batch in (1, 7, 40, 200):
        speedups = [1.0] + [
            case.length(k) / round_cost(service.on.costs, batch=batch, context_tokens=300, draft_tokens=k).ratio
            for k in range(1, 7)
        ]
        chosen = advice.at(batch).draft_tokens
        assert speedups[chosen] >= 0.95 * max(speedups)
    schedule = json.loads(advice.engine_json())
    assert schedule["num_speculative_tokens"] == advice.largest
    assert schedule["num_speculative_tokens_per_batch_size"][0][0] == 1


def test_the_advised_schedule_is_simulated_beside_the_given_k():
    decision = decide(
        scenario(speculation={**scenario().speculation.model_dump(), "draft_tokens": 1}, run={"seeds": 1})
    )
    for load in decision.loads:
        assert load.advised is not None
        assert load.middle is not None
        assert load.advised.tpot_speedup.estimate > load.middle.tpot_speedup.estimate
    assert decision.report() == decision_text(decision)


def test_shares_by_position_say_nothing_beyond_their_last_position():
    service = build_service(scenario(acceptance={"per_position": [0.7, 0.5, 0.3]}))
    advice = advise(service.on, service.cases[0], context_tokens=300, max_draft_tokens=8)
    assert advice.largest <= 3
    with pytest.raises(InvalidInput, match="2 shares, but 3 draft positions"):
        build_service(scenario(acceptance={"per_position": [0.7, 0.5]}))


def test_classes_keep_their_own_lengths_and_acceptance():
    classes = [
        {
            "name": "chat", "share_fraction": 0.75, "input_tokens": 100, "output_tokens": 50,
            "acceptance": {"alpha": 0.6},
        },
        {
            "name": "code", "share_fraction": 0.25, "input_tokens": 900, "output_tokens": 20,
            "acceptance": {"alpha": 0.9},
        },
    ]  # fmt: skip
    mixed = scenario(workload={"kind": "poisson", "requests": 400, "classes": classes}, acceptance=None)
    [point, _] = load_points(mixed, None)
    requests = workload_at(mixed, point, trace=None, seed=0)
    assert requests.class_names == ("chat", "code")
    assert np.count_nonzero(requests.class_id == 1) == 100
    assert set(requests.prompt_tokens[requests.class_id == 1]) == {900}
    assert np.all(np.diff(requests.arrival_s) >= 0)
    [case] = decide_service(build_service(mixed)).cases
    assert len(case.models) == 2


def test_a_seed_fixes_lengths_at_every_load_and_arrivals_scale():
    lengths = {"mean_tokens": 300, "sigma": 0.7}
    question = scenario(workload={"kind": "poisson", "requests": 50, "input_tokens": lengths, "output_tokens": lengths})
    slow, fast = (workload_at(question, point, trace=None, seed=3) for point in load_points(question, None))
    assert np.array_equal(slow.prompt_tokens, fast.prompt_tokens)
    assert slow.arrival_s == pytest.approx(4.0 * fast.arrival_s)
    other = workload_at(question, load_points(question, None)[0], trace=None, seed=4)
    assert not np.array_equal(slow.prompt_tokens, other.prompt_tokens)


def test_the_json_echoes_scenario_seed_and_calibration():
    decision = decide(scenario(run={"seeds": 1, "seed": 7}))
    content = json.loads(decision_json(decision))
    assert content["schema_version"] == 1
    assert content["seed"] == 7
    assert content["scenario"]["target"]["model"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert content["calibration"]["label"] == "calibrated"
    assert scenario_from_dict(content["scenario"]) == decision.scenario
    assert {item["label"] for item in content["assumptions"]} <= {"measured", "calibrated", "catalogue", "assumed"}


def test_the_csv_has_a_row_per_load_and_arm():
    decision = decide(scenario(run={"seeds": 1}))
    header, *rows = loads_csv(decision).splitlines()
    assert len(rows) == 6
    assert all(len(row.split(",")) == len(header.split(",")) for row in rows)
    assert all(math.isfinite(float(row.split(",")[header.split(",").index("tpot_p95_s")])) for row in rows)
