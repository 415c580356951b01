"""Number formats of weights and caches: bits stored per weight, scales included, and the type of the
multiply.

`WeightFormat.name` is what calibrations are looked up by: bf16 (fp16 as well: same bytes, same tensor-core
rate), fp32, fp8, fp8_block (scaled by blocks: kernels of their own in some engines, those of fp8 in others), int8,
int8_weights (multiplied in bf16), int4 (multiplied in bf16), mxfp4 (multiplied in bf16), nvfp4.
"""

from roofline.errors import InvalidInput
from roofline.hf_gguf import gguf_format
from roofline.specs import WeightFormat

SCALE_BITS = 16
BLOCK_SCALE_BITS = 32

BF16 = WeightFormat(name="bf16", bits_per_weight=16, math="bf16")
FP32 = WeightFormat(name="fp32", bits_per_weight=32, math="fp32")
FP8 = WeightFormat(name="fp8", bits_per_weight=8, math="fp8")
FP8_BLOCK = WeightFormat(name="fp8_block", bits_per_weight=8 + BLOCK_SCALE_BITS / 128**2, math="fp8")
INT8 = WeightFormat(name="int8", bits_per_weight=8, math="int8")
MXFP4 = WeightFormat(name="mxfp4", bits_per_weight=4 + 8 / 32, math="bf16", dequantised=True)
"""4-bit numbers with one 8-bit exponent per 32."""
NVFP4 = WeightFormat(name="nvfp4", bits_per_weight=4 + 8 / 16, math="fp4")
"""4-bit numbers with one 8-bit scale per 16."""

OVERRIDES: dict[str, str] = {
    "fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "int8": "int8",
    "int4": "int4",
    "awq": "int4",
    "awq_marlin": "int4",
    "gptq": "int4",
    "gptq_marlin": "int4",
    "nvfp4": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "none": "bf16",
    "fp32": "fp32",
    "float32": "fp32",
}
"""Values of `--quantization` and `--dtype` that name a format by themselves."""

OWN_CONFIG = ("auto", "compressed-tensors", "modelopt", "bitsandbytes", "hqq", "quark")
"""Values of `--quantization` that only say: as the checkpoint's own quantisation config describes."""

KV_BITS: dict[str, float] = {
    "fp8": 8,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "fp8_inc": 8,
    "int8": 8,
    "nvfp4": 4 + 8 / 16,
    "bf16": 16,
    "bfloat16": 16,
    "fp16": 16,
    "float16": 16,
    "fp32": 32,
    "float32": 32,
}
PER_HEAD_KV = ("int8_per_token_head", "fp8_per_token_head")
PER_HEAD_SCALE_BITS = 32


def group_bits(bits: int, group_size: int | None, *, zero_bits: int = 0, scale_bits: int = SCALE_BITS) -> float:
    """Bits per weight with one scale and zero point per group; one scale per whole column (None, -1) is under
    0.01 and left out.
    """
    if group_size is None or group_size < 1:
        return float(bits)
    return bits + (scale_bits + zero_bits) / group_size


def weight_only(bits: int, bits_per_weight: float) -> WeightFormat:
    """Integer weights multiplied in 16 bits."""
    name = "int8_weights" if bits == 8 else f"int{bits}"
    return WeightFormat(name=name, bits_per_weight=bits_per_weight, math="bf16", dequantised=True)


def override_format(quantization: str) -> WeightFormat:
    """Format of a `--quantization` or `--dtype` value; 4-bit integers with groups of 128 as AWQ and GPTQ
    store them; names of GGUF files (Q4_K_M).
    """
    kind = OVERRIDES.get(quantization.lower())
    if kind is None:
        gguf = gguf_format(quantization)
        if gguf is not None:
            return gguf
        allowed = ", ".join(sorted((*OVERRIDES, *OWN_CONFIG)))
        raise InvalidInput(
            f"quantization must be one of {allowed}, or a GGUF type like q4_k_m, got {quantization!r}; "
            "name one of these"
        )
    if kind == "int4":
        return weight_only(4, group_bits(4, 128, zero_bits=4))
    return {"bf16": BF16, "fp32": FP32, "fp8": FP8, "int8": INT8, "nvfp4": NVFP4, "mxfp4": MXFP4}[kind]
