"""Figure 6: where decoding, verifying, drafting and prefilling stand under the roofline as the batch grows."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from roofline.step_table import ForwardCosts
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, MARKS, QUIET, finish, legend_beside, log_axis
from scenarios.figures.services import course_service, wide_costs
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words

BATCHES = (1, 4, 16, 64, 256)
PREFILL_TOKENS = (256, 1024, 4096)
KINDS = ("draft", "decode", "verify", "prefill")


def compute(assumptions: Assumptions, seed: int) -> Table:
    """Intensity and attained rate of each kind of pass (matrices and LM head), and the two ceilings of the GPU."""
    table = wide_costs(course_service(assumptions))
    draft = table.draft
    if draft is None:
        raise AssertionError("an EAGLE-3 head is a model")
    rows: Rows = []
    for batch in BATCHES:
        verified = batch * (assumptions.draft_tokens + 1)
        rows += [
            {"kind": "decode", "batch": batch, **_point(table.target, table.label, tokens=batch, rows=batch)},
            {"kind": "draft", "batch": batch, **_point(draft, table.label, tokens=batch, rows=batch)},
            {"kind": "verify", "batch": batch, **_point(table.target, table.label, tokens=verified, rows=verified)},
        ]
    for tokens in PREFILL_TOKENS:
        rows.append({"kind": "prefill", "batch": 1, **_point(table.target, table.label, tokens=tokens, rows=1)})
    ridge = table.peak_flops_per_s / table.peak_hbm_bytes_per_s
    for intensity in (0.5, ridge, 8.0 * ridge):
        attained = min(table.peak_flops_per_s, intensity * table.peak_hbm_bytes_per_s)
        rows.append(
            {"kind": "ceiling", "basis": "catalogue", "flops_per_byte": intensity, "flops_per_s": attained}
        )  # fmt: skip
    return Table.of(rows)


def _point(costs: ForwardCosts, basis: str, *, tokens: int, rows: int) -> dict[str, Cell]:
    flops = float(costs.trunk_flops[tokens] + costs.logits_flops[rows])
    moved_bytes = float(costs.trunk_bytes[tokens] + costs.logits_bytes[rows])
    seconds = float(costs.trunk_s[tokens] + costs.logits_s[rows])
    return {
        "basis": basis, "tokens": tokens, "flops_per_byte": flops / moved_bytes, "flops_per_s": flops / seconds,
        "pass_s": seconds,
    }  # fmt: skip


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """The ridge, and how far a verification at batch 1 is from it."""
    ridge = data.where(kind="ceiling").values("flops_per_byte")[1]
    verify = data.where(kind="verify")
    beyond = verify.values("batch")[verify.values("flops_per_byte") >= ridge]
    return {
        "ridge": float(ridge),
        "decode": data.where(kind="decode").values("flops_per_byte")[0],
        "verify": verify.values("flops_per_byte")[0],
        "verify_batch": int(beyond[0]) if len(beyond) else f"> {BATCHES[-1]}",
    }


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Ceilings as lines, passes as marks joined in order of size, batch sizes written beside the ends."""
    axes = figure.subplots()
    roof = data.where(kind="ceiling")
    axes.plot(roof.values("flops_per_byte"), roof.values("flops_per_s") / 1e12, color=QUIET, label=words("roof"))
    axes.axvline(roof.values("flops_per_byte")[1], color=QUIET, linewidth=1, linestyle=":", label=words("ridge"))
    for index, kind in enumerate(KINDS):
        points = data.where(kind=kind)
        axes.plot(
            points.values("flops_per_byte"), points.values("flops_per_s") / 1e12,
            marker=MARKS[index], color=COLOURS[index], linewidth=1, markersize=9,
            label=words.labelled(words(f"kind_{kind}"), points.one("basis")),
        )  # fmt: skip
    log_axis(axes, [1, 3, 10, 30, 100, 300, 1000])
    log_axis(axes, [1, 3, 10, 30, 100, 300, 1000], which="y")
    axes.set_ylim(float(np.min(data.values("flops_per_s"))) / 1e12 / 1.6, roof.values("flops_per_s")[-1] / 1e12 * 1.6)
    axes.set(xlabel=words("x"), ylabel=words("y"))
    legend_beside(figure, [axes])
    batches = ", ".join(str(batch) for batch in BATCHES)
    tokens = ", ".join(str(count) for count in PREFILL_TOKENS)
    finish(figure, words("title"), notes=[words("note", batches=batches, tokens=tokens)])
