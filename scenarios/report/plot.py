"""The figures of a decision's report, as SVG: those that have something to say about this scenario."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.counts import experts_touched
from roofline.specs import Experts
from scenarios.build import Service
from scenarios.figures.drawing import QUIET, colour, log_axis, shade
from scenarios.plot import (
    STYLE,
    draw_al_vs_round_cost,
    draw_speedup_vs_load,
    round_cost_curves,
    speedup_curves,
)
from scenarios.questions.advice import Advice
from scenarios.questions.decide import Decision

MOST_CURVES = 5


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A picture with its name and one sentence under it."""

    name: str
    caption: str
    svg: bytes


def report_figures(service: Service, decision: Decision) -> tuple[ReportFigure, ...]:
    """Speed-up and round cost over load, K by batch where an acceptance is known, experts where there are any."""
    figures = [
        _figure(
            "speed-up over load",
            "Simulated on the same requests with the same luck; shaded: 95 % intervals, over all cases of a preset.",
            lambda axes: draw_speedup_vs_load(axes, speedup_curves(decision)),
        ),
        _figure(
            "R against AL",
            "What a round costs at the batch of each load, and what it yields; it pays while AL is above R.",
            lambda axes: draw_al_vs_round_cost(axes, round_cost_curves(decision)),
        ),
    ]
    advice = decision.advice
    if advice is not None:
        caption = f"Closed form AL / R at a steady batch and {decision.context_tokens:,} tokens of context."
        figures.append(_figure("best K by batch", caption, lambda axes: _draw_advice(axes, advice)))
    experts = next((layer.experts for layer in service.target.layers if layer.experts is not None), None)
    if experts is not None:
        caption = "Verifying more tokens reads more experts until all are touched (even routing, closed form)."
        largest = decision.draft_tokens + 1
        figures.append(_figure("experts a step touches", caption, lambda axes: _draw_experts(axes, experts, largest)))
    return tuple(figures)


def _figure(name: str, caption: str, draw: Callable[[Axes], None]) -> ReportFigure:
    with style.context([STYLE, {"svg.hashsalt": "specdec-sim"}]):
        figure = Figure()
        draw(figure.subplots())
        stream = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None, "Creator": "specdec-sim"}
        figure.savefig(stream, format="svg", metadata=metadata)
    return ReportFigure(name, caption, stream.getvalue())


def _draw_advice(axes: Axes, advice: Advice) -> None:
    """Speed-up over batch for up to five K, the advised one as a thick line below them."""
    batches = np.array(advice.batches)
    chosen = [advice.speedups[advice.at(batch).draft_tokens, column] for column, batch in enumerate(advice.batches)]
    axes.plot(batches, chosen, color="0.8", linewidth=6, label="as advised")
    drafts = np.unique(np.linspace(1, len(advice.speedups) - 1, MOST_CURVES).round().astype(int))
    for index, k in enumerate(drafts):
        axes.plot(batches, advice.speedups[k], label=f"K = {k}", **shade(index, of=len(drafts)))
    axes.axhline(1.0, color=QUIET, linewidth=1)
    log_axis(axes, [1, 4, 16, 64, 256, 1024])
    axes.set_xlim(1, float(batches[-1]))
    axes.set(xlabel="batch (sequences)", ylabel="S = AL / R (ratio)", title="Speed-up by batch for fixed K")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_experts(axes: Axes, experts: Experts, rows: int) -> None:
    """Share of experts over batch, for a plain step and a verification."""
    batches = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256], dtype=np.float64)
    for index, each in enumerate((1, rows)):
        touched = np.asarray(experts_touched(experts.count, experts.per_token, batches * each))
        name = "plain step" if each == 1 else f"verify, {rows} rows each"
        axes.plot(batches, 100 * touched / experts.count, label=name, **colour(index))
    log_axis(axes, [1, 4, 16, 64, 256])
    title = f"{experts.per_token} of {experts.count} experts per token"
    axes.set(xlabel="batch (sequences)", ylabel="experts touched (%)", ylim=(0, 105), title=title)
    axes.legend()
