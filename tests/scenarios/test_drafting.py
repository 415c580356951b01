"""Every proposer, controller and shape of acceptance is reached from a scenario; impossible ones say why not."""

import copy

import numpy as np
import pytest

from roofline.cost import round_cost
from roofline.counts import weight_bytes
from roofline.errors import InvalidInput, SpecdecError
from roofline.hf_config import load_model
from scenarios.build import build_service
from scenarios.files import PRESET_FOLDER, read_toml, scenario_from_dict
from scenarios.loads import load_points, workload_at
from scenarios.proposing import layered_mtp_head, medusa_head
from scenarios.quantization_presets import quantization_names
from scenarios.questions.advice import advise
from scenarios.questions.break_even import acceptance_of_length, longest_length
from scenarios.questions.decide import decide
from scenarios.questions.simulate import simulate_one
from simulator.controllers import AdaptiveBudget, ClosedLoop, OffAbove, ThroughputOptimal
from simulator.plan import expected_length

EAGLE = {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B"}
SMALL = {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "draft_tokens": 3}
BASE = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": EAGLE | {"draft_tokens": 3},
    "acceptance": {"alpha": 0.7},
    "workload": {"kind": "poisson", "rate_per_s": 10.0, "requests": 120, "input_tokens": 256, "output_tokens": 64},
    "run": {"seeds": 1},
}


def _scenario(**changes):
    return scenario_from_dict(copy.deepcopy(BASE) | changes)


def _simulate(**changes):
    return simulate_one(_scenario(**changes)).result


TREE_ONLY = {"speculation": EAGLE | {"tree": {"widths": [2]}}}
WITH_SECOND_CHOICES = {"alpha": 0.65, "sibling_fractions": [0.4, 0.3, 0.2]}


@pytest.mark.parametrize(
    ("speculation", "acceptance", "most"),
    [
        (EAGLE | {"tree": {"widths": [3, 2, 1]}}, WITH_SECOND_CHOICES, 15),
        (EAGLE | {"tree": {"widths": [3, 2, 1]}, "draft_tokens": 6}, WITH_SECOND_CHOICES, 6),
        (EAGLE | {"tree": {"paths": [[0], [1], [0, 0]]}}, WITH_SECOND_CHOICES, 3),
        (EAGLE | {"tree": {"nodes": 20, "depth": 4, "beam": 4}}, WITH_SECOND_CHOICES, 20),
        ({"method": "medusa", "draft_tokens": 3}, {"per_position": [0.6, 0.35, 0.2]}, 3),
        ({"method": "medusa", "tree": {"widths": [2, 2]}}, WITH_SECOND_CHOICES, 6),
        (SMALL | {"method": "pard"}, {"alpha": 0.7}, 3),
        (SMALL | {"vocabulary_overlap_fraction": 0.8}, {"alpha": 0.7}, 3),
        (EAGLE | {"draft_tokens": 3, "padded": False}, {"alpha": 0.7}, 3),
        ({"method": "suffix", "draft_tokens": 4, "proposal_fractions": [0.6, 0.3]}, {"alpha": 0.7}, 4),
        (EAGLE | {"draft_tokens": 3}, {"length": "2.4@3", "spread_concentration": 3.0}, 3),
        (EAGLE | {"draft_tokens": 3}, {"alpha": 0.7, "by_context": [[0, 1.0], [400, 0.5]], "factor": 0.95}, 3),
    ],
)
def test_proposers_and_acceptances_are_simulated_from_a_scenario(speculation, acceptance, most):
    result = _simulate(speculation=speculation, acceptance=acceptance)
    per_round = result.drafted_tokens.sum() / result.rounds.sum()
    assert result.counts.finished == 120
    assert result.acceptance_length > 1.2
    assert 0 < per_round <= most


@pytest.mark.parametrize(
    ("control", "kind"),
    [
        ({"kind": "off_above", "max_running": 4}, OffAbove),
        ({"kind": "throughput_optimal", "least_gain_fraction": 0.02}, ThroughputOptimal),
        ({"kind": "adaptive_budget"}, AdaptiveBudget),
        ({"kind": "closed_loop", "slots": {"1": {"candidate_steps": [1, 3]}}, "switch_s": 0.001}, ClosedLoop),
    ],
)
def test_controllers_are_chosen_in_the_scenario(control, kind):
    scenario = _scenario(speculation=EAGLE | {"draft_tokens": 3, "control": control})
    on = build_service(scenario).on
    assert on is not None
    assert isinstance(on.policy, kind)
    assert on.switch_s == control.get("switch_s", 0.0)
    assert simulate_one(scenario).result.counts.finished == 120


def test_a_given_length_holds_although_requests_differ():
    length = {"length": "2.4@3", "spread_concentration": 3.0, "spread_over": "rounds"}
    load = BASE["workload"] | {"requests": 600, "output_tokens": 200}
    assert _simulate(acceptance=length, workload=load).acceptance_length == pytest.approx(2.4, abs=0.03)


def test_a_published_loss_of_quantisation_lowers_every_acceptance():
    given = {"alpha": 0.8, "quantization_preset": "gemma-4-31b-iq2_m"}
    (case,) = build_service(_scenario(acceptance=given)).cases
    assert case.models[0].conditional(2) == pytest.approx([0.8 * 0.955] * 2)
    assert case.label == "assumed"
    for name in quantization_names():
        source = read_toml(PRESET_FOLDER / "quantization.toml", what="preset file")[name]["source"]
        assert set(source) == {"title", "url", "retrieved"}
    with pytest.raises(SpecdecError, match="quantization_preset must be one of"):
        build_service(_scenario(acceptance={"alpha": 0.8, "quantization_preset": "int3"}))


def test_the_load_swings_around_its_mean():
    swing = {"on_s": 4.0, "off_s": 12.0}
    scenario = _scenario(workload=BASE["workload"] | {"swing": swing, "requests": 3000})
    point = load_points(scenario, None)[0]
    arrivals_s = workload_at(scenario, point, trace=None, seed=0).arrival_s
    assert np.all(arrivals_s % 16.0 <= 4.0 + 1e-6)
    assert len(arrivals_s) / arrivals_s[-1] == pytest.approx(point.value, rel=0.1)


def test_medusa_heads_are_held_in_memory_one_by_one():
    target = load_model("meta-llama/Llama-3.1-8B-Instruct")
    one, three = (weight_bytes(medusa_head(target, held=held)) for held in (1, 3))
    by_hand = 2 * (4096 * 4096 + 4096 + 4096 * 128256)
    assert one == by_hand
    assert three == 3 * by_hand


def test_an_mtp_head_has_the_layers_its_config_says():
    target = load_model("deepseek-ai/DeepSeek-V3")
    with pytest.raises(InvalidInput, match="must be the 1 MTP layers"):
        layered_mtp_head(target, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"speculation": {"method": "ngram", "draft_tokens": 3, "proposal_fraction": 0.5, "tree": {"widths": [2]}}},
            r"speculation.tree does not go with method 'ngram'",
        ),
        ({"speculation": EAGLE | {"tree": {"widths": [2], "nodes": 4}}}, "exactly one of widths, paths and nodes"),
        ({"speculation": EAGLE | {"tree": {"widths": [2]}, "draft_tokens": 9}}, r"must be in 1\.\.2, the nodes"),
        ({"speculation": EAGLE | {"tree": {"widths": [2]}}}, "sibling_fractions say"),
        ({"speculation": {"method": "medusa", "tree": {"nodes": 6}}}, "Medusa verifies a fixed tree"),
        ({"speculation": EAGLE | {"draft_tokens": 3, "mtp_layers": 2}}, "mtp_layers does not go with method 'eagle3'"),
        ({"speculation": SMALL | {"padded": False}}, "padded = false does not go with method 'draft_model'"),
        (
            {"speculation": {"method": "suffix", "draft_tokens": 3, "proposal_fractions": [0.2, 0.5]}},
            "proposal_fractions must not rise",
        ),
        (
            {
                "speculation": EAGLE
                | {
                    "draft_tokens": 3,
                    "control": {"kind": "adaptive_budget"},
                    "draft_tokens_by_batch": [[1, 4, 3]],
                }
            },
            "both choose K",
        ),
        ({"speculation": EAGLE | {"draft_tokens": 3, "control": {"kind": "off_above"}}}, "max_running goes with"),
        (
            {"speculation": EAGLE | {"draft_tokens": 3, "control": {"kind": "closed_loop"}}},
            "at least the largest candidate of the closed loop, 7, got 3",
        ),
        ({"acceptance": {"alpha": 0.5, "by_context": [[10, 1.0], [5, 0.5]]}}, "by_context must rise"),
        ({"workload": BASE["workload"] | {"swing": {"on_s": 3.0}}}, "needs on_s and off_s"),
        ({"workload": BASE["workload"] | {"kind": "gamma", "swing": {"on_s": 3.0, "off_s": 1.0}}}, "needs kind"),
    ],
)
def test_impossible_combinations_are_refused_with_the_reason(changes, message):
    with pytest.raises(SpecdecError, match=message):
        _simulate(**changes)


ONE_LOAD = {"loads": {"factors": [1.0]}, "workload": BASE["workload"] | {"rate_per_s": 2.0, "requests": 120}}


@pytest.mark.parametrize("tree", [{"widths": [3, 2, 1]}, {"nodes": 12, "depth": 3, "beam": 3}])
def test_trees_are_decided_beside_the_chain_of_the_same_drafter(tree):
    decision = decide(_scenario(speculation=EAGLE | {"tree": tree}, acceptance=WITH_SECOND_CHOICES, **ONE_LOAD))
    load = decision.loads[0]
    middle = decision.cases[0].length(decision.draft_tokens)

    assert load.middle.word == "ON"
    assert load.middle.on.acceptance_length == pytest.approx(middle, rel=0.05)
    assert load.break_even.kind == "at"
    assert 1.0 < load.break_even.length < middle
    assert decision.longest_length == pytest.approx(4.0)
    chain, fixed, dynamic = decision.shapes
    assert [shape.name for shape in decision.shapes] == ["chain", "fixed tree", "dynamic tree"]
    assert fixed.advice.at(1).speedup > chain.advice.at(1).speedup
    assert dynamic.advice.at(1).speedup > chain.advice.at(1).speedup
    assert "Shapes" in decision.report()


def test_a_tree_breaks_even_at_the_length_that_the_simulation_then_shows():
    service = build_service(_scenario(speculation=EAGLE | {"tree": {"widths": [3, 2]}}, acceptance=WITH_SECOND_CHOICES))
    model = acceptance_of_length(service, 1.8)
    assert expected_length(service.on.proposer, model, service.draft_tokens) == pytest.approx(1.8, abs=5e-3)
    assert longest_length(service) == pytest.approx(3.0)


def test_a_tree_without_second_choices_has_no_break_even():
    with pytest.raises(InvalidInput, match="the break-even of a tree depends on its second choices"):
        decide(scenario_from_dict({k: v for k, v in BASE.items() if k != "acceptance"} | TREE_ONLY))


def test_suffix_decoding_is_advised_over_matches_of_every_length():
    suffix = {"method": "suffix", "draft_tokens": 4, "proposal_fractions": [0.6, 0.3, 0.1, 0.05]}
    service = build_service(_scenario(speculation=suffix))
    advice = advise(service.on, service.cases[0], context_tokens=300, max_draft_tokens=4)
    lengths = 1 + np.cumsum(np.array([0.6, 0.3, 0.1, 0.05]) * 0.7 ** np.arange(1, 5))
    ratios = [
        round_cost(service.on.costs, batch=1, context_tokens=300, draft_tokens=drafts).ratio for drafts in range(1, 5)
    ]
    expected = lengths[3] / (0.4 + 0.3 * ratios[0] + 0.2 * ratios[1] + 0.05 * ratios[2] + 0.05 * ratios[3])
    assert advice.speedups[4, 0] == pytest.approx(expected)


def test_sglang_runs_at_most_48_requests_with_speculation_unless_told_otherwise():
    default = build_service(_scenario(engine={"profile": "sglang"}))
    told = build_service(_scenario(engine={"profile": "sglang", "max_sequences": 200}))
    assert (default.off.limits.max_sequences, default.on.limits.max_sequences) == (1024, 48)
    assert told.on.limits.max_sequences == 200
