"""Figure 12: the three questions with the numbers of this service, and the GPUs that each answer takes."""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from roofline.cost import round_cost
from roofline.speculation import break_even_alpha
from roofline.units import ms_from_seconds
from scenarios.build import Service
from scenarios.figures.assumptions import Assumptions
from scenarios.figures.drawing import COLOURS, QUIET, colour, finish, legend_beside
from scenarios.figures.services import LARGEST_BATCH, LARGEST_K, course_service, wide_costs
from scenarios.figures.speedup_vs_load import full_rate_per_s, serve
from scenarios.figures.table import Cell, Rows, Table
from scenarios.figures.words import Facts, Words
from scenarios.loads import LoadPoint, workload_at
from scenarios.questions.advice import advise, following
from scenarios.questions.break_even import simulate_arm, speculating_arm
from simulator import Result, Slo, Workload, paired_speedup

HEIGHT_INCHES = 6.0
LOADS = {"light": 0.1, "heavy": 0.7}
"""Of what plain decoding could carry with full batches."""
REQUESTS = 1200
HALVINGS = 9
ARMS = ("off", "best_k", "always_on")
QUESTIONS = ("bound", "busy", "acceptance", "pays")
FIRST_TOKEN_SLO_S = 2.0


def compute(assumptions: Assumptions, seed: int) -> Table:
    """What simulation answers to the three questions at a light and a heavy load; GPUs by demand for three policies."""
    service = course_service(assumptions, workload={"requests": REQUESTS})
    full_per_s = full_rate_per_s(service, assumptions)
    rows: Rows = []
    for load, share in LOADS.items():
        rows += _answers(service, assumptions, load=load, rate_per_s=share * full_per_s, seed=seed)
    runs = _arms(service, assumptions, seed=seed)
    capacities_per_s = {
        name: _capacity_per_s(service, run, assumptions, 1.5 * full_per_s) for name, run in runs.items()
    }
    most_per_s = 8.0 * max(capacities_per_s.values())
    for name, capacity_per_s in capacities_per_s.items():
        for replicas in range(math.ceil(most_per_s / capacity_per_s) + 1 if capacity_per_s > 0 else 0):
            rows.append(
                {"kind": "gpus", "basis": "simulated", "arm": name, "capacity_per_s": capacity_per_s,
                 "demand_per_s": replicas * capacity_per_s, "gpus": (replicas + 1) * assumptions.tensor_parallel}
            )  # fmt: skip
    return Table.of(rows)


def _answers(service: Service, assumptions: Assumptions, *, load: str, rate_per_s: float, seed: int) -> Rows:
    requests = _requests(service, rate_per_s)
    off = serve(service.off, requests, seed=seed)
    arm = speculating_arm(service)
    on = serve(arm, requests, seed=seed, alpha=assumptions.alpha, draft_tokens=assumptions.draft_tokens)
    batch = min(max(1, round(on.mean_batch)), LARGEST_BATCH)
    cost = round_cost(
        wide_costs(service),
        batch=batch,
        context_tokens=assumptions.context_tokens,
        draft_tokens=assumptions.draft_tokens,
    )
    least = math.nan
    if cost.ratio <= assumptions.draft_tokens + 1:
        least = float(break_even_alpha(assumptions.draft_tokens, cost.ratio))
    common: dict[str, Cell] = {"kind": "answer", "basis": "simulated", "load": load, "rate_per_s": rate_per_s}
    return [
        {**common, "question": "bound", "value": off.percentile("tpot", 0.95), "other": assumptions.tpot_slo_s},
        {**common, "question": "busy", "value": off.busy_fraction, "other": off.compute_utilisation_fraction},
        {**common, "question": "acceptance", "value": assumptions.alpha, "other": least},
        {**common, "question": "pays", "value": paired_speedup([off], [on]).estimate, "other": batch},
    ]


def _requests(service: Service, rate_per_s: float) -> Workload:
    return workload_at(service.scenario, LoadPoint(0, "rate", rate_per_s), trace=None, seed=0)


def _arms(service: Service, assumptions: Assumptions, *, seed: int) -> dict[str, Callable[[Workload], Result]]:
    """Plain decoding, K by batch as advised, and the K that is best for one request at every load."""
    arm, case = speculating_arm(service), service.cases[0]
    advice = advise(arm, case, context_tokens=assumptions.context_tokens, max_draft_tokens=LARGEST_K)
    largest = max(1, advice.at(1).draft_tokens)
    return {
        "off": lambda requests: serve(service.off, requests, seed=seed),
        "best_k": lambda requests: simulate_arm(following(arm, advice), requests, models=case.models, seed=seed),
        "always_on": lambda requests: serve(
            arm, requests, seed=seed, alpha=assumptions.alpha, draft_tokens=largest
        ),
    }  # fmt: skip


def _capacity_per_s(
    service: Service, run: Callable[[Workload], Result], assumptions: Assumptions, most_per_s: float
) -> float:
    """The largest load one replica carries with 95 % of the requests inside the objectives, by halving."""
    slos = (Slo("tpot", 0.95, assumptions.tpot_slo_s), Slo("ttft", 0.95, FIRST_TOKEN_SLO_S))
    low_per_s, high_per_s = 0.0, most_per_s
    for _ in range(HALVINGS):
        middle_per_s = (low_per_s + high_per_s) / 2
        result = run(_requests(service, middle_per_s))
        carried = result.meets(slos) and not result.saturation.saturated
        low_per_s, high_per_s = (middle_per_s, high_per_s) if carried else (low_per_s, middle_per_s)
    return low_per_s


def facts(data: Table, assumptions: Assumptions) -> Facts:
    """Requests per second that one replica carries, by policy."""
    staircase = data.where(kind="gpus")
    found: dict[str, object] = {}
    for name in ARMS:
        own = staircase.where(arm=name)
        found[name] = float(own.values("capacity_per_s")[0]) if len(own) else 0.0
    return found | {"slo": ms_from_seconds(assumptions.tpot_slo_s)}


def draw(figure: Figure, data: Table, words: Words) -> None:
    """Left the flow as boxes, right GPUs over demand as a staircase."""
    flow, stairs = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_flow(flow, data.where(kind="answer"), words)
    staircase = data.where(kind="gpus")
    for index, name in enumerate(ARMS):
        steps = staircase.where(arm=name)
        if len(steps):
            demand = np.append(steps.values("demand_per_s"), np.nan)
            label = words.labelled(words(f"arm_{name}"), steps.one("basis"))
            stairs.step(demand, np.append(steps.values("gpus"), np.nan), where="post", label=label, **colour(index))
    stairs.set(xlabel=words("x"), ylabel=words("y"), title=words("panel_stairs", slo=_slo(data)))
    stairs.set_xlim(left=0)
    stairs.set_ylim(bottom=0)
    legend_beside(figure, [stairs])
    finish(figure, words("title"), notes=[words("note")])


def _slo(data: Table) -> float:
    return ms_from_seconds(float(data.where(question="bound").values("other")[0]))


def _draw_flow(axes: Axes, answers: Table, words: Words) -> None:
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1), title=words("panel_flow"))
    tops = (0.90, 0.64, 0.38, 0.12)
    for place, question in enumerate(QUESTIONS):
        lines = [words(f"question_{question}")]
        for load in LOADS:
            [row] = list(answers.where(question=question, load=load).rows())
            value, other = (math.nan if row[name] is None else float(row[name] or 0) for name in ("value", "other"))
            lines.append(words(f"load_{load}", text=_answer(question, value, other, words), rate=row["rate_per_s"]))
        axes.annotate(
            "\n".join(lines), (0.5, tops[place]), ha="center", va="center", fontsize=9.5, linespacing=1.4,
            bbox={"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": COLOURS[2 * (place == 3)]},
        )  # fmt: skip
        if place:
            look = {"arrowstyle": "-|>", "color": QUIET}
            axes.annotate("", (0.5, tops[place] + 0.085), (0.5, tops[place - 1] - 0.085), arrowprops=look)


def _answer(question: str, value: float, other: float, words: Words) -> str:
    """The numbers of one answer, in words; what is said depends on which of the two is larger."""
    match question:
        case "bound":
            shown = {"value": ms_from_seconds(value), "other": ms_from_seconds(other)}
            return words("bound_slow" if value > other else "bound_fast", **shown)
        case "busy":
            return words("busy_text", value=100 * value, other=100 * other)
        case "acceptance":
            return (
                words("acceptance_never") if math.isnan(other) else words("acceptance_text", value=value, other=other)
            )
        case _:
            return words("pays_on" if value > 1 else "pays_off", value=value, other=other)
