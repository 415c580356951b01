"""The catalogue: GPUs, kernel constants, engines and model configurations, each row with its source."""

from roofline.catalog.loader import (
    collective_constants,
    engine,
    engine_names,
    gpu,
    gpu_names,
    kernel_constants,
    load_gpu_file,
    model_config_path,
    model_names,
)
from roofline.catalog.shipped import shipped_calibration, shipped_names

__all__ = [
    "collective_constants",
    "engine",
    "engine_names",
    "gpu",
    "gpu_names",
    "kernel_constants",
    "load_gpu_file",
    "model_config_path",
    "model_names",
    "shipped_calibration",
    "shipped_names",
]
