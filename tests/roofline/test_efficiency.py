import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.calibration import Calibration
from roofline.catalog import engine, engine_names, gpu, gpu_names
from roofline.efficiency import catalogue_calibration, textbook_calibration
from roofline.errors import InvalidInput, OutsideDomain
from roofline.operators import operator_s
from roofline.specs import Gpu

FORMATS = ("bf16", "fp16", "fp8", "int8", "int8_weights", "int4", "mxfp4", "nvfp4")
ALL = [(name, profile) for name in gpu_names() for profile in engine_names()]


def _fastest_math(spec: Gpu) -> float:
    return max(spec.peak_flops_per_s.values())


@pytest.mark.parametrize("name", gpu_names())
def test_every_operator_is_there_in_every_weight_format(name: str):
    for profile in engine_names():
        for calibration in (catalogue_calibration(gpu(name), engine(profile)), textbook_calibration(gpu(name))):
            for weights in FORMATS:
                for operator in ("gemm", "moe_gemm", "lm_head"):
                    assert calibration.operator(operator, weights).flops_per_s > 0
            for operator in ("attention_decode", "attention_prefill", "elementwise"):
                assert calibration.operator(operator, "bf16").bytes_per_s > 0
            assert [row.gpus for row in calibration.collectives] == [1, 2, 4, 8, 16]


@given(st.sampled_from(ALL), st.floats(1.0, 1e12), st.floats(1.0, 1e16))
def test_no_operator_is_faster_than_its_bytes_over_the_peak_or_its_flops_over_the_peak(case, hbm_bytes, flops):
    name, profile = case
    spec = gpu(name)
    for calibration in (catalogue_calibration(spec, engine(profile)), textbook_calibration(spec)):
        for fit in calibration.operators:
            seconds = float(operator_s(fit, hbm_bytes, flops))
            assert seconds >= hbm_bytes / spec.hbm_bytes_per_s * (1 - 1e-12)
            assert seconds >= flops / _fastest_math(spec) * (1 - 1e-12)
        for link in calibration.collectives:
            assert link.bytes_per_s <= spec.link_bytes_per_s


def test_sixteen_bit_operators_stay_below_the_16_bit_peak():
    spec = gpu("H100-SXM")
    calibration = catalogue_calibration(spec, engine("vllm"))
    for weights in ("bf16", "int4", "int8_weights", "mxfp4"):
        assert calibration.operator("gemm", weights).flops_per_s <= spec.peak_flops_per_s["bf16"]


def _ridge_tokens(calibration: Calibration, weights: str, bits: float) -> float:
    fit = calibration.operator("gemm", weights)
    return fit.flops_per_s / fit.bytes_per_s * bits / 8 / 2


def test_dequantised_weights_have_a_lower_ridge_than_16_bit_ones():
    calibration = catalogue_calibration(gpu("H100-SXM"), engine("vllm"))
    assert _ridge_tokens(calibration, "int4", 4.125) < 0.4 * _ridge_tokens(calibration, "bf16", 16)
    assert 180 < _ridge_tokens(calibration, "bf16", 16) < 320


def test_fp8_on_a_gpu_without_it_is_widened_and_says_so():
    spec = gpu("A100-SXM-80GB")
    calibration = catalogue_calibration(spec, engine("vllm"))
    assert calibration.operator("gemm", "fp8").flops_per_s <= spec.peak_flops_per_s["bf16"]
    assert any(note.startswith("fp8 weights are widened") for note in calibration.notes)
    assert not any(note.startswith("fp8") for note in catalogue_calibration(gpu("H100-SXM"), engine("vllm")).notes)


def test_bf16_on_a_v100_is_served_as_fp16_and_says_so():
    calibration = catalogue_calibration(gpu("V100-SXM2-32GB"), engine("vllm"))
    assert any(note.startswith("bf16 weights are served as fp16") for note in calibration.notes)


def test_a_format_no_engine_serves_is_refused():
    with pytest.raises(OutsideDomain, match="int9"):
        catalogue_calibration(gpu("H100-SXM"), engine("vllm")).operator("gemm", "int9")


def test_a_gpu_without_16_bit_arithmetic_is_refused():
    odd = gpu("H100-SXM").model_copy(update={"peak_flops_per_s": {"fp32": 1e12}})
    with pytest.raises(InvalidInput, match="must have bf16 or fp16"):
        catalogue_calibration(odd, engine("vllm"))


def test_the_textbook_has_no_overheads():
    spec = gpu("H100-SXM")
    calibration = textbook_calibration(spec)
    fit = calibration.operator("gemm", "bf16")
    assert (fit.bytes_per_s, fit.flops_per_s) == (spec.hbm_bytes_per_s, spec.peak_flops_per_s["bf16"])
    assert fit.p_norm is None
    assert {row.overhead_s for row in calibration.operators} == {0.0}
    assert set(calibration.host.model_dump().values()) == {0.0}
    assert calibration.label == "assumed"


def test_an_architecture_without_a_kernel_table_takes_the_rows_for_any():
    calibration = catalogue_calibration(gpu("V100-SXM2-32GB"), engine("vllm"))
    assert calibration.operator("gemm", "fp16").bytes_per_s == pytest.approx(0.78 * 900e9)


def test_an_engine_may_replace_kernel_rows():
    spec = gpu("RTX-3090")
    own = catalogue_calibration(spec, engine("llama.cpp")).operator("gemm", "int4")
    assert own.p_norm == 1.2
    assert catalogue_calibration(spec, engine("vllm")).operator("gemm", "int4").p_norm == 1.5


def test_state_is_copied_to_the_host_at_the_rate_of_a_bus_or_of_the_memory_both_share():
    def copy_s_per_byte(name: str, profile: str = "llama.cpp"):
        return catalogue_calibration(gpu(name), engine(profile)).host.checkpoint_s_per_byte

    bus = engine("llama.cpp").host.checkpoint_s_per_byte
    assert bus is not None
    assert copy_s_per_byte("RTX-3090") == bus.value
    assert copy_s_per_byte("M3-Ultra") == pytest.approx(2.0 / 8.19e11, rel=0.5)
    assert copy_s_per_byte("M3-Ultra") < copy_s_per_byte("M4") < bus.value
    assert copy_s_per_byte("M3-Ultra", "vllm") == 0.0


def test_all_reduce_gets_no_cheaper_with_more_gpus():
    for name in gpu_names():
        latencies = [row.latency_s for row in catalogue_calibration(gpu(name), engine("vllm")).collectives]
        assert latencies == sorted(latencies), name
