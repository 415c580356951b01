import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrate.kernel_tables.bands import Peaks, Products, fit_bands, knots
from calibrate.kernel_tables.collective import fit_all_reduce
from calibrate.kernel_tables.experts import expert_launches
from calibrate.kernel_tables.gemm import Matrices, fit_matrices, launch_bound, matrices
from calibrate.kernel_tables.grid import grid, not_falling
from calibrate.kernel_tables.held_out import held_out_mask, is_held_out
from calibrate.kernel_tables.latent import LatentTable, fit_latent, latent_launches, layer
from calibrate.kernel_tables.shipping import calibration_text
from calibrate.kernel_tables.systems import MATRIX_FORMATS
from roofline.calibration import Calibration, KernelBand, OperatorFit
from roofline.catalog import shipped_calibration
from roofline.collectives import all_reduce_s
from roofline.kernel_bands import banded_s

PEAKS = Peaks(bytes_per_s=1e12, flops_per_s=1e14, processors=100)
TRUTH = KernelBand(rows=1, overhead_s=4e-6, bytes_per_s=8e11, flops_per_s=6e13, p_norm=3.0)
BF16 = MATRIX_FORMATS["bfloat16"]
SIDES = (1024, 2048, 4096, 8192, 16384)
ROWS = (1, 2, 4, 8, 16)


def products(factor=1.0):
    """Products of many shapes whose times follow the band exactly."""
    shapes = np.array([(m, n, k) for m in ROWS for n in SIDES for k in SIDES], dtype=float).T
    rows, columns, inner = shapes
    moved = 2 * columns * inner + 2 * rows * (columns + inner)
    flops = 2 * rows * columns * inner
    seconds = banded_s((TRUTH,), moved, flops, rows=rows, columns=columns, inner=inner, processors=100)
    return Products(rows, columns, inner, moved, flops, factor * seconds)


def test_a_fit_gives_back_the_times_it_was_made_of():
    made = products()
    bands, steps = fit_bands(made, PEAKS, starts=(1,))
    assert made.predicted_s(bands, 100) == pytest.approx(made.seconds, rel=0.02)
    assert all(abs(step.factor - 1) < 0.03 for step in steps)


def test_no_fitted_rate_is_above_the_peaks_even_where_the_times_are():
    bands, _ = fit_bands(products(factor=0.3), PEAKS, starts=(1,))
    assert bands[0].bytes_per_s <= PEAKS.bytes_per_s
    assert bands[0].flops_per_s <= PEAKS.flops_per_s


def test_knots_are_steps_and_small_ones_are_left_out():
    steps = knots({1: 1.001, 17: 1.2, 32: 1.201, 64: 1.0})
    assert [(step.rows, step.factor) for step in steps] == [(17, 1.2), (64, 1.0)]


def test_rows_read_from_the_cache_are_flagged():
    made = products()
    table = Matrices(made, 2 * made.columns * made.inner, np.zeros(len(made.rows), bool))
    warm = table.warm(PEAKS.bytes_per_s, cache_bytes=1e8)
    assert np.array_equal(warm, 2 * made.columns * made.inner < 1e8)
    assert table.warm(bytes_per_s=1e9, cache_bytes=0.0).all()


def test_residuals_are_of_shapes_the_fit_never_saw():
    made = products()
    left_out = held_out_mask(made.columns, made.inner)
    spoilt = Products(
        *(getattr(made, name) for name in made.__slots__[:-1]), np.where(left_out, 2.0, 1.0) * made.seconds
    )
    fit, errors = fit_matrices(
        Matrices(spoilt, 2 * made.columns * made.inner, left_out), PEAKS, weights="bf16", cache_bytes=1e6
    )
    held = [one for one in errors if one.held_out]
    assert held[0].median_abs_error_fraction == pytest.approx(0.5, abs=0.03)
    assert fit.bands


def test_the_hash_that_leaves_shapes_out_is_fixed():
    assert [n for n in SIDES for k in SIDES if is_held_out(n, k)] == [
        n for n in SIDES for k in SIDES if is_held_out(n, k)
    ]
    assert is_held_out(4096, 65536)
    assert not is_held_out(4096, 16384)
    share = np.mean([is_held_out(n, k) for n in range(64) for k in range(64)])
    assert share == pytest.approx(0.25, abs=0.03)


def test_repeated_shapes_keep_the_fastest_kernel():
    rows = {
        "gemm_dtype": np.array(["bfloat16"] * 3 + ["fp8"]), "m": np.array([1, 1, 2, 1]),
        "n": np.array([4096] * 4), "k": np.array([1024] * 4), "seconds": np.array([3e-5, 2e-5, 4e-5, 1e-5]),
    }  # fmt: skip
    assert matrices(rows, "bfloat16", BF16).products.seconds.tolist() == [2e-5, 4e-5]


@given(st.lists(st.floats(1e-6, 1e-2), min_size=1, max_size=20))
def test_made_monotone_times_never_fall_and_stay_within_the_measured_ones(seconds):
    rising = not_falling(np.array(seconds))
    assert np.all(np.diff(rising) >= -1e-15)
    assert min(seconds) * (1 - 1e-9) <= rising[0]
    assert rising[-1] <= max(seconds) * (1 + 1e-9)


def test_one_slow_measurement_leaves_its_neighbours_as_they_were():
    assert not_falling(np.array([1.0, 1.2, 1.0, 1.0, 2.0])) == pytest.approx([1.0, 1.0, 1.0, 1.0, 2.0])


def test_a_grid_holds_its_measured_times_and_fills_the_shapes_between():
    made = products()
    missing = ~((made.columns == 4096) & (made.inner == 2048))
    table = Matrices(made.where(missing), (2 * made.columns * made.inner)[missing], np.zeros(int(missing.sum()), bool))
    filled = grid(table, BF16, peaks=PEAKS, cache_bytes=1e6)
    read = filled.product_s(made.rows[~missing], (2048.0, 4096.0))
    assert read == pytest.approx(made.seconds[~missing], rel=0.2)


def test_a_collective_counts_elements_leaves_every_second_message_out_and_ignores_eager_rows():
    sizes = np.array([2.0**power for power in range(7, 25)])
    seconds = 5e-6 + sizes / 1e11
    rows = {
        "num_gpus": np.full(2 * len(sizes), 4), "message_size": np.tile(sizes, 2) / 2,
        "allreduce_dtype": np.full(2 * len(sizes), "bfloat16"),
        "seconds": np.concatenate([seconds, 5 * seconds]),
        "kernel_source": np.array(["vLLM_custom_graph"] * len(sizes) + ["vLLM_custom_eager"] * len(sizes)),
    }  # fmt: skip
    [fit], [error] = fit_all_reduce(rows)
    assert all_reduce_s(fit, sizes[::2]) == pytest.approx(seconds[::2], rel=1e-3)
    assert error.held_out
    assert error.rows == 8
    assert error.median_abs_error_fraction < 0.05


def test_experts_touched_are_no_more_than_the_rows_routed():
    rows = {
        "moe_dtype": np.array(["bfloat16"] * 2), "num_tokens": np.array([1, 64]), "hidden_size": np.array([2048] * 2),
        "inter_size": np.array([1024] * 2), "topk": np.array([8] * 2), "num_experts": np.array([128] * 2),
        "moe_tp_size": np.array([1] * 2), "moe_ep_size": np.array([1] * 2), "distribution": np.array(["balanced"] * 2),
        "seconds": np.array([1e-4, 1e-3]),
    }  # fmt: skip
    found = expert_launches(rows, "bfloat16", BF16)
    assert found is not None
    each = 3 * 2048 * 1024 * 2
    assert found.weight_bytes.tolist() == [8 * each, 128 * each]


def test_a_file_is_written_the_same_every_time_and_read_back_whole():
    shipped = shipped_calibration("H200-SXM", "vllm")
    assert shipped is not None
    text = calibration_text(shipped)
    assert calibration_text(shipped) == text
    assert Calibration.model_validate_json(text) == shipped


def test_a_format_whose_smallest_product_takes_as_long_as_a_launch_from_python_is_set_aside():
    rows = {
        "gemm_dtype": np.array(["fp8", "fp8", "fp8_block", "fp8_block"]),
        "seconds": np.array([5e-6, 1e-3, 1.5e-4, 1e-3]),
    }  # fmt: skip
    assert launch_bound(rows) == {"fp8_block": 1.5e-4}


def latent_rows(*, heads=(1, 16, 128), sequences=(1, 8, 64, 512), steps=(128, 1024, 8192, 65536)):
    """Decode rows of latent attention whose times follow constants exactly: 5 us, 1 TB/s, 1e14 flop/s."""
    grid_rows = np.array([(h, b, s) for h in heads for b in sequences for s in steps]).T
    count, batch, step = grid_rows
    context = step + 1.0
    spec = {h: layer(h).attention() for h in heads}
    flops = batch * context * np.array([spec[h].flops_per_pair for h in count])
    seconds = 5e-6 + np.maximum(batch * context * 576 * 2 / 1e12, flops / 1e14)
    texts = {"kv_cache_dtype": "bfloat16", "mla_dtype": "bfloat16", "kernel_source": "flash"}
    return {
        "num_heads": count, "batch_size": batch, "isl": np.ones_like(count), "step": step, "seconds": seconds,
        **{name: np.array([text] * len(count)) for name, text in texts.items()},
    }  # fmt: skip


def test_latent_attention_finds_its_bandwidth_and_its_arithmetic_from_few_and_many_heads():
    table = latent_launches(LatentTable(latent_rows()), "bfloat16", 2.0, prompt=False)
    fit = fit_latent(table, Peaks(2e12, 4e14, 100), operator="mla_decode", weights="bf16")
    assert fit.bytes_per_s == pytest.approx(1e12, rel=0.05)
    assert fit.flops_per_s == pytest.approx(1e14, rel=0.05)


def test_matrices_measured_with_a_latent_kernel_are_priced_apart():
    rows = latent_rows()
    gemm = OperatorFit(operator="gemm", weights="bf16", bytes_per_s=1e12, flops_per_s=1e15)
    own = latent_launches(LatentTable({**rows, "gemm_type": rows["mla_dtype"]}, gemm), "bfloat16", 2.0, prompt=False)
    weights = sum(linear.weights for linear in layer(16).linears())
    one = (own.group == 16) & (own.sequences == 1)
    assert own.other_s[one] == pytest.approx(2 * weights / 1e12, rel=0.02)
