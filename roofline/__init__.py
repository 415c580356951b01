"""Pure arithmetic: specs, counts, seconds of any step, the calibration schema and the catalogue.

>>> from roofline import gpu
>>> f"{gpu('H100-SXM').hbm_bytes_per_s:.3g}"
'3.35e+12'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.calibration import Calibration
    from roofline.catalog import engine, gpu
    from roofline.cost import Deployment, DraftWork, TableSize, round_cost, step_cost_table
    from roofline.efficiency import catalogue_calibration
    from roofline.hf_config import load_model
    from roofline.memory import memory_account
    from roofline.specs import Gpu, Model, Parallelism
    from roofline.step_table import StepCostTable

__all__ = [
    "Calibration",
    "Deployment",
    "DraftWork",
    "Gpu",
    "Model",
    "Parallelism",
    "StepCostTable",
    "TableSize",
    "catalogue_calibration",
    "engine",
    "gpu",
    "load_model",
    "memory_account",
    "round_cost",
    "step_cost_table",
]

_HOME = {
    "Calibration": "roofline.calibration",
    "Deployment": "roofline.cost",
    "DraftWork": "roofline.cost",
    "Gpu": "roofline.specs",
    "Model": "roofline.specs",
    "Parallelism": "roofline.specs",
    "StepCostTable": "roofline.step_table",
    "TableSize": "roofline.cost",
    "catalogue_calibration": "roofline.efficiency",
    "engine": "roofline.catalog",
    "gpu": "roofline.catalog",
    "load_model": "roofline.hf_config",
    "memory_account": "roofline.memory",
    "round_cost": "roofline.cost",
    "step_cost_table": "roofline.cost",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that importing the package costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'roofline' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
