import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.calibration import CollectiveFit, KernelBand, Knot, MessageTime, OperatorFit
from roofline.collectives import all_reduce_s
from roofline.kernel_bands import banded_s
from roofline.operators import matrix_s, operator_s

PLAIN = KernelBand(rows=1, overhead_s=1e-6, bytes_per_s=1e12, flops_per_s=1e14, p_norm=2.0)
SHAPE = {"columns": 4096.0, "inner": 1024.0}


def seconds(bands, rows, processors=100, **shape):
    shape = {**SHAPE, **shape}
    weights = shape["columns"] * shape["inner"]
    return banded_s(bands, 2 * weights, 2 * rows * weights, rows=rows, processors=processors, **shape)


def test_a_band_without_tiles_or_waves_is_the_ordinary_operator():
    fit = OperatorFit(operator="gemm", weights="bf16", overhead_s=1e-6, bytes_per_s=1e12, flops_per_s=1e14, p_norm=2.0)
    rows = np.array([1.0, 17.0, 300.0])
    weights = SHAPE["columns"] * SHAPE["inner"]
    assert seconds((PLAIN,), rows) == pytest.approx(operator_s(fit, 2 * weights, 2 * rows * weights))


def test_one_tile_over_a_full_wave_costs_the_arithmetic_of_another_wave():
    bound = PLAIN.model_copy(update={"bytes_per_s": 1e18, "tile_rows": 64, "tile_columns": 64, "wave_exponent": 1.0})
    full = seconds((bound,), 64.0, columns=64 * 100.0, processors=100) - 1e-6
    over = seconds((bound,), 64.0, columns=64 * 101.0, processors=100) - 1e-6
    assert over == pytest.approx(2 * full)


def test_rows_are_computed_in_whole_tiles():
    tiled = PLAIN.model_copy(update={"bytes_per_s": 1e18, "tile_rows": 64})
    assert seconds((tiled,), 1.0) == pytest.approx(seconds((tiled,), 64.0))
    assert seconds((tiled,), 65.0) > 1.9 * (seconds((tiled,), 64.0) - 1e-6)


def test_few_tiles_cannot_walk_a_long_inner_dimension_faster_than_their_rate():
    slow = PLAIN.model_copy(update={"inner_per_s": 1e9, "inner_exponent": 1.0, "p_norm": 16.0})
    assert seconds((slow,), 1.0, inner=1e6) >= 1e6 / 1e9


def test_each_range_of_rows_has_its_own_kernel_and_rows_below_the_first_take_it_too():
    slower = PLAIN.model_copy(update={"rows": 17, "bytes_per_s": 5e11})
    bands = (PLAIN.model_copy(update={"rows": 2}), slower)
    assert seconds(bands, 16.0) == pytest.approx(seconds((PLAIN,), 16.0))
    assert seconds(bands, 17.0) == pytest.approx(seconds((slower,), 17.0))
    assert seconds(bands, 1.0) == pytest.approx(seconds((PLAIN,), 1.0))
    assert seconds(bands, np.array([1.0, 16.0, 17.0])) == pytest.approx(
        [float(seconds(bands, rows)) for rows in (1.0, 16.0, 17.0)]
    )


def test_knots_multiply_the_time_of_a_banded_fit():
    fit = OperatorFit(
        operator="gemm", weights="bf16", bytes_per_s=1.0, flops_per_s=1.0, bands=(PLAIN,),
        knots=(Knot(rows=17, factor=1.5),), processors=100,
    )  # fmt: skip
    rows = np.array([16.0, 17.0])
    weights = SHAPE["columns"] * SHAPE["inner"]
    priced = matrix_s(fit, np.full(2, 2 * weights), 2 * rows * weights, rows=rows, shape=(1024.0, 4096.0))
    assert priced == pytest.approx(seconds((PLAIN,), rows) * [1.0, 1.5])


POINTS = (
    MessageTime(message_bytes=1e3, seconds=5e-6),
    MessageTime(message_bytes=1e5, seconds=7e-6),
    MessageTime(message_bytes=1e7, seconds=1e-4),
)
CURVE = CollectiveFit(gpus=4, latency_s=5e-6, bytes_per_s=1e11, points=POINTS)


def test_an_all_reduce_goes_through_its_measured_messages():
    sizes = np.array([point.message_bytes for point in POINTS])
    assert all_reduce_s(CURVE, sizes) == pytest.approx([point.seconds for point in POINTS])


def test_messages_beyond_the_measured_ones_keep_the_latency_and_the_rate_of_the_ends():
    assert float(all_reduce_s(CURVE, 0.0)) == pytest.approx(5e-6)
    assert float(all_reduce_s(CURVE, 4e7)) == pytest.approx(4e-4)


def test_an_all_reduce_without_points_is_a_line():
    line = CollectiveFit(gpus=2, latency_s=1e-5, bytes_per_s=1e9)
    assert float(all_reduce_s(line, 1e6)) == pytest.approx(1e-5 + 1e6 / 1e9)


@given(st.floats(0, 1e9), st.floats(1, 10))
def test_a_larger_message_never_takes_less_time(message_bytes, factor):
    assert all_reduce_s(CURVE, factor * message_bytes) >= all_reduce_s(CURVE, message_bytes) * (1 - 1e-12)
