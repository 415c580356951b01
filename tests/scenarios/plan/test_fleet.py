"""A real trace eight times as dense on 70B deployments: the chosen count holds on seeds that had no part in it."""

import pytest

from scenarios.files import scenario_from_dict
from scenarios.plan import PlanOptions, plan
from scenarios.plan.verify import verified
from scenarios.report.plan_files import plan_json

pytestmark = pytest.mark.slow

FLEET = {
    "schema_version": 1,
    "target": {"model": "meta-llama/Llama-3.1-70B-Instruct"},
    "hardware": {"gpu": "B200-SXM"},
    "speculation": {"method": "eagle3", "draft": "SpecForge/EAGLE3-llama3-70B", "draft_tokens": 3},
    "acceptance": {"length": "2.4@3"},
    "workload": {"kind": "trace", "path": "azure_llm_2023_conv.csv"},
    "slo": ["ttft_p95=1s", "tpot_p95=40ms"],
}
OPTIONS = PlanOptions(
    gpus=("H200-SXM", "B200-SXM"), tensor_parallel=(1, 2), precisions=("bf16", "fp8"), modes=("off", "static"), at="8x"
)


def test_the_chosen_count_holds_on_other_seeds_and_one_fewer_does_not():
    answer = plan(scenario_from_dict(FLEET), OPTIONS, workers=2)
    chosen, fewer = verified(answer)
    assert chosen.meets
    assert not fewer.meets
    assert all(each.half_width_fraction <= 0.01 for each in (*chosen.reached, *fewer.reached))
    assert len(answer.rows) == 16
    assert all(row.reason for row in answer.rows if row.count is None)
    speculating = {row.choice: row.gpus for row in answer.rows if row.mode == "static" and row.count is not None}
    plain = {row.choice: row.gpus for row in answer.rows if row.mode == "off" and row.count is not None}
    assert all(speculating[choice] <= plain[choice] for choice in speculating)


def test_a_plan_does_not_depend_on_its_workers():
    few = {**FLEET, "workload": {"kind": "trace", "path": "azure_llm_2023_conv.csv", "max_requests": 2000}}
    alone, shared = (plan(scenario_from_dict(few), OPTIONS, workers=workers) for workers in (1, 2))
    assert plan_json(alone) == plan_json(shared)
