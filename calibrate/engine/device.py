"""Which device there is, and what it is."""

import torch

from roofline.errors import InvalidInput


def best_device() -> str:
    """`cuda` where there is one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def require(device: str) -> None:
    """Refuse a device that is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise InvalidInput("--device cuda was asked for and torch sees no CUDA device; use --device cpu, or --dry-run")


def describe(device: str) -> dict[str, object]:
    """What the environment record says of the device; clocks and limits are recorded, never set."""
    if device != "cuda":
        return {"threads": torch.get_num_threads()}
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "gpu_memory_bytes": properties.total_memory,
        "gpu_capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
    }
