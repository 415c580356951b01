"""L9: quantising the target moves p, and what the draft's precision and memory are worth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roofline.counts import weight_bytes
from roofline.hf_config import load_model
from scenarios.chapter.judging import Claim, Quantity, Row
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, LARGE, round_at, service
from scenarios.questions.break_even import speculating_arm
from simulator.rng import Streams
from simulator.sampling_acceptance import probabilities, sampled_acceptance

FloatArray = NDArray[np.float64]
_POSITIONS, _VOCABULARY, _WIDTH, _GROUP = 300, 2000, 256, 64
_LARGEST = {8: 127, 4: 7}
"""Largest integer of a symmetric format by its bits."""
_TOP = 10
_DRAFTS = (
    ("SafeAILab/EAGLE3-LLaMA3.1-8B", "head", "meta-llama/Llama-3.1-8B-Instruct"),
    ("SpecForge/EAGLE3-llama3-70B", "head", "meta-llama/Llama-3.1-70B-Instruct"),
    ("Qwen/Qwen3-0.6B", "draft_model", "Qwen/Qwen3-32B"),
    ("meta-llama/Llama-3.2-1B-Instruct", "draft_model", "meta-llama/Llama-3.1-70B-Instruct"),
    ("meta-llama/Llama-3.2-3B-Instruct", "draft_model", "meta-llama/Llama-3.1-70B-Instruct"),
)
_DRAFT_MODEL = {"method": "draft_model", "draft": "meta-llama/Llama-3.2-1B-Instruct", "draft_tokens": 4}


def quantisation(seed: int) -> Row:
    """Published losses beside those of a quantised random head, and the account of the draft's memory."""
    return Row(
        id="L9",
        title="Quantised targets and the draft's precision",
        says="quantising the target lowers acceptance a little, INT4 more than INT8, mostly in the tail; keep the "
        "draft in 16 bit: its memory is small (below 3B; hundreds of MB to 2 GB), the real memory is activations and "
        "expansion",
        command=f"specdec decide {DENSE} --loads 5 --explain",
        claims=(*_moved(seed), _draft_bytes(), _activations(seed), _draft_precision(seed)),
        note="The quantised head has drawn weights: it shows the mechanism, not a model's loss. What fills memory is "
        "neither activations nor the draft but the cache.",
    )


def _moved(seed: int) -> tuple[Claim, ...]:
    """A linear head over drawn states, its weights rounded in groups; the draft was made for the unquantised one."""
    streams = Streams(seed)
    states = streams.get("chapter states").normal(0.0, 1.0, (_POSITIONS, _WIDTH)) / np.sqrt(_WIDTH)
    weights = streams.get("chapter weights").normal(0.0, 3.0, (_WIDTH, _VOCABULARY))
    exact: FloatArray = states @ weights
    draft: FloatArray = exact + streams.get("chapter draft error").normal(0.0, 0.8, exact.shape)
    before = sampled_acceptance(exact, draft, temperature=1.0, draft_sampling="probabilistic")
    rounded = {bits: states @ _rounded(weights, largest) for bits, largest in _LARGEST.items()}
    losses = {
        bits: 1.0 - sampled_acceptance(logits, draft, temperature=1.0, draft_sampling="probabilistic") / before
        for bits, logits in rounded.items()
    }
    p = probabilities(exact)
    four, eight = published("acceptance_iq2"), published("acceptance_q5")
    return (
        _falls_a_little(eight, losses, four),
        _by_bits(losses),
        _in_the_tail(p, rounded, exact),
        Claim("acceptance of a real checkpoint before and after", missing="two checkpoints of one model and its draft"),
    )


def _falls_a_little(eight: Quantity, losses: dict[int, float], four: Quantity) -> Claim:
    return Claim(
        "acceptance falls a little: by at most 10 %",
        None,
        0.1,
        found=tuple(Quantity(f"loss, INT{bits} head", loss, "assumed") for bits, loss in losses.items()),
        published=(
            Quantity(
                "loss from 5.5 to 2.8 bits, Gemma-4-31B with MTP, K = 1",
                1.0 - four.value / eight.value,
                "measured",
                source=four.source,
            ),
        ),
    )


def _by_bits(losses: dict[int, float]) -> Claim:
    return Claim(
        "INT4 loses more than INT8",
        0.001,
        None,
        found=(Quantity("loss of INT4 minus loss of INT8", losses[4] - losses[8], "assumed"),),
    )


def _in_the_tail(p: FloatArray, rounded: dict[int, FloatArray], exact: FloatArray) -> Claim:
    return Claim(
        "the loss is mostly in the tail",
        0.5,
        None,
        found=(
            Quantity(
                f"share of moved probability outside the {_TOP} likeliest tokens, INT4",
                _tail_fraction(exact, np.abs(p - probabilities(rounded[4]))),
                "assumed",
            ),
        ),
        beside=(Quantity("share of probability there", _tail_fraction(exact, p), "assumed"),),
    )


def _rounded(weights: FloatArray, largest: int) -> FloatArray:
    """Symmetric rounding in groups of inputs, as weight-only formats do."""
    groups: FloatArray = np.reshape(weights, (-1, _GROUP, weights.shape[1]))
    scales: FloatArray = np.abs(groups).max(axis=1, keepdims=True) / largest
    return np.reshape(np.rint(groups / scales) * scales, weights.shape)


def _tail_fraction(logits: FloatArray, amounts: FloatArray) -> float:
    """Share of the amounts that lies outside the likeliest tokens."""
    order = np.argsort(-logits, axis=1)
    return float(np.take_along_axis(amounts, order[:, _TOP:], axis=1).sum() / amounts.sum())


def _draft_bytes() -> Claim:
    found: list[Quantity] = []
    for name, role, target in _DRAFTS:
        model = load_model(
            name,
            role="head" if role == "head" else "draft_model",
            method="eagle3" if role == "head" else None,
            target=load_model(target),
        )
        found.append(Quantity(name.split("/")[1], weight_bytes(model) / 1e9, "catalogue", "GB"))
    return Claim("a draft in 16 bits takes 0.2 to 2 GB", 0.2, 2.0, tolerance_fraction=0.1, found=tuple(found))


def _activations(seed: int) -> Claim:
    """Workspace of the largest step against everything the draft holds, on one GPU."""
    found: list[Quantity] = []
    beside: list[Quantity] = []
    for preset, name in ((DENSE, "8B on one H100"), (LARGE, "70B on four H100")):
        account = speculating_arm(service(preset, seed)).memory
        cache_bytes = account.kv_tokens * account.draft_kv_bytes_per_token
        draft_bytes = account.draft_weights_bytes + cache_bytes
        found.append(Quantity(f"{name}: workspace over draft", account.workspace_bytes / draft_bytes, "catalogue"))
        beside += [
            Quantity(f"{name}: workspace", account.workspace_bytes / 1e9, "catalogue", "GB"),
            Quantity(f"{name}: draft weights", account.draft_weights_bytes / 1e9, "catalogue", "GB"),
            Quantity(f"{name}: draft cache", cache_bytes / 1e9, "catalogue", "GB"),
            Quantity(f"{name}: target cache", account.kv_tokens * account.kv_bytes_per_token / 1e9, "catalogue", "GB"),
        ]
    return Claim(
        "activations and expansion take more than the draft", 1.0, None, found=tuple(found), beside=tuple(beside)
    )


def _draft_precision(seed: int) -> Claim:
    """S of a 1B draft in 8 and 4 bits over S in 16, acceptance held."""
    ratios: dict[str, float] = {}
    for quantization in ("bf16", "fp8", "int4"):
        drafting = {**_DRAFT_MODEL, "draft_quantization": None if quantization == "bf16" else quantization}
        arm = speculating_arm(service(DENSE, seed, speculation=drafting))
        ratios[quantization] = round_at(arm, 1, draft_tokens=4).ratio
    return Claim(
        "a quantised draft brings nothing worth having (at most 5 % of S)",
        None,
        1.05,
        found=tuple(
            Quantity(
                f"S with a 1B draft in {name} over bf16, same acceptance", ratios["bf16"] / ratios[name], "catalogue"
            )
            for name in ("fp8", "int4")
        ),
        published=(published("mtp_head_q4_over_q8"),),
    )
