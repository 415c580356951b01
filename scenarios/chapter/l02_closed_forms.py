"""L2: expected tokens and speed-up from alpha, the number of drafts and the cost of a draft."""

from __future__ import annotations

import numpy as np

from roofline.speculation import (
    alpha_from_length,
    best_draft_tokens,
    break_even_alpha,
    expected_tokens,
    speedup,
    textbook_speedup,
)
from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, at_load, closed, label_of, round_at, service
from scenarios.questions.break_even import speculating_arm

ALPHA, DRAFT_TOKENS = 0.8, 4
_BUSY_BATCH = 128
_PAPER_TREE = {"nodes": 60, "depth": 7, "beam": 10}
_INPUT_TOKENS, _OUTPUT_TOKENS = 64, 600
"""Short prompts: the formula is about decoding, prefill would dilute it."""


def closed_forms(seed: int) -> Row:
    """The formulas against simulation, the best K against a published one, and the 6.5x of EAGLE-3."""
    return Row(
        id="L2",
        title="Speed-up from alpha, N and the cost of a draft",
        says="expected tokens (1 - alpha^(N+1)) / (1 - alpha) and the speed-up follow from alpha, N and the cost of a "
        "draft; there is a best N; EAGLE-3 up to 6.5x",
        command=f"specdec decide {DENSE} --alpha 0.8 --draft-tokens 4 --explain",
        claims=(*_formulas(seed), _best_drafts(seed), _largest_speedup(seed)),
        note="The textbook takes a verification for a plain step: near enough at batch 1, far off at batch "
        f"{_BUSY_BATCH}, where S = AL / R with a computed R still holds.",
    )


def _formulas(seed: int) -> tuple[Claim, Claim, Claim]:
    ratios_to_simulated: list[Quantity] = []
    textbook: list[Quantity] = []
    lengths: list[Quantity] = []
    for batch in (1, _BUSY_BATCH):
        made = service(
            DENSE,
            seed,
            speculation={"draft_tokens": DRAFT_TOKENS},
            acceptance={"alpha": ALPHA},
            workload=closed(batch, max(20, 3 * batch), input_tokens=_INPUT_TOKENS, output_tokens=_OUTPUT_TOKENS),
        )
        case = at_load(made, "concurrency", batch).middle
        assert case is not None, "an alpha is given"
        context_tokens = _INPUT_TOKENS + _OUTPUT_TOKENS // 2
        cost = round_at(speculating_arm(made), batch, draft_tokens=DRAFT_TOKENS, context_tokens=context_tokens)
        draft_cost_ratio = cost.draft_s / DRAFT_TOKENS / cost.plain_s
        length = float(expected_tokens(ALPHA, DRAFT_TOKENS))
        simple = float(textbook_speedup(ALPHA, DRAFT_TOKENS, draft_cost_ratio=draft_cost_ratio))
        simulated, label = case.tpot_speedup.estimate, label_of(made)
        lengths.append(
            Quantity(f"simulated AL over the formula, batch {batch}", case.on.acceptance_length / length, label)
        )
        exact = float(speedup(length, cost.ratio))
        ratios_to_simulated.append(Quantity(f"AL / R over simulated S, batch {batch}", exact / simulated, label))
        textbook.append(Quantity(f"AL / (1 + N c) over simulated S, batch {batch}", simple / simulated, label))
    return (
        Claim("AL = (1 - alpha^(N+1)) / (1 - alpha)", 1.0, 1.0, tolerance_fraction=0.02, found=tuple(lengths)),
        Claim(
            "S = AL / R, R from the cost of verifying, drafting and the host",
            1.0,
            1.0,
            tolerance_fraction=0.1,
            found=tuple(ratios_to_simulated),
        ),
        Claim("S = AL / (1 + N c), verifying is free", 1.0, 1.0, tolerance_fraction=0.1, found=tuple(textbook)),
    )


def _best_drafts(seed: int) -> Claim:
    """The issue that published AL and time per token for K = 2 to 7 on an 8B model with an EAGLE-3 head."""
    made = service(DENSE, seed)
    first, last = published("eagle3_al_at_2"), published("eagle3_al_at_7")
    alpha = float(alpha_from_length(first.value, 2) + alpha_from_length(last.value, 7)) / 2
    drafts = np.arange(9)
    ratios = [round_at(speculating_arm(made), 1, draft_tokens=int(k)).ratio for k in drafts]
    best = best_draft_tokens(expected_tokens(alpha, drafts), ratios)
    return Claim(
        "one N is best, neither the smallest nor the largest (batch 1, EAGLE-3)",
        3.0,
        5.0,
        found=(Quantity("best K at the published acceptance", best.draft_tokens, "calibrated"),),
        published=(published("eagle3_best_k"),),
        beside=(
            Quantity("alpha from the published AL", alpha, "measured"),
            Quantity("break-even alpha at that K", float(break_even_alpha(4, ratios[4])), "calibrated"),
        ),
    )


def _largest_speedup(seed: int) -> Claim:
    """The acceptance length of the paper's best case, on the cost of an engine."""
    paper_length = published("eagle3_paper_al")
    made = service(DENSE, seed, speculation={"draft_tokens": None, "tree": _PAPER_TREE})
    ratio = round_at(speculating_arm(made), 1, draft_tokens=_PAPER_TREE["nodes"]).ratio
    return Claim(
        "EAGLE-3 reaches 6.5x",
        6.5,
        None,
        tolerance_fraction=0.05,
        found=(
            Quantity(
                "S of a 60-node tree at the paper's AL, 8B on H100 under vLLM", paper_length.value / ratio, "calibrated"
            ),
        ),
        published=(published("eagle3_paper_speedup"), published("eagle3_engine_best_speedup")),
        beside=(paper_length, Quantity("R of that tree", ratio, "calibrated")),
    )
