"""Real hardware: a small real engine with the real speculative loop, its timing, the fit, predicted against measured.

Measure with `calibrate.run`, fit with `calibrate.calibrating`, judge with `calibrate.report`. What is learnt leaves
this package only as a `roofline.calibration.Calibration`. Only `calibrate.engine` imports torch.
"""

from calibrate.presets import PRESETS, Preset
from calibrate.shapes import DecoderShape, as_model

__all__ = ["PRESETS", "DecoderShape", "Preset", "as_model"]
