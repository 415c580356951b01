"""Figures of a report: computed first, drawn on given axes after."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from calibrate.cells import SHOWN_ALPHA, acceptance_length
from calibrate.report import Report, Terms

FloatArray = NDArray[np.float64]
TERM_COLOURS = {"verify": "#4477aa", "draft": "#ee8866", "sampling": "#228833", "rest": "#bbbbbb"}


@dataclass(frozen=True, slots=True)
class SpeedupPoints:
    """Speed-ups at one acceptance, arrays over cells."""

    alpha: float
    batch: NDArray[np.int64]
    draft_tokens: NDArray[np.int64]
    measured: FloatArray
    predicted: FloatArray
    textbook: FloatArray
    noise_fraction: FloatArray


def compute_speedups(report: Report, alpha: float = SHOWN_ALPHA) -> SpeedupPoints:
    """S of every cell at an acceptance."""
    lengths = np.array([acceptance_length(alpha, cell.draft_tokens) for cell in report.cells])
    return SpeedupPoints(
        alpha=alpha,
        batch=np.array([cell.batch for cell in report.cells]),
        draft_tokens=np.array([cell.draft_tokens for cell in report.cells]),
        measured=lengths / [cell.measured_ratio for cell in report.cells],
        predicted=lengths / [cell.predicted_ratio for cell in report.cells],
        textbook=lengths / [cell.textbook_ratio for cell in report.cells],
        noise_fraction=np.array([cell.noise_fraction for cell in report.cells]),
    )


def draw_scatter(ax: Axes, points: SpeedupPoints) -> None:
    """Predicted over measured, the textbook formula in grey."""
    low = 0.9 * float(min(points.measured.min(), points.predicted.min()))
    high = 1.05 * float(max(points.measured.max(), points.textbook.max()))
    ax.plot([low, high], [low, high], color="black", linewidth=0.8)
    ax.scatter(points.measured, points.textbook, s=14, color="#bbbbbb", label="textbook: verification is free")
    marks = ax.scatter(
        points.measured, points.predicted, s=22, c=np.log2(points.batch), cmap="viridis", label="calibrated roofline"
    )
    ax.figure.colorbar(marks, ax=ax, label="log2 of batch (sequences)")
    ax.set_xlabel("measured speed-up S (ratio)")
    ax.set_ylabel("predicted speed-up S (ratio)")
    ax.set_title(f"acceptance per draft {points.alpha:g}, no end-to-end point fitted")
    ax.legend(loc="upper left")


def draw_curves(ax: Axes, points: SpeedupPoints) -> None:
    """S over K, one colour a batch: measured with its noise, predicted as a line."""
    for index, batch in enumerate(sorted(set(points.batch.tolist()))):
        mine = points.batch == batch
        colour = f"C{index}"
        ax.plot(points.draft_tokens[mine], points.predicted[mine], color=colour, label=f"batch {batch}")
        ax.errorbar(
            points.draft_tokens[mine],
            points.measured[mine],
            yerr=points.measured[mine] * points.noise_fraction[mine] / 2,
            fmt="o",
            markersize=4,
            color=colour,
        )
    ax.axhline(1.0, color="black", linewidth=0.8, linestyle=":")
    ax.set_xlabel("draft tokens K (tokens)")
    ax.set_ylabel("speed-up S (ratio)")
    ax.set_title("points measured, lines predicted")
    ax.legend(ncol=2)


def compute_term_bars(terms: Terms) -> tuple[dict[str, float], dict[str, float]]:
    """Bars of one cell: measured with the part no component explains, and predicted."""
    rest = terms.measured_ratio - sum(terms.measured.values())
    return {**terms.measured, "rest": max(rest, 0.0)}, terms.predicted


def draw_terms(ax: Axes, report: Report) -> None:
    """R of each cell by term: measured on the left of a pair, predicted on the right."""
    for index, terms in enumerate(report.terms):
        for offset, bars in zip((-0.2, 0.2), compute_term_bars(terms), strict=True):
            bottom = 0.0
            for name, height in bars.items():
                label = name if index == 0 and offset < 0 else None
                ax.bar(index + offset, height, 0.36, bottom=bottom, color=TERM_COLOURS[name], label=label)
                bottom += height
    ax.set_xticks(range(len(report.terms)), [f"B{term.batch}\nK{term.draft_tokens}" for term in report.terms])
    ax.set_xlabel("batch (sequences) and draft tokens (tokens); left measured, right predicted")
    ax.set_ylabel("round cost R (plain steps)")
    ax.legend()


def compute_errors_by_batch(report: Report) -> tuple[list[int], FloatArray, FloatArray, FloatArray]:
    """Batches, and median absolute error of S of the fit, of the textbook formula, and the noise, as fractions."""
    batches = sorted({cell.batch for cell in report.cells})
    groups = [[cell for cell in report.cells if cell.batch == batch] for batch in batches]
    ours = np.array([np.median([abs(cell.error_fraction) for cell in group]) for group in groups])
    textbook = np.array([np.median([abs(cell.textbook_error_fraction) for cell in group]) for group in groups])
    noise = np.array([np.median([cell.noise_fraction for cell in group]) for group in groups])
    return batches, ours, textbook, noise


def draw_errors(ax: Axes, report: Report) -> None:
    """Error by batch on a logarithmic scale."""
    batches, ours, textbook, noise = compute_errors_by_batch(report)
    ax.plot(batches, 100 * textbook, marker="s", color="#bbbbbb", label="textbook formula")
    ax.plot(batches, 100 * ours, marker="o", color="#4477aa", label="calibrated roofline")
    ax.plot(batches, 100 * noise, linestyle=":", color="black", label="split-half noise of the measurement")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("batch (sequences)")
    ax.set_ylabel("median absolute error of S (%)")
    ax.legend()


def write_figures(report: Report, folder: Path) -> list[Path]:
    """PNG files: four, or three where no round had all its components timed."""
    points = compute_speedups(report)
    drawings = {
        "predicted_vs_measured": lambda ax: draw_scatter(ax, points),
        "speedup_over_draft_tokens": lambda ax: draw_curves(ax, points),
        "error_by_batch": lambda ax: draw_errors(ax, report),
    }
    if report.terms:
        drawings["round_cost_by_term"] = lambda ax: draw_terms(ax, report)
    written: list[Path] = []
    for name, draw in drawings.items():
        figure = Figure(figsize=(7.0, 5.0), layout="constrained")
        draw(figure.add_subplot())
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=130)
    return written
