"""Predictions, errors, base rates, sweeps and explanations, on rows made up for it."""

import math
from dataclasses import replace

import pytest

from scenarios.validate.ablation import ablations
from scenarios.validate.baselines import baselines_of
from scenarios.validate.errors import families_of, family
from scenarios.validate.explain import explained
from scenarios.validate.intervals import model_error, with_model_error
from scenarios.validate.predict import predicted, predictions_of
from scenarios.validate.rows import Prediction, Terms
from scenarios.validate.sweeps import crossing, sweeps_of
from tests.scenarios.validate.test_row_scenario import row_of


def made(row, *, measured, speedup, source="T", draft=0.3, length=2.8):
    terms = Terms(0.007, 0.9, draft, 0.1, length, 1.0, 0.1)
    tags = {"engine class": "serving engines", "engine": "vllm", "method": "eagle3", "model kind": "dense",
            "load type": "batch", "weights": "16-bit"}  # fmt: skip
    row = replace(row, speedup=measured, source_id=source, id=f"{source}-{measured}-{speedup}")
    return Prediction(
        row, "computed", speedup=speedup, low=speedup, high=speedup, terms=terms, gpu="H100-SXM", tags=tags
    )


def test_a_batch_row_is_acceptance_length_over_round_cost(tmp_path):
    one = predicted(row_of(tmp_path))
    terms = one.terms
    assert one.status == "computed"
    assert one.speedup == pytest.approx(terms.acceptance_length / (terms.verify + terms.draft + terms.host))
    assert one.low == one.speedup == one.high
    assert one.label == "calibrated"


def test_prompts_cost_wall_time_but_not_time_per_token(tmp_path):
    long = {"input_len": "20000", "output_len": "50"}
    per_token = predicted(row_of(tmp_path, **long))
    wall = predicted(row_of(tmp_path, metric="tokens_per_s", **long))
    assert wall.speedup < 0.8 * per_token.speedup
    assert wall.terms.queue < 0.8 < per_token.terms.queue == pytest.approx(1.0)


def test_a_closed_loop_and_a_rate_are_simulated(tmp_path):
    loop = predicted(row_of(tmp_path, load_type="concurrency", load_value="8", metric="tokens_per_s"))
    rate = predicted(row_of(tmp_path, load_type="qps", load_value="4", metric="mean_latency_s"))
    assert 1.0 < loop.speedup < 3.0
    assert 1.0 < rate.speedup < 3.0


def test_a_tree_costs_its_nodes_and_is_accepted_as_its_row_says(tmp_path):
    tree = {"engine": "SGLang", "tree_or_chain": "tree", "load_type": "concurrency", "load_value": "16"}
    small = predicted(row_of(tmp_path, k="steps=5,topk=4,draft_tokens=8", **tree))
    large = predicted(row_of(tmp_path, k="steps=5,topk=8,draft_tokens=60", **tree))
    assert small.terms.acceptance_length == large.terms.acceptance_length == 2.8
    assert large.terms.verify > small.terms.verify
    assert large.speedup < small.speedup


def test_what_cannot_be_computed_is_kept_with_its_reason(tmp_path):
    one = predicted(row_of(tmp_path, hardware="Cerebras WSE-3"))
    assert one.status == "not computed"
    assert "Cerebras WSE-3" in one.reason
    assert math.isnan(one.error)


def test_predictions_do_not_depend_on_the_order_they_are_made_in(tmp_path):
    rows = [row_of(tmp_path, k=str(k), mean_accept_len_tau="") for k in (2, 3)]
    ahead = predictions_of(rows)
    behind = predictions_of(rows, spread=lambda work, groups: reversed([work(group) for group in groups]))
    assert ahead == behind


def test_families_count_sources_once_and_catch_slower_and_faster_rows(tmp_path):
    row = row_of(tmp_path)
    rows = [
        made(row, measured=2.0, speedup=2.2),
        made(row, measured=2.0, speedup=1.0, source="U"),
        made(row, measured=0.9, speedup=0.8, source="U"),
        made(row, measured=0.9, speedup=1.8, source="U"),
    ]
    one = next(one for one in families_of(rows) if one.name == "serving engines")
    assert (one.rows, one.sources, one.slower_rows, one.faster_rows) == (4, 2, 2, 2)
    assert (one.slower_caught, one.faster_caught) == (0.5, 0.5)
    assert one.source_median == pytest.approx((0.1 + 0.5) / 2)


def test_a_constant_ratio_in_sample_knows_what_a_forecast_cannot(tmp_path):
    row = row_of(tmp_path)
    rows = [made(row, measured=2.8 * share, speedup=2.0, source=source) for share, source in ((0.5, "A"), (0.9, "B"))]
    base = baselines_of(rows)
    assert base.constant_in_sample.median_abs_error < base.constant_other_sources.median_abs_error
    assert base.always_on == 1.0


def test_intervals_hold_the_error_of_other_sources_and_not_their_own(tmp_path):
    row = row_of(tmp_path)
    exact = [made(row, measured=2.0, speedup=2.0, source=name) for name in "ABCDE"]
    wrong = [made(row, measured=2.0, speedup=4.0, source=name) for name in "YZ"]
    inside = {one.row.source_id: one for one in with_model_error([*exact, *wrong])}
    assert inside["Z"].low == inside["Z"].high == 4.0
    assert inside["A"].high > 2.5


def test_sources_weigh_alike_in_the_model_error():
    sizes = {"x": {"big": [0.1] * 100, **{name: [0.5] for name in "abcde"}}}
    assert model_error(sizes, engine_class="x", leaving_out="none") == 0.5
    assert model_error({}, engine_class="x", leaving_out="none") == 0.0


def test_the_term_that_explains_a_row_makes_it_right_when_scaled(tmp_path):
    one = made(row_of(tmp_path), measured=1.4, speedup=2.8 / 1.3)
    why = explained(one)
    terms = one.terms
    ratio = terms.verify + terms.draft + terms.host
    for name in ("draft", "verify", "host"):
        changed = ratio + (why.factors[name] - 1) * getattr(terms, name)
        assert terms.acceptance_length / changed == pytest.approx(1.4)
    assert why.term == "verify"


def test_taking_out_drafting_makes_everything_faster(tmp_path):
    rows = [made(row_of(tmp_path), measured=2.0, speedup=2.8 / 1.3)]
    whole, free_drafts, *_ = ablations(rows)["serving engines"]
    assert free_drafts.bias > whole.bias


def test_a_crossing_is_the_first_load_below_one():
    assert crossing([1.4, 1.1, 0.9, 1.2]) == 2
    assert crossing([0.8, 1.2]) == 0
    assert crossing([1.4, 1.0]) is None


@pytest.mark.parametrize(
    ("measured", "speedups", "verdict"),
    [
        ((1.5, 1.1, 0.9), (1.6, 0.9, 0.8), "hit"),
        ((1.5, 1.1, 0.9), (1.6, 1.5, 1.4), "miss"),
        ((1.5, 1.2, 1.1), (1.6, 1.5, 1.4), "right never"),
        ((1.5, 1.2, 1.1), (1.6, 1.2, 0.9), "false crossing"),
    ],
)
def test_sweeps_are_judged_by_the_step_in_which_they_cross(tmp_path, measured, speedups, verdict):
    file = tmp_path / "sweeps.csv"
    file.write_text("source_id,hardware,target_model,method,k,dataset,ids\nT,H100,m,eagle3,3,d,r1 r2 r3\n")
    row = row_of(tmp_path)
    rows = [
        replace(
            made(row, measured=actual, speedup=guess),
            row=replace(row, id=f"r{number}", load_value=float(number), speedup=actual),
        )
        for number, (actual, guess) in enumerate(zip(measured, speedups, strict=True), start=1)
    ]
    assert sweeps_of(rows, file)[0][0].verdict == verdict


def test_a_family_under_another_prediction_keeps_its_rows(tmp_path):
    rows = [made(row_of(tmp_path), measured=2.0, speedup=2.2)]
    assert family("x", rows, lambda one: 2.0).median_abs_error == 0.0


def test_a_row_that_breaks_the_code_costs_no_other_row(tmp_path):
    broken = replace(row_of(tmp_path), k=None)
    first, second = predictions_of([broken, row_of(tmp_path)])
    assert first.reason.startswith("failed with AttributeError")
    assert second.status == "computed"
