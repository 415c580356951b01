import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.catalog import gpu, shipped_calibration
from roofline.cost import trunk_s
from roofline.expert_groups import busiest_experts, busiest_rows
from roofline.hf_config import load_model
from roofline.operators import Shard


@given(st.integers(2, 8), st.floats(0, 256), st.floats(0, 1e5))
def test_the_busiest_gpu_has_at_least_the_mean_and_at_most_everything(gpus, touched, rows):
    experts = busiest_experts(256, gpus, np.array([touched]))[0]
    assert touched / gpus * (1 - 1e-12) <= experts <= min(256 / gpus, max(touched, 0)) + 1e-9
    share = busiest_rows(np.array([rows]), gpus)[0]
    assert rows / gpus * (1 - 1e-12) <= share <= rows + 1e-9


def test_where_all_experts_are_touched_nobody_waits():
    assert busiest_experts(64, 8, np.array([64.0]))[0] == pytest.approx(8.0)


def test_the_bound_is_near_the_mean_largest_load_of_a_draw():
    generator = np.random.default_rng(7)
    loads = np.stack([np.bincount(generator.choice(256, 64, replace=False) // 32, minlength=8) for _ in range(4000)])
    assert busiest_experts(256, 8, np.array([64.0]))[0] == pytest.approx(loads.max(axis=1).mean(), rel=0.15)


def test_whole_experts_cost_more_than_cut_ones_while_few_tokens_leave_some_gpus_idle():
    model = load_model("Qwen/Qwen3-235B-A22B")
    calibration = shipped_calibration("H200-SXM", "vllm")
    assert calibration is not None
    graphs = tuple(range(1, 513))
    cut, whole = (
        Shard(gpu("H200-SXM"), calibration, tensor=8, graph_tokens=graphs, whole_experts=whole)
        for whole in (False, True)
    )
    tokens = np.array([8])
    assert trunk_s(model, tokens, whole)[0] > trunk_s(model, tokens, cut)[0]
