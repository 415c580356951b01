"""Writes `limits.ipynb`: a walk through the sixteen claims of the course chapter, L1 to L16.

    python docs/notebooks/make_limits_notebook.py

Every claim is computed and judged by `scenarios.chapter`, shown beside the figure that explains it, and followed by
something to change. The notebook is kept without outputs; `make test-slow` executes it from top to bottom.
"""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

NOTEBOOK = Path(__file__).with_name("limits.ipynb")

INTRODUCTION = """\
# The limits of speculative decoding, claim by claim

A draft proposes K tokens, the target verifies them in one step. A round yields **AL** tokens (bonus included) and costs
**R** plain steps; speculation pays exactly while **AL > R**. Sixteen claims of a course chapter follow, L1 to L16. For
each: what is said, what this project computes and what others measured, the verdict, a figure, and something to try.

Nothing here needs a GPU. Change `LANGUAGE` to `"zh"` for figures in Chinese (a font with Chinese characters is needed:
`pip install "specdec-sim[chinese]"`), and `ASSUMED` to your own GPU, model or acceptance."""

SETUP = '''\
from IPython.display import Markdown, display

from scenarios.chapter.rows import chapter_rows
from scenarios.figures import show
from scenarios.report.chapter_text import row_section

LANGUAGE = "en"
ASSUMED = {}  # for example {"gpu": "A100-SXM-80GB", "alpha": 0.8}
rows = {}


def claim(name):
    """Compute, judge and show a row of the chapter."""
    [row] = chapter_rows([name])
    display(Markdown(row_section(row)))
    rows[name] = row


def figure(name, **assumed):
    """Draw a figure with its texts; its table is returned."""
    drawn = show(name, language=LANGUAGE, **{**ASSUMED, **assumed})
    display(drawn)
    display(Markdown(f"{drawn.text('see')}\\n\\n*{drawn.text('try')}*"))
    return drawn.data'''

# Claim -> (lead, figure or None, something to try as code).
WALK: dict[str, tuple[str, str | None, str]] = {
    "L1": (
        "Acceptance is how much of the target's distribution the draft covers.",
        "acceptance_vs_entropy",
        'data.where(panel="entropy", draft_error=1.0).columns["alpha"]',
    ),
    "L2": (
        "With acceptance and draft cost alone, everything follows from a geometric sum.",
        "tokens_per_round",
        "from roofline.speculation import break_even_alpha, textbook_round_ratio, textbook_speedup\n\n"
        "for k in (1, 3, 5, 7):\n"
        "    s = textbook_speedup(0.7, k, draft_cost_ratio=0.1)\n"
        "    least = break_even_alpha(k, textbook_round_ratio(k, 0.1))\n"
        '    print(f"K = {k}: S = {s:.2f}, pays above alpha = {least:.2f}")',
    ),
    "L3": (
        "The same gain, once the batch grows.",
        "speedup_vs_load",
        'data.where(panel="batch", crossover=1).columns["load"]',
    ),
    "L4": (
        "Three questions instead of a belief.",
        "decision_flow",
        "from scenarios.figures import decision_flow\n\ndecision_flow.facts(data, decision_flow.Assumptions())",
    ),
    "L5": (
        "Verifying K + 1 rows a sequence is free only while the step waits for weights.",
        "al_vs_round_cost",
        'figure("roofline_points").where(kind="verify").columns["flops_per_byte"]',
    ),
    "L6": (
        "A tree hedges against the first wrong guess; which tree is best depends on the machine.",
        "accepted_lengths",
        "import numpy as np\n\nfrom simulator.best_shape import best_shape\n\n"
        "edges = np.array([[0.6, 0.15, 0.08]] * 5)  # say: chance of the first, second, third guess\n"
        "best = best_shape(edges, lambda tree: 1.1 + 0.02 * tree.nodes, max_nodes=16)\n"
        'print(f"{best.tree.nodes} nodes, AL = {best.acceptance_length:.2f}, S = {best.speedup:.2f}")',
    ),
    "L7": (
        "A prompt chunk fills the same step that verifies drafts.",
        None,
        'data = figure("roofline_points")\ndata.where(kind="prefill").columns["pass_s"]',
    ),
    "L8": (
        "What a scheduler has to know, and where the time of its rounds goes.",
        "step_timeline",
        "from scenarios.figures import step_timeline\n\nstep_timeline.facts(data, None)",
    ),
    "L9": (
        "Quantising moves p, and leaves the draft where it was.",
        None,
        "from roofline.speculation import expected_tokens\n"
        "from scenarios.quantization_presets import quantization_factor, quantization_names\n\n"
        "for name in quantization_names():  # published losses of acceptance, as factors\n"
        '    print(f"{name}: AL@3 = {expected_tokens(0.8 * quantization_factor(name), 3):.2f} from alpha 0.8")',
    ),
    "L10": (
        "Two walls removed, and the third behind them.",
        "quantization_waterfall",
        'next(data.where(way="int4").rows())',
    ),
    "L11": (
        "The load swings; a fixed K cannot be right all day.",
        "swinging_load",
        "from scenarios.figures import swinging_load\n\nswinging_load.facts(data, None)",
    ),
    "L12": (
        "Seven reasons against, each with its number.",
        "best_k",
        'data.where(panel="constant", batch=256).columns["best_k"]',
    ),
    "L13": (
        "Every proposer runs something else, and on a mixture of experts every token has its price.",
        "moe_coverage",
        'from simulator import proposers\n\nsorted(name for name in proposers.__all__ if name.endswith("Proposer"))',
    ),
    "L14": (
        "Text that repeats itself drafts itself, at no model's cost.",
        None,
        "from scenarios.task_presets import task_spread\n\n"
        '[(method, task_spread("code", method)[1].alpha) for method in ("ngram", "eagle3")]',
    ),
    "L15": (
        "Measure, then decide; here is how far our own predictions are off.",
        "predicted_vs_measured",
        "from scenarios.figures import predicted_vs_measured\n\npredicted_vs_measured.facts(data, None)",
    ),
    "L16": (
        "Only requests inside the objective count.",
        None,
        "from scenarios import decide, load_scenario\n\n"
        'scenario = load_scenario("llama8b_h100_chat")\n'
        'workload = scenario.workload.model_copy(update={"requests": 300})\n'
        'decision = decide(scenario.model_copy(update={"workload": workload}))\n'
        "print(decision.report())",
    ),
}


def notebook() -> nbformat.NotebookNode:
    """The notebook without outputs; cells have fixed ids, so that it is the same text every time."""
    cells = [_markdown("introduction", INTRODUCTION), _code("setup", SETUP)]
    for name, (lead, figure, attempt) in WALK.items():
        cells.append(_markdown(f"{name}-lead", f"---\n**{name}.** {lead}"))
        cells.append(_code(f"{name}-claim", f'claim("{name}")'))
        if figure is not None:
            cells.append(_code(f"{name}-figure", f'data = figure("{figure}")'))
        cells.append(_code(f"{name}-try", attempt))
    cells.append(_markdown("summary-lead", "---\n**All verdicts.**"))
    summary = 'for row in rows.values():\n    print(f"{row.id:<4}{row.verdict:<15}{row.title}")'
    cells.append(_code("summary", summary))
    made = new_notebook(cells=cells)
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def _markdown(name: str, text: str) -> nbformat.NotebookNode:
    return new_markdown_cell(text, id=name)


def _code(name: str, text: str) -> nbformat.NotebookNode:
    return new_code_cell(text, id=name)


def text() -> str:
    """The notebook as a file."""
    return nbformat.writes(notebook(), version=4) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(text(), encoding="utf-8")
    print(f"written: {NOTEBOOK}")
