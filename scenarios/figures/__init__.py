"""The figures of a course on the limits of speculative decoding, one module each.

`compute(assumptions, seed)` of a module returns a tidy table, `draw(figure, data, words)` only draws, `show` does both:

>>> from scenarios.figures import show, speedup_vs_alpha
>>> drawn = show(speedup_vs_alpha, draft_cost_ratio=0.05)
>>> drawn.data.where(point="break-even", draft_tokens=1).values("alpha").round(2).tolist()
[0.02, 0.05, 0.3]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.figures.course import Drawn, show

__all__ = ["FIGURES", "Drawn", "show"]

FIGURES = (
    "tokens_per_round",
    "speedup_vs_alpha",
    "speedup_vs_k",
    "al_vs_round_cost",
    "speedup_vs_load",
    "roofline_points",
    "step_timeline",
    "accepted_lengths",
    "best_k",
    "moe_coverage",
    "quantization_waterfall",
    "decision_flow",
    "acceptance_vs_entropy",
    "swinging_load",
    "predicted_vs_measured",
)
"""Names in the order of the course; a figure's name is its module's name."""


def __getattr__(name: str) -> Any:
    """Load what draws when it is first asked for: the list of names costs nothing."""
    if name in ("Drawn", "show"):
        return getattr(import_module("scenarios.figures.course"), name)
    if name in FIGURES:
        return import_module(f"scenarios.figures.{name}")
    raise AttributeError(f"module 'scenarios.figures' has no attribute {name!r}")
