"""L1: acceptance is the overlap of draft and target, and the entropy of the task sets it."""

from __future__ import annotations

import csv

import numpy as np
from numpy.typing import NDArray

from roofline.speculation import best_draft_tokens, expected_tokens
from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, round_at, service
from scenarios.files import TRACE_FOLDER
from scenarios.questions.break_even import speculating_arm
from scenarios.task_presets import task_spread
from simulator.rng import Streams
from simulator.sampling_acceptance import probabilities, sampled_acceptance

FloatArray = NDArray[np.float64]
_ALPHA_SAID = {"code": (0.7, 0.9), "json": (0.8, 0.95), "math": (0.5, 0.7), "chat": (0.3, 0.6), "creative": (0.2, 0.4)}
_SPEEDUP_SAID = {"code": (3.0, None), "math": (1.7, 2.3), "chat": (None, 1.5), "creative": (None, 1.0)}
_MOST_DRAFTS = 8
_POSITIONS, _VOCABULARY = 400, 2000
_SHARPNESS = (4.0, 2.0, 1.0, 0.5)
_DRAFT_ERROR = 1.0
"""Spread of the draft's error in log-probability."""
_LAB = TRACE_FOLDER / "lab" / "gemma3_270m_head.csv"
_STRONG_CORRELATION = -0.8


def entropy(seed: int) -> Row:
    """Published acceptance by task beside the claim, the speed-ups it gives, and alpha = 1 - TV on drawn logits."""
    made = service(DENSE, seed)
    return Row(
        id="L1",
        title="Acceptance is set by the entropy of the task",
        says="alpha is the overlap of draft q and target p; code 0.7-0.9 (3-4x and more), JSON 0.8-0.95, mathematics "
        "0.5-0.7 (about 2x), open chat 0.3-0.5 (reports 0.4-0.6; below 1.5x), creative writing 0.2-0.4 (useless)",
        command=f"specdec decide {DENSE} --task chat",
        claims=(
            *(_alpha_of(task) for task in _ALPHA_SAID),
            *(_speedup_of(made, task) for task in _SPEEDUP_SAID),
            *_overlap(seed),
            _measured(),
        ),
        note="Model drafters (draft models, EAGLE, MTP). N-gram lookup is the family for which the chapter's figures "
        "for chat come true. Published alpha has 1 to 117 rows a task; JSON has one. The real model's head stands on "
        "two thirds of its layers. Text that the model knows by heart is an exception it shows: at 1.1 nats, licences "
        "had 0.55 of first drafts accepted; they are left out, for their files are copies of each other.",
    )


def _measured() -> Claim:
    """A real model on real text: rank correlation of position-1 acceptance with entropy over slices of text."""
    from calibrate.lab.rounds import spearman

    with _LAB.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    nats = [float(row["entropy_nats"]) for row in rows]
    alphas = [float(row["first"]) for row in rows]
    return Claim(
        "acceptance of a real model falls with the entropy of its text, as a rank correlation",
        high=_STRONG_CORRELATION,
        found=(
            Quantity(
                f"rank correlation over {len(rows)} slices, Gemma 3 270M with a distilled head",
                round(spearman(np.array(nats), np.array(alphas)), 3),
                "measured",
                source="specdec acceptance lab",
            ),
        ),
        beside=tuple(
            Quantity(f"{row['slice']}, alpha at {entropy:.2f} nats", alpha, "measured")
            for row, entropy, alpha in sorted(zip(rows, nats, alphas, strict=True), key=lambda each: each[1])
        ),
    )


def _alpha_of(task: str) -> Claim:
    low, high = _ALPHA_SAID[task]
    p10, median, p90 = task_spread(task, "eagle3")
    beside = [Quantity("p10", p10.alpha, "measured"), Quantity("p90", p90.alpha, "measured")]
    if task in ("code", "math", "chat"):
        beside.append(Quantity("n-gram lookup, median", task_spread(task, "ngram")[1].alpha, "measured"))
    return Claim(
        f"{task}: alpha {low:g} to {high:g}",
        low,
        high,
        tolerance_fraction=0.1,
        published=(
            Quantity(
                "median alpha", median.alpha, "measured", source=f"scenarios/presets/acceptance.toml, {median.text}"
            ),
        ),
        beside=tuple(beside),
    )


def _speedup_of(made: Service, task: str) -> Claim:
    """S at batch 1 with the best K for the median alpha of the task."""
    low, high = _SPEEDUP_SAID[task]
    alpha = task_spread(task, "eagle3")[1].alpha
    drafts = np.arange(_MOST_DRAFTS + 1)
    ratios = [round_at(speculating_arm(made), 1, draft_tokens=int(k)).ratio for k in drafts]
    best = best_draft_tokens(expected_tokens(alpha, drafts), ratios)
    measured = () if task == "creative" else (published(f"speedup_{task}"),)
    wanted = f"at least {low:g}" if high is None else f"at most {high:g}" if low is None else f"{low:g} to {high:g}"
    return Claim(
        f"{task}: a speed-up of {wanted} for one request",
        low,
        high,
        tolerance_fraction=0.1,
        found=(Quantity("S, 8B with EAGLE-3 on H100, best K", best.speedup, "assumed"),),
        published=measured,
        beside=(Quantity("best K", best.draft_tokens, "assumed"),),
    )


def _overlap(seed: int) -> tuple[Claim, Claim]:
    """Drawn logits, sharpened or flattened, under a draft that is off by the same amount in log-probability."""
    base = Streams(seed).get("chapter target logits").normal(0.0, 2.0, (_POSITIONS, _VOCABULARY))
    error = Streams(seed).get("chapter draft error").normal(0.0, _DRAFT_ERROR, base.shape)
    alphas, entropies, gaps = list[float](), list[float](), list[float]()
    for sharpness in _SHARPNESS:
        target, draft = sharpness * base, sharpness * base + error
        p, q = probabilities(target), probabilities(draft)
        alphas.append(sampled_acceptance(target, draft, temperature=1.0, draft_sampling="probabilistic"))
        gaps.append(abs(alphas[-1] - (1.0 - float(np.abs(p - q).sum(axis=1).mean()) / 2)))
        entropies.append(float(-(p * np.log(np.maximum(p, 1e-300))).sum(axis=1).mean()))
    falls = float(np.mean(np.diff(alphas) < 0))
    beside = tuple(
        Quantity(f"alpha at {nats:.1f} nats", alpha, "assumed") for nats, alpha in zip(entropies, alphas, strict=True)
    )
    return (
        Claim(
            "alpha = 1 - TV(p, q)",
            0.0,
            1e-9,
            found=(Quantity("largest difference over drawn logits", round(max(gaps), 12), "assumed"),),
        ),
        Claim(
            "alpha falls as the entropy of the target rises (a draft equally wrong everywhere, drawn logits)",
            1.0,
            1.0,
            found=(Quantity("share of steps down", falls, "assumed"),),
            beside=beside,
        ),
    )
