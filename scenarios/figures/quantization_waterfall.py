"""Figure 11: quantisation and speculation, in both orders: each gains, together they miss the product."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.cost import RoundCost, round_cost
from roofline.speculation import expected_tokens
from roofline.units import ms_from_seconds
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, QUIET, finish, legend_beside, measured
from scenarios.figures.measured import ids_text, rows_by_id
from scenarios.figures.services import course_service
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.questions.break_even import speculating_arm

FORMATS = ("fp8", "int4")
SHOWN = "int4"
ORDERS = (("plain", "quantised", "both"), ("plain", "speculating", "both"))
PARTS = ("target", "draft", "host")
HATCHES = ("", "///", "...")
PUBLISHED = {
    "Q001": ("Q002", "Q003", "Q004", "Q005", "Q006", "Q007"),
    "Q008": ("Q009", "Q011", "Q012", "Q013", "Q014"),
    "Q022": ("Q023",),
    "Q028": ("Q029",),
}
"""Speculation on the 16-bit model: rows of the same target, GPU and method with quantised weights beside it."""


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Time per token by term for each of the four ways, the gains of each format, and the published gains."""
    rounds = {fmt: _round(assumptions, None if fmt == "bf16" else fmt) for fmt in ("bf16", *FORMATS)}
    basis = speculating_arm(course_service(assumptions)).costs.label
    length = float(expected_tokens(assumptions.alpha, assumptions.draft_tokens))
    rows = [
        {"panel": "time", "basis": basis, "way": way, **_terms(rounds[fmt], length if speculates else 0.0)}
        for way, fmt, speculates in (
            ("plain", "bf16", False), ("quantised", SHOWN, False), ("speculating", "bf16", True), ("both", SHOWN, True),
        )
    ]  # fmt: skip
    plain_s = rounds["bf16"].plain_s
    speculated = length / rounds["bf16"].ratio
    for fmt in FORMATS:
        quantised = plain_s / rounds[fmt].plain_s
        rows.append(
            {"panel": "gain", "basis": basis, "way": fmt, "quantised": quantised, "speculated": speculated,
             "product": quantised * speculated, "combined": plain_s * length / rounds[fmt].round_s}
        )  # fmt: skip
    return Table.of(rows + _published())


def _round(assumptions: Assumptions, quantization: str | None) -> RoundCost:
    """A round beside a plain step of one request; the draft keeps its 16 bits."""
    table = speculating_arm(course_service(assumptions, target={"quantization": quantization})).costs
    return round_cost(
        table, batch=1, context_tokens=assumptions.context_tokens, draft_tokens=assumptions.draft_tokens
    )  # fmt: skip


def _terms(cost: RoundCost, length: float) -> dict[str, Cell]:
    """Seconds per emitted token; `length` 0 is a plain step."""
    if not length:
        host_s = cost.host_s
        return {"target_s": cost.plain_s - host_s, "draft_s": 0.0, "host_s": host_s, "token_s": cost.plain_s}
    parts = {"target_s": cost.verify_s, "draft_s": cost.draft_s, "host_s": cost.host_s, "token_s": cost.round_s}
    return {name: value_s / length for name, value_s in parts.items()}


def _published() -> Rows:
    rows: Rows = []
    for speculating_id, others in PUBLISHED.items():
        [alone] = rows_by_id("quantization.csv", [speculating_id])
        for row in rows_by_id("quantization.csv", others):
            quantised, speculated = (
                float(row["quant_only_speedup_vs_fp16"]), float(alone["spec_speedup_on_same_quant"]),
            )  # fmt: skip
            rows.append(
                {"panel": "gain", "basis": "measured", "way": row["target_quant"], "quantised": quantised,
                 "speculated": speculated, "product": quantised * speculated,
                 "combined": float(row["combined_speedup_vs_fp16"]), "row_id": row["id"]}
            )  # fmt: skip
    return rows


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """The three gains of the shown format, and how many published pairs miss their product."""
    own = data.where(panel="gain", way=SHOWN, row_id=None)
    published = data.where(panel="gain", basis="measured")
    missed = published.values("combined") < published.values("product")
    return {name: own.values(name)[0] for name in ("quantised", "speculated", "product", "combined")} | {
        "missed": int(missed.sum()),
        "pairs": len(published),
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Two waterfalls of time per token, then combined gain against the product of the single ones."""
    first, second, third = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    times = data.where(panel="time")
    top = float(times.values("token_s").max()) * 1e3
    for axes, order in zip((first, second), ORDERS, strict=True):
        _waterfall(axes, times, order, words)
        axes.set(ylim=(0, top * 1.12), xlabel=words(f"order_{order[1]}"))
    first.set_ylabel(words("y_time"))
    _gains(third, data.where(panel="gain"), words)
    legend_beside(figure, [first, third], headings=[words("heading_time"), words("heading_gain")])
    ids = [str(row["row_id"]) for row in data.where(panel="gain", basis="measured").rows()]
    finish(figure, words("title"), notes=[words("note", ids=ids_text(sorted(ids + list(PUBLISHED))))])


def _waterfall(axes: Axes, times: Table, order: tuple[str, ...], words: Words) -> None:
    plain_s = times.where(way="plain").values("token_s")[0]
    for place, way in enumerate(order):
        row = times.where(way=way)
        below = 0.0
        for part, hatch, color in zip(PARTS, HATCHES, COLOURS, strict=False):
            height = ms_from_seconds(row.values(f"{part}_s")[0])
            axes.bar(
                place, height, bottom=below, color=color, hatch=hatch, edgecolor="white", width=0.7,
                label=words.labelled(words(f"part_{part}"), row.one("basis")) if place == 0 else "_",
            )  # fmt: skip
            below += height
        gain = plain_s / row.values("token_s")[0]
        axes.annotate(f"× {gain:.2f}", (place, below), xytext=(0, 3), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(order)), [words(f"way_{way}") for way in order], fontsize=9.5)
    axes.grid(visible=False, axis="x")


def _gains(axes: Axes, gains: Table, words: Words) -> None:
    largest = float(gains.values("product").max()) * 1.05
    axes.plot([1, largest], [1, largest], color=QUIET, linewidth=1, label=words("diagonal"))
    for index, fmt in enumerate(FORMATS):
        own = gains.where(way=fmt, row_id=None)
        label = words.labelled(fmt, own.one("basis"))
        axes.plot(
            own.values("product"),
            own.values("combined"),
            ls="",
            marker="os"[index],
            color=COLOURS[0],
            ms=9,
            label=label,
        )
    published = gains.where(basis="measured")
    axes.plot(published.values("product"), published.values("combined"), **measured(0), label=words.basis("measured"))
    axes.set(xlabel=words("x_gain"), ylabel=words("y_gain"))
