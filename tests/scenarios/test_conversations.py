"""Sessions and sampled acceptance are reached from a scenario: contexts grow, later turns accept more."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from roofline.errors import InvalidInput
from scenarios.build import build_service, typical_context_tokens
from scenarios.cli.options import scenario_table
from scenarios.files import scenario_from_dict
from scenarios.loads import load_points, workload_at
from scenarios.questions.break_even import simulate_arm
from scenarios.questions.decide import decide
from scenarios.questions.simulate import simulate_one

BASE = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": {"method": "ngram", "draft_tokens": 3, "proposal_fraction": 1.0},
    "acceptance": {"alpha": 0.7},
    "workload": {
        "kind": "sessions",
        "rate_per_s": 8.0,
        "requests": 60,
        "turns": 6,
        "think_s": 2.0,
        "think_sigma": 0.4,
        "first_input_tokens": 300,
        "input_tokens": 50,
        "output_tokens": 40,
    },
    "run": {"seeds": 1},
}
BY_TURN = [{"from_turn": 1, "acceptance": {"alpha": 0.2}}, {"from_turn": 3, "acceptance": {"alpha": 0.9}}]


def _scenario(**changes):
    table = copy.deepcopy(BASE)
    for section, values in changes.items():
        table[section] = values if section == "acceptance" else {**table[section], **values}
    return scenario_from_dict(table)


def test_contexts_grow_from_turn_to_turn_and_what_was_said_is_found_in_the_cache():
    scenario = _scenario()
    requests = workload_at(scenario, load_points(scenario, None)[3], trace=None, seed=0)
    assert requests.prompt_tokens[:6].tolist() == [300, 390, 480, 570, 660, 750]
    assert requests.prefix_hit_tokens[:6].tolist() == [0, 340, 430, 520, 610, 700]
    assert typical_context_tokens(scenario, None) == pytest.approx((requests.prompt_tokens + 20).mean())


def test_a_turn_waits_for_the_answer_before_it_in_both_arms():
    on, off = (simulate_one(_scenario(), arm=arm).result for arm in ("on", "off"))
    for result in (on, off):
        arrivals, ends = result.arrival_s.reshape(10, 6), result.finished_s.reshape(10, 6)
        assert np.all(arrivals[:, 1:] > ends[:, :-1])
        assert result.counts.finished == 60
    thought_s = on.arrival_s.reshape(10, 6)[:, 1:] - on.finished_s.reshape(10, 6)[:, :-1]
    assert np.allclose(thought_s, off.arrival_s.reshape(10, 6)[:, 1:] - off.finished_s.reshape(10, 6)[:, :-1])


def test_turns_that_repeat_the_session_accept_more():
    result = simulate_one(_scenario(workload={"acceptance_by_turn": BY_TURN})).result
    lengths = 1 + result.accepted_tokens / np.maximum(result.rounds, 1)
    assert result.class_id.reshape(10, 6)[0].tolist() == [0, 0, 1, 1, 1, 1]
    assert lengths[result.class_id == 1].mean() > lengths[result.class_id == 0].mean() + 1.0


def test_a_turn_after_a_refused_one_never_arrives_and_stands_in_its_place():
    scenario = _scenario()
    service = build_service(scenario)
    limits = service.off.limits.model_copy(update={"max_context_tokens": 600})
    requests = workload_at(scenario, load_points(scenario, None)[3], trace=None, seed=0)
    result = simulate_arm(replace(service.off, limits=limits), requests, seed=0)
    assert result.counts.refused == 10
    assert np.isnan(result.arrival_s.reshape(10, 6)[:, 4:]).all()
    assert result.refused.reshape(10, 6).sum(axis=0).tolist() == [0, 0, 0, 10, 0, 0]
    assert np.isfinite(result.throughput_tokens_per_s)


def test_sessions_are_decided_turn_by_turn():
    table = {"acceptance_by_turn": [{"from_turn": 1, "acceptance": {"alpha": 0.9}}]}
    decision = decide(_scenario(workload=table | {"requests": 96}))
    assert decision.loads[0].middle is not None
    assert decision.loads[0].middle.word == "ON"
    assert "sessions of 6" in decision.report()


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"acceptance_by_turn": BY_TURN[1:]}, "must start at turn 1"),
        ({"acceptance_by_turn": BY_TURN, "turns": 2}, "goes to turn 3, but sessions have 2 turns"),
        ({"turns": 0}, "turns"),
        ({"prefix_hit_fraction": 0.3}, "prefix_hit_fraction"),
    ],
)
def test_sessions_that_cannot_be_are_refused(workload, message):
    with pytest.raises(InvalidInput, match=message):
        _scenario(workload=workload)


def test_options_of_other_loops_are_refused_over_sessions_and_a_rate_keeps_them(tmp_path):
    file = tmp_path / "sessions.toml"
    file.write_text('schema_version = 1\n[workload]\nkind = "sessions"\nturns = 4\n', encoding="utf-8")
    table, _ = scenario_table(str(file), {"rate": "3", "input_tokens": "10"})
    assert table["workload"] == {"kind": "sessions", "turns": 4, "rate_per_s": 3.0, "input_tokens": 10}
    with pytest.raises(InvalidInput, match="--concurrency means nothing for sessions"):
        scenario_table(str(file), {"concurrency": "3"})


def _logits(tmp_path, **arrays):
    path = tmp_path / "logits.npz"
    np.savez(path, **arrays)
    return str(path)


def test_temperature_and_draft_sampling_set_the_acceptance(tmp_path):
    generator = np.random.default_rng(0)
    target = generator.normal(0, 2, (400, 50))
    path = _logits(tmp_path, target=target, draft=target + generator.normal(0, 1, (400, 50)))

    def alpha(**how):
        (case,) = build_service(_scenario(acceptance={"logits": path, **how})).cases
        assert case.label == "measured"
        return case.models[0].alpha

    greedy, warm = alpha(), alpha(temperature=1.0)
    sampled = alpha(temperature=1.0, draft_sampling="probabilistic")
    assert warm < sampled
    assert warm < greedy
    assert alpha(temperature=0.01) == pytest.approx(greedy, abs=0.02)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"target": np.ones((2, 3))}, "needs arrays target and draft, got target"),
        ({"target": np.ones((2, 3)), "draft": np.ones((2, 4))}, "two arrays of one shape"),
        ({"target": np.full((2, 3), np.nan), "draft": np.ones((2, 3))}, "must be finite"),
        ({"target": np.array(["a"]), "draft": np.ones(1)}, "is no .npz of numbers"),
    ],
)
def test_logits_that_say_nothing_are_refused(tmp_path, arrays, message):
    with pytest.raises(InvalidInput, match=message):
        build_service(_scenario(acceptance={"logits": _logits(tmp_path, **arrays)}))


def test_a_file_that_is_no_npz_is_refused_in_one_sentence(tmp_path):
    file = tmp_path / "logits.npz"
    file.write_bytes(b"not a zip")
    for path, message in ((file, "is no .npz of numbers"), (tmp_path / "missing.npz", "cannot be read")):
        with pytest.raises(InvalidInput, match=message):
            build_service(_scenario(acceptance={"logits": str(path)}))


def test_a_temperature_without_logits_is_refused():
    with pytest.raises(InvalidInput, match="temperature needs logits to act on, got alpha"):
        _scenario(acceptance={"alpha": 0.5, "temperature": 0.7})
