"""Real hardware: a small real engine with the real speculative loop, its timing, the fit, predicted against measured.

Measure with `calibrate.run`, fit with `calibrate.calibrating`, judge with `calibrate.report`. What is learnt leaves
this package only as a `roofline.calibration.Calibration`. Only `calibrate.engine` and `calibrate.lab` import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibrate.presets import PRESETS, Preset
    from calibrate.shapes import DecoderShape, as_model

__all__ = ["PRESETS", "DecoderShape", "Preset", "as_model"]

_HOME = {
    "PRESETS": "calibrate.presets",
    "Preset": "calibrate.presets",
    "DecoderShape": "calibrate.shapes",
    "as_model": "calibrate.shapes",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: command lines read this package's plans and need no models."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
