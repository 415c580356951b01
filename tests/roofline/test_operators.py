"""Bytes, flops and seconds of single operators, against hand-worked numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.operators import forward_operators, joined_s, logits_operators, padded_tokens
from roofline.specs import Experts, Linear
from tests.roofline.small_models import deployment, model


def _by_name(operators):
    return {operator.name: operator for operator in operators}


def test_a_matrix_streams_its_weights_once_and_computes_every_row():
    square = _by_name(forward_operators(model(layers=3), 5, deployment().shard()))["square"]

    assert square.hbm_bytes == 3 * (64 * 64 * 2 + 5 * (64 + 64) * 2)
    assert square.flops == 3 * 2 * 5 * 64 * 64
    assert square.seconds == pytest.approx(square.hbm_bytes / 1e9 + square.flops / 1e12, rel=1e-12)


def test_tensor_parallelism_halves_a_column_cut_matrix_and_adds_an_all_reduce_where_a_part_ends():
    operators = _by_name(forward_operators(model(layers=3), 5, deployment(tensor=2).shard()))

    assert operators["square"].flops == 3 * 5 * 64 * 64
    assert operators["square"].hbm_bytes == 3 * (64 * 32 * 2 + 5 * (64 + 32) * 2)
    message_bytes = 5 * 64 * 2
    assert operators["all_reduce"].seconds == pytest.approx(3 * (1e-3 + message_bytes / 1e9), rel=1e-12)


def test_experts_stream_what_is_touched_and_compute_what_is_used():
    experts = Experts(count=8, per_token=2, linears=(Linear(name="up", inputs=64, outputs=32, kind="ffn"),))
    cost = _by_name(forward_operators(model(experts=experts), 1, deployment().shard()))["experts"]

    assert cost.hbm_bytes == 2 * 64 * 32 * 2 + 2 * (64 + 32) * 2
    assert cost.flops == 2 * 2 * 64 * 32


def test_the_lm_head_runs_over_the_rows_asked_for():
    head = _by_name(logits_operators(model(), 7, deployment().shard()))["lm_head"]

    assert head.hbm_bytes == 64 * 100 * 2 + 7 * (64 + 100) * 2
    assert head.flops == 2 * 7 * 64 * 100


def test_tiles_round_the_computed_rows_up():
    tiled = _by_name(forward_operators(model(), 17, deployment(tile_tokens=16).shard()))["square"]
    plain = _by_name(forward_operators(model(), 32, deployment().shard()))["square"]

    assert tiled.seconds - tiled.hbm_bytes / 1e9 == pytest.approx(plain.flops / 1e12, rel=1e-9)


@pytest.mark.parametrize(("asked", "padded"), [(0, 0), (1, 1), (3, 4), (4, 4), (5, 8), (8, 8), (9, 9)])
def test_steps_are_padded_to_the_next_captured_size(asked, padded):
    assert padded_tokens(asked, (1, 2, 4, 8)) == padded


@given(
    tokens=st.lists(st.integers(0, 300), min_size=1, max_size=6),
    tensor=st.sampled_from([1, 2]),
    p_norm=st.one_of(st.none(), st.floats(1.0, 16.0)),
)
def test_a_scalar_call_and_an_array_call_agree(tokens, tensor, p_norm):
    experts = Experts(count=8, per_token=2, linears=(Linear(name="up", inputs=64, outputs=32, kind="ffn"),))
    shard = deployment(tensor=tensor, p_norm=p_norm).shard()
    together = list(forward_operators(model(experts=experts), np.array(tokens), shard))
    for index, count in enumerate(tokens):
        for whole, single in zip(together, forward_operators(model(experts=experts), count, shard), strict=True):
            assert whole.seconds[index] == pytest.approx(float(single.seconds), rel=1e-14)
            assert whole.hbm_bytes[index] == single.hbm_bytes


@given(memory_s=st.floats(0, 1e3), compute_s=st.floats(0, 1e3), p_norm=st.floats(1.0, 32.0))
def test_the_joined_time_lies_between_the_maximum_and_the_sum(memory_s, compute_s, p_norm):
    joined = joined_s(memory_s, compute_s, p_norm)

    assert max(memory_s, compute_s) <= joined * (1 + 1e-12)
    assert joined <= (memory_s + compute_s) * (1 + 1e-12)
    assert joined_s(memory_s, compute_s, None) == max(memory_s, compute_s)
