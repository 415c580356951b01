"""`plan`: the smallest count that meets the objectives, with the floor, the bound and the reasons around it."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from roofline.errors import InvalidInput
from scenarios.cli.main import run
from scenarios.files import scenario_from_dict
from scenarios.plan import PlanOptions, Price, plan
from scenarios.plan.attainment import BLOCKS, reached
from scenarios.plan.counting import Trials
from scenarios.plan.floor import served_alone
from scenarios.plan.modes import engine_of
from scenarios.plan.rows import planned
from scenarios.report.plan_files import plan_csv, plan_json
from scenarios.report.plan_text import plan_text
from simulator.result import Slo

SLOS = ["ttft_p95=400ms", "tpot_p95=25ms"]


def _scenario(slo=SLOS, rate_per_s=60.0, requests=600, **changes):
    table = {
        "schema_version": 1,
        "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
        "hardware": {"gpu": "H100-SXM"},
        "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
        "acceptance": {"length": "2.5@3"},
        "workload": {
            "kind": "poisson", "rate_per_s": rate_per_s, "requests": requests,
            "input_tokens": {"mean_tokens": 600, "sigma": 0.6}, "output_tokens": {"mean_tokens": 120, "sigma": 0.6},
        },
        "slo": slo,
    }  # fmt: skip
    return scenario_from_dict(table | changes)


OFF = PlanOptions(modes=("off",))


@pytest.fixture(scope="module")
def answer():
    return plan(_scenario(), replace(OFF, modes=("off", "static"), prices=(("H100-SXM", Price(2.0, 1.5)),)))


def test_the_count_is_the_smallest_that_meets_the_objectives():
    here = planned(_scenario(), OFF)
    trials = here.trials(engine_of(here.service, "off", here.requests(0)), 4)
    found = trials.fewest(1, 20)
    assert found is not None
    one_by_one = [trials.judge(replicas).meets for replicas in range(1, found.replicas + 2)]
    assert one_by_one == [False] * (found.replicas - 1) + [True, True]
    assert found.replicas > 1


def test_a_plan_ranks_by_cost_and_knows_its_neighbours(answer):
    first, second = answer.rows
    assert first.gpus <= second.gpus
    assert first.count.meets
    assert first.one_fewer is None or not first.one_fewer.meets
    assert first.bound_replicas <= first.replicas
    assert answer.best.row == first
    assert 0.0 <= answer.best.headroom_fraction <= 1.0
    assert answer.best.marks.knee_per_s <= answer.best.marks.peak_per_s


def test_costs_are_prices_times_gpu_hours_over_tokens(answer):
    row, cost = answer.rows[0], answer.costs[0]
    tokens_per_hour = row.count.throughput_tokens_per_s * 3600
    assert cost.usage_per_million_tokens == pytest.approx(2.0 * row.gpus / tokens_per_hour * 1e6)
    assert cost.reserved_per_million_tokens == pytest.approx(1.5 * row.gpus / tokens_per_hour * 1e6)
    assert cost.reserved_spare_per_million_tokens > cost.reserved_per_million_tokens


def test_without_a_price_there_is_no_cost():
    answer = plan(_scenario(rate_per_s=5.0, requests=200), OFF)
    assert set(vars_of(answer.costs[0])) == {None}
    assert "No price was given" in plan_text(answer)


def vars_of(cost):
    return [getattr(cost, name) for name in type(cost).__slots__]


def test_an_objective_below_its_floor_is_infeasible_with_the_floor():
    answer = plan(_scenario(slo=["tpot_p95=2ms"]), OFF)
    [row] = answer.rows
    assert row.status == "INFEASIBLE"
    assert answer.best is None
    [floor] = row.floors
    assert floor.fraction == 0.0
    assert floor.value_s > 0.002
    assert f"its floor is {1e3 * floor.value_s:.3g} ms" in row.reason
    assert "INFEASIBLE" in plan_text(answer).splitlines()[0]


def test_requests_alone_find_the_floor_that_many_replicas_find():
    here = planned(_scenario(requests=200), OFF)
    engine = engine_of(here.service, "off", here.requests(0))
    alone = served_alone(engine.engine, here.requests(0), 0)
    crowd = here.trials(engine, 1).run(200, 0)
    assert crowd.percentile("tpot", 0.95) == pytest.approx(alone.percentile("tpot", 0.95), rel=1e-9)


def test_what_may_not_be_bought_is_said_with_its_reason():
    [row] = plan(_scenario(rate_per_s=200.0), replace(OFF, max_gpus=1)).rows
    assert row.status in ("SATURATED", "TOO MANY GPUS")
    [wide] = plan(_scenario(), replace(OFF, tensor_parallel=(4,), max_gpus=2)).rows
    assert wide.status == "TOO MANY GPUS"
    assert "one replica takes 4 GPUs" in wide.reason


def test_a_split_that_cannot_be_is_a_row_with_its_reason():
    answer = plan(_scenario(rate_per_s=5.0, requests=200), replace(OFF, tensor_parallel=(1, 3)))
    assert [row.status for row in answer.rows] == ["MEETS", "INFEASIBLE"]
    assert "must divide the 32 attention heads" in answer.rows[1].reason


def test_more_load_never_needs_fewer_replicas():
    counts = [plan(_scenario(), replace(OFF, at=at)).rows[0].replicas for at in ("0.5x", "60", "2x")]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_an_autoscaler_that_starts_at_once_needs_no_more_than_the_peak():
    answer = plan(_scenario(), replace(OFF, start_delay_s=0.0, cool_down_s=1.0))
    scaled = answer.best.scaled
    assert scaled.mean_replicas <= answer.rows[0].replicas * 1.01
    assert scaled.peak_replicas >= 1


def test_seeds_of_a_trace_begin_elsewhere_and_keep_its_requests():
    trace = _scenario(workload={"kind": "trace", "path": "azure_llm_2023_conv.csv", "max_requests": 500})
    here = planned(trace, OFF)
    first, other = here.requests(0), here.requests(1)
    assert sorted(zip(first.prompt_tokens, first.output_tokens, strict=True)) == sorted(
        zip(other.prompt_tokens, other.output_tokens, strict=True)
    )
    gaps_s = [np.sort(np.diff(load.arrival_s)) for load in (first, other)]
    assert np.abs(gaps_s[0] - gaps_s[1]).mean() < 1e-3
    assert not np.array_equal(first.prompt_tokens, other.prompt_tokens)
    assert other.arrival_s[0] == 0.0


def _conversations(path):
    """Ten users with six turns each; a prompt is the last one and a block of 512 tokens more."""
    lines = [
        {
            "timestamp": 150 * (10 * turn + user), "input_length": 512 * (turn + 1) + 40, "output_length": 60,
            "hash_ids": [100 * user + block for block in range(turn + 1)],
        }
        for turn in range(6)
        for user in range(10)
    ]  # fmt: skip
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    return {"kind": "trace", "path": str(path)}


def test_a_prefix_aware_router_computes_less_of_the_same_conversations(tmp_path):
    talks = _scenario(workload=_conversations(tmp_path / "talks.jsonl"))
    sums = {}
    for router in ("round_robin", "prefix_aware"):
        here = planned(talks, replace(OFF, router=router, own_caches=True))
        trials = here.trials(engine_of(here.service, "off", here.requests(0)), 1)
        sums[router] = [trials.run(3, seed).totals.step_tokens for seed in (0, 1)]
    assert sums["prefix_aware"][0] == 60 * (512 + 40 + 59)
    assert all(aware < dealt for aware, dealt in zip(sums["prefix_aware"], sums["round_robin"], strict=True))
    assert plan(talks, replace(OFF, router="prefix_aware")).rows[0].status == "MEETS"


def test_an_interval_is_by_runs_when_there_are_enough():
    slo = (Slo("ttft", 0.95, 1.0),)
    halves = np.concatenate([np.full(BLOCKS // 2, 0.9), np.full(BLOCKS // 2, 1.0)])[None]
    few, many = reached([halves] * 2, slo)[0], reached([halves] * 3, slo)[0]
    assert [few.fraction, many.fraction] == pytest.approx([0.95, 0.95])
    assert few.half_width_fraction > 0.01
    assert many.half_width_fraction == pytest.approx(0.0, abs=1e-12)


class Guessed(Trials):
    """Starts its search at a count that it was told."""

    start = 1

    def guess(self, lowest: int, highest: int) -> int:
        return min(highest, max(lowest, self.start))


def test_the_search_finds_the_same_from_any_guess():
    here = planned(_scenario(requests=300), OFF)
    engine = engine_of(here.service, "off", here.requests(0))
    found = set()
    for start in (1, 3, 12):
        trials = Guessed(engine.engine, here.slos, here.requests, 0, 2)
        trials.start = start
        found.add(trials.fewest(1, 20).replicas)
    assert len(found) == 1


def test_json_and_csv_hold_every_row(answer):
    content = json.loads(plan_json(answer))
    assert [row["replicas"] for row in content["rows"]] == [row.replicas for row in answer.rows]
    assert content["rows"][0]["cost"]["usage_per_million_tokens"] > 0
    assert content["answer"] in plan_text(answer)
    header, *rows = plan_csv(answer).splitlines()
    assert len(rows) == 2
    assert all(len(row.split(",")) == len(header.split(",")) for row in rows)
    assert math.isfinite(float(rows[0].split(",")[header.split(",").index("tokens_per_s_per_gpu")]))


def test_the_command_writes_its_files_and_says_infeasible_by_its_exit_code(tmp_path, capsys):
    asked = ["plan", "llama8b_h100_chat", "--requests", "200", "--modes", "off", "--workers", "1"]
    assert run([*asked, "--out", str(tmp_path / "plan")]) == 0
    assert sorted(file.name for file in (tmp_path / "plan").iterdir()) == ["pareto.png", "plan.csv", "plan.json"]
    assert run([*asked, "--slo", "tpot_p95=1ms"]) == 3
    assert "its floor is" in capsys.readouterr().out


def test_a_check_in_words_and_json_alone_are_not_asked_for_together(capsys):
    assert run(["plan", "llama8b_h100_chat", "--verify", "--json"]) == 2
    assert "--verify prints text and --json prints JSON alone; keep one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"slo": []}, OFF, "needs objectives"),
        ({}, replace(OFF, gpus=("H1",)), "GPU 'H1' is not in the catalogue"),
        ({}, replace(OFF, prices=(("B200-SXM", Price(1.0)),)), "not for H100-SXM"),
        ({}, replace(OFF, router="prefix_aware"), "names the blocks of its prompts"),
        ({}, replace(OFF, at="0"), "--at must be above 0"),
        ({"acceptance": None}, replace(OFF, modes=("static",)), "acceptance is missing"),
    ],
)
def test_what_is_wrong_everywhere_is_refused(changes, options, sentence):
    with pytest.raises(InvalidInput if "catalogue" not in sentence else ValueError, match=sentence):
        plan(_scenario(**changes), options)


def test_a_day_with_bursts_is_a_load():
    swing = {"on_s": 2, "off_s": 6, "quiet_fraction": 0.3, "period_s": 40, "swing_fraction": 0.5}
    lengths = {"input_tokens": 300, "output_tokens": 60}
    bursty = {"kind": "poisson", "rate_per_s": 30.0, "requests": 600, "swing": swing, **lengths}
    steady = {"kind": "poisson", "rate_per_s": 30.0, "requests": 600, **lengths}
    counts = [plan(_scenario(workload=load), OFF).rows[0].replicas for load in (steady, bursty)]
    assert counts[0] <= counts[1]


def test_a_closed_loop_is_no_load_to_plan_for():
    closed = {"kind": "closed", "concurrency": 4, "input_tokens": 10, "output_tokens": 10}
    with pytest.raises(InvalidInput, match="arrive on their own"):
        plan(_scenario(workload=closed), OFF)


def test_drawn_loads_are_drawn_anew_by_seed():
    scenario = _scenario()
    here = planned(scenario, OFF)
    assert not np.array_equal(here.requests(0).arrival_s, here.requests(1).arrival_s)
