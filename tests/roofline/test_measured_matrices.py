import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.cost import Deployment, TableSize, step_cost_table
from roofline.errors import OutsideDomain
from roofline.measured_matrices import MeasuredMatrices
from roofline.operators import matrix_s
from roofline.tables_cost import measured_cost_table
from tests.roofline import small_models as small

ROWS = np.array([1.0, 8.0, 17.0, 32.0, 64.0, 512.0])
SIDES = np.array([8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 100.0, 128.0, 256.0])


def measured(**changes):
    """A grid of what the hand-made calibration itself says."""
    fit = small.deployment().calibration.operator("gemm", "bf16")
    seconds = np.zeros((len(SIDES), len(SIDES), len(ROWS)))
    for column, columns in enumerate(SIDES):
        for depth, inner in enumerate(SIDES):
            moved_bytes = 2 * columns * inner + 2 * ROWS * (columns + inner)
            seconds[column, depth] = matrix_s(
                fit, moved_bytes, 2 * ROWS * columns * inner, rows=ROWS, shape=(inner, columns)
            )
    values = {
        "weights": "bf16", "rows": ROWS, "columns": SIDES, "inner": SIDES, "seconds": seconds,
        "bytes_per_weight": 2.0, "bytes_per_s": 1e9, "flops_per_s": 1e12, "cold_bytes_per_s": 1e18,
    }  # fmt: skip
    return MeasuredMatrices(**{**values, **changes})


def test_measured_shapes_and_rows_come_back_as_measured():
    grid = measured()
    assert grid.product_s(ROWS, (32.0, 64.0)) == pytest.approx(grid.seconds[5, 3])


@given(st.integers(1, 2000), st.integers(1, 200))
def test_more_rows_never_take_less_time(rows, more):
    grid = measured()
    shape = (SIDES[2], SIDES[4])
    assert grid.product_s(rows + more, shape) >= grid.product_s(rows, shape) * (1 - 1e-9)


def test_rows_between_two_measured_ones_lie_between_their_times():
    grid = measured()
    between = grid.product_s(np.arange(17, 33), (32.0, 64.0))
    assert between[0] == pytest.approx(grid.seconds[5, 3, 2])
    assert between[-1] == pytest.approx(grid.seconds[5, 3, 3])
    assert np.all(np.diff(between) >= 0)


def test_rows_of_one_tile_cost_nearly_the_same_and_one_more_row_than_a_tile_costs_the_step():
    rising = measured(
        rows=np.array([64.0, 128.0, 256.0]), seconds=np.tile([1.0, 2.0, 4.0], (len(SIDES), len(SIDES), 1))
    )
    inside = rising.product_s(np.array([129.0, 256.0]), (32.0, 64.0))
    assert inside[0] == pytest.approx(inside[1], rel=0.1)
    assert inside[0] > 1.8 * rising.product_s(128.0, (32.0, 64.0))


def test_a_shape_between_measured_ones_costs_about_what_its_bytes_and_flops_say():
    grid = measured()
    assert grid.product_s(512.0, (40.0, 64.0)) == pytest.approx(
        (grid.product_s(512.0, (32.0, 64.0)) + grid.product_s(512.0, (48.0, 64.0))) / 2, rel=0.05
    )


def test_weights_are_never_read_faster_than_cold_memory_allows():
    warm = measured(cold_bytes_per_s=1e3)
    assert float(warm.product_s(1.0, (32.0, 64.0))) == pytest.approx(2 * 32 * 64 / 1e3)


def test_a_step_table_read_from_the_constants_own_times_is_the_table_of_the_constants():
    model, deployment = small.model(), small.deployment()
    size = TableSize(max_tokens=64, max_sequences=8)
    fitted = step_cost_table(model, deployment, size=size)
    sides = {side for layer in model.layers for linear in layer.linears for side in (linear.inputs, linear.outputs)}
    sides |= {model.lm_head.inputs, model.lm_head.outputs}
    assert sides <= set(SIDES.astype(int)), "the grid must hold the model's shapes"
    read = measured_cost_table(model, deployment, measured=(measured(),), size=size)
    for rows in (1, 8, 17, 32, 64):
        assert read.target.trunk_s[rows] == pytest.approx(fitted.target.trunk_s[rows])
    assert read.target.logits_s[8] == pytest.approx(fitted.target.logits_s[8])
    assert read.sample_plain_s == pytest.approx(fitted.sample_plain_s)


def test_a_format_that_was_not_measured_is_refused_by_name():
    deployment: Deployment = small.deployment()
    with pytest.raises(OutsideDomain, match="bf16"):
        measured_cost_table(small.model(), deployment, measured=(), size=TableSize(max_tokens=8, max_sequences=2))
