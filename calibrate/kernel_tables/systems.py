"""What the tables call things, and what the catalogue calls them: systems, number formats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from roofline.specs import Source

_READ = date(2026, 11, 29)
_AMPERE = Source(
    title="NVIDIA Ampere architecture in depth: A100 has 108 multiprocessors",
    url="https://developer.nvidia.com/blog/nvidia-ampere-architecture-in-depth/",
    retrieved=_READ,
)
_HOPPER = Source(
    title="NVIDIA Hopper architecture in depth: H100 SXM5 has 132 multiprocessors (H200: the same die)",
    url="https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/",
    retrieved=_READ,
)
_ADA = Source(
    title="NVIDIA L40S product page: 18,176 CUDA cores, 128 a multiprocessor",
    url="https://www.nvidia.com/en-us/data-center/l40s/",
    retrieved=_READ,
)
_BLACKWELL = Source(
    title="NVIDIA Blackwell tuning guide; multiprocessors as CUDA reports them, wave exponents absorb an error",
    url="https://docs.nvidia.com/cuda/blackwell-tuning-guide/",
    retrieved=_READ,
)
_RTX_PRO = Source(
    title="NVIDIA RTX PRO 6000 Blackwell Server Edition: 24,064 CUDA cores, 128 a multiprocessor",
    url="https://www.nvidia.com/en-us/data-center/rtx-pro-6000-blackwell-server-edition/",
    retrieved=_READ,
)
_BATTLEMAGE = Source(
    title="Intel Arc Pro B60: 20 Xe cores",
    url="https://www.intel.com/content/www/us/en/products/sku/243916/intel-arc-pro-b60-graphics/specifications.html",
    retrieved=_READ,
)


@dataclass(frozen=True, slots=True)
class TableSystem:
    """A system of the tables: the catalogue's GPU it is, and on how many processors waves of tiles run."""

    name: str
    gpu: str
    processors: int
    source: Source


SYSTEMS = (
    TableSystem("a100_sxm", "A100-SXM-80GB", 108, _AMPERE),
    TableSystem("h100_sxm", "H100-SXM", 132, _HOPPER),
    TableSystem("h200_sxm", "H200-SXM", 132, _HOPPER),
    TableSystem("b200_sxm", "B200-SXM", 148, _BLACKWELL),
    TableSystem("b300_sxm", "B300-SXM", 148, _BLACKWELL),
    TableSystem("gb200", "GB200", 148, _BLACKWELL),
    TableSystem("gb300", "GB300", 148, _BLACKWELL),
    TableSystem("l40s", "L40S", 142, _ADA),
    TableSystem("rtx_pro_6000_server", "RTX-PRO-6000-Server", 188, _RTX_PRO),
    TableSystem("b60", "B60", 20, _BATTLEMAGE),
)


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A number format of the tables: our name of the weights, bytes of one, type of the multiply."""

    weights: str
    bytes_per_weight: float
    math: str


KERNEL_SOURCE = Source(
    title="FlashAttention: FA2 swaps queries and grouped heads only for one row a sequence, blocks of 64 rows; "
    "FA3 packs grouped heads of ragged batches, 128 rows at 128 elements a head",
    url="https://github.com/Dao-AILab/flash-attention",
    retrieved=_READ,
)
# Kernel of the decoding table -> (rows of its tile, whether grouped query heads share it). Kernels not listed keep
# decodes apart from prompts (FlashInfer, TensorRT-LLM) or are not documented: no tile.
ROW_TILES = {
    "vllm_flash_attn_fa2": (64, False),
    "vllm_flash_attn": (64, False),
    "vllm_flash_attn_fa3": (128, True),
    "fa3": (128, True),
}
BLOCK_SCALE_BYTES = 4 / 128**2
"""One 32-bit scale per 128 x 128 weights."""
MATRIX_FORMATS = {
    "bfloat16": TableFormat("bf16", 2.0, "bf16"),
    "fp8": TableFormat("fp8", 1.0, "fp8"),
    "fp8_block": TableFormat("fp8_block", 1.0 + BLOCK_SCALE_BYTES, "fp8"),
    "nvfp4": TableFormat("nvfp4", 0.5625, "fp4"),
    "sq": TableFormat("int8", 1.0, "int8"),
    "int8_wo": TableFormat("int8_weights", 1.0, "bf16"),
    "int4_wo": TableFormat("int4", 0.53125, "bf16"),
}
EXPERT_FORMATS = {
    "bfloat16": TableFormat("bf16", 2.0, "bf16"),
    # Mixture-of-experts checkpoints in fp8 are scaled by blocks almost without exception.
    "fp8_block": TableFormat("fp8", 1.0 + BLOCK_SCALE_BYTES, "fp8"),
    "nvfp4": TableFormat("nvfp4", 0.5625, "fp4"),
    "int4_wo": TableFormat("int4", 0.53125, "bf16"),
    "w4a16_mxfp4": TableFormat("mxfp4", 0.53125, "bf16"),
}
CACHE_FORMATS = {"bfloat16": ("bf16", 2.0), "float16": ("bf16", 2.0), "fp8": ("fp8", 1.0)}
