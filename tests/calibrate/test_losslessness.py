"""Speculative output follows the target's law exactly, and the tests that say so notice when it does not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import chi2

torch = pytest.importorskip("torch")

from calibrate.engine.loop import Engine, generate_plain, generate_speculative  # noqa: E402 # needs torch
from calibrate.engine.model import Decoder, KvCache  # noqa: E402
from calibrate.engine.proposers import HeadProposer, ModelProposer, NgramProposer, Proposer  # noqa: E402
from calibrate.engine.sampler import LOSSLESS, RejectionRule, law_of  # noqa: E402
from calibrate.engine.sequences import Sequences  # noqa: E402
from calibrate.shapes import DecoderShape  # noqa: E402

VOCAB = 8
TARGET = DecoderShape("law-target", 32, 2, 4, 2, 8, 64, VOCAB)
DRAFT = DecoderShape("law-draft", 16, 1, 2, 1, 8, 32, VOCAB)
HEAD = DecoderShape("law-head", 32, 1, 4, 2, 8, 64, VOCAB, fused_hidden=1, shares_vocabulary=True)
PROMPT = [1, 5, 2, 1, 5, 2, 1]
CAPACITY = 64
EMITTED = 3
THRESHOLD_P = 1e-4


@dataclass(frozen=True)
class Setup:
    """A proposer by name, K, temperature."""

    proposer: str
    draft_tokens: int
    temperature: float = 1.0


def _decoder(shape: DecoderShape, seed: int, *, scale: float = 2.0) -> Decoder:
    model = Decoder(shape, "fp32", device="cpu", seed=seed, scale=scale)
    model.reserve(CAPACITY)
    return model


def _cache(shape: DecoderShape, batch: int) -> KvCache:
    return KvCache.empty(shape, "fp32", batch=batch, capacity_tokens=CAPACITY, device="cpu")


def _proposer(name: str, target: Decoder, batch: int, temperature: float) -> Proposer:
    if name == "n-gram":
        return NgramProposer(match_tokens=2)
    if name == "head":
        head = _decoder(HEAD, 7)
        head.share_vocabulary(target)
        return HeadProposer(head, _cache(HEAD, batch), temperature)
    if name == "early exit":
        shape = replace(target.shape, layers=1)
        exit_early = target.truncated(1)
        return ModelProposer(exit_early, _cache(shape, batch), temperature)
    return ModelProposer(_decoder(DRAFT, 11), _cache(DRAFT, batch), temperature)


def _engine(target: Decoder, batch: int, temperature: float, *, seed: int, rule: RejectionRule = LOSSLESS) -> Engine:
    generator = torch.Generator().manual_seed(seed)
    return Engine(target, _cache(target.shape, batch), temperature, generator, rule)


@torch.inference_mode()
def exact_law(target: Decoder, temperature: float) -> np.ndarray:
    """Probabilities of the first three tokens after the prompt, (512,), by plain forward passes over all prefixes."""
    prefixes = torch.cartesian_prod(*[torch.arange(VOCAB)] * (EMITTED - 1))
    tokens = torch.cat((torch.tensor(PROMPT).repeat(len(prefixes), 1), prefixes), dim=1)
    places = torch.arange(tokens.shape[1]).repeat(len(prefixes), 1)
    hidden = target.forward(tokens, places, cache=_cache(target.shape, len(prefixes)), span=tokens.shape[1])
    laws = law_of(target.logits(hidden[:, len(PROMPT) - 1 :]), temperature).double().numpy()
    first, second = prefixes[:, 0].numpy(), prefixes[:, 1].numpy()
    rows = np.arange(len(prefixes))
    joint = laws[rows, 0, first] * laws[rows, 1, second]
    return (joint[:, None] * laws[:, 2]).reshape(-1)


@torch.inference_mode()
def counts_of(setup: Setup, sequences: int, *, seed: int, rule: RejectionRule = LOSSLESS) -> np.ndarray:
    """How often each of the 512 triples was emitted."""
    target = _decoder(TARGET, 3)
    counts = np.zeros(VOCAB**EMITTED)
    batch = 20_000
    for part in range(-(-sequences // batch)):
        size = min(batch, sequences - part * batch)
        engine = _engine(target, size, setup.temperature, seed=seed + part, rule=rule)
        state = Sequences.from_prompts([PROMPT] * size, capacity_tokens=CAPACITY, device="cpu")
        proposer = _proposer(setup.proposer, target, size, setup.temperature)
        generate_speculative(engine, state, proposer=proposer, draft_tokens=setup.draft_tokens, new_tokens=EMITTED)
        emitted = state.tokens[:, len(PROMPT) : len(PROMPT) + EMITTED].numpy()
        code = emitted @ np.array([VOCAB**2, VOCAB, 1])
        counts += np.bincount(code, minlength=len(counts))
    return counts


def p_value(counts: np.ndarray, law: np.ndarray) -> float:
    """Chi-square against an exact law; triples expected less than five times are joined."""
    expected = law * counts.sum()
    rare = expected < 5
    observed = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], expected[rare].sum())
    keep = wanted > 0
    statistic = float(np.sum((observed[keep] - wanted[keep]) ** 2 / wanted[keep]))
    return float(chi2.sf(statistic, keep.sum() - 1))


SETUPS = [
    Setup("draft model", 1),
    Setup("draft model", 2),
    Setup("draft model", 4),
    Setup("draft model", 3, temperature=0.7),
    Setup("early exit", 3),
    Setup("n-gram", 3),
    Setup("head", 3),
]


@pytest.mark.slow
@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_the_first_three_tokens_follow_the_exact_law_of_the_target(setup: Setup) -> None:
    law = exact_law(_decoder(TARGET, 3), setup.temperature)
    assert law.sum() == pytest.approx(1.0, abs=1e-5)
    found = p_value(counts_of(setup, 200_000, seed=100), law)
    print(f"{setup}: p = {found:.3g}")
    assert found > THRESHOLD_P


def test_a_small_sample_of_the_first_three_tokens_follows_the_exact_law() -> None:
    law = exact_law(_decoder(TARGET, 3), 1.0)
    assert p_value(counts_of(Setup("draft model", 3), 10_000, seed=5), law) > THRESHOLD_P


MUTANTS = {
    "inverted ratio": replace(LOSSLESS, accept=lambda p, q, u: u * p < q),
    "threshold acceptance": replace(LOSSLESS, accept=lambda p, q, u: p > 0.5 * q),
    "residual p": replace(LOSSLESS, residual=lambda p, q: p.clone()),
    "residual |p - q|": replace(LOSSLESS, residual=lambda p, q: (p - q).abs()),
    "bonus from q": replace(LOSSLESS, bonus_from_draft=True),
    "rollback off by one": replace(LOSSLESS, stale_entries=1),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_law_test_notices_a_broken_rule(name: str) -> None:
    law = exact_law(_decoder(TARGET, 3), 1.0)
    found = p_value(counts_of(Setup("draft model", 1), 8_000, seed=9, rule=MUTANTS[name]), law)
    print(f"{name}: p = {found:.3g}")
    assert found < 1e-12


@torch.inference_mode()
@pytest.mark.parametrize("draft_tokens", range(1, 9))
@pytest.mark.parametrize("name", ["draft model", "early exit", "n-gram", "head"])
def test_greedy_output_equals_plain_decoding_for_ragged_batches(name: str, draft_tokens: int) -> None:
    target = _decoder(replace(TARGET, vocab=50), 21)
    draft_shape = replace(DRAFT, vocab=50)
    prompts = [[1, 2], [3, 4, 5, 6], [7, 8, 7, 8, 7, 8, 7], [9, 1, 9], [2, 2, 2, 2, 2]]
    plain = Sequences.from_prompts(prompts, capacity_tokens=CAPACITY, device="cpu")
    generate_plain(_engine(target, len(prompts), 0.0, seed=1), plain, new_tokens=24)
    if name == "draft model":
        proposer: Proposer = ModelProposer(_decoder(draft_shape, 11), _cache(draft_shape, len(prompts)), 0.0)
    elif name == "head":
        head = _decoder(replace(HEAD, vocab=50), 7)
        head.share_vocabulary(target)
        proposer = HeadProposer(head, _cache(HEAD, len(prompts)), 0.0)
    else:
        proposer = _proposer(name, target, len(prompts), 0.0)
    speculative = Sequences.from_prompts(prompts, capacity_tokens=CAPACITY, device="cpu")
    engine = _engine(target, len(prompts), 0.0, seed=2)
    generate_speculative(engine, speculative, proposer=proposer, draft_tokens=draft_tokens, new_tokens=24)
    for row, prompt in enumerate(prompts):
        wanted = plain.tokens[row, : len(prompt) + 24].tolist()
        assert speculative.tokens[row, : len(prompt) + 24].tolist() == wanted


@torch.inference_mode()
def test_a_perfect_draft_is_always_accepted() -> None:
    target = _decoder(TARGET, 3)
    prompts = [[1, 2], [3, 4, 5]]
    state = Sequences.from_prompts(prompts, capacity_tokens=CAPACITY, device="cpu")
    proposer = ModelProposer(target, _cache(TARGET, 2), 0.0)
    for row in range(len(prompts)):
        assert state.lengths[row] == len(prompts[row])
    engine = _engine(target, 2, 0.0, seed=2)
    proposer_fill = _engine(target, 2, 0.0, seed=2)
    proposer_fill.cache = proposer.cache
    proposer_fill.prefill(state)
    rounds = generate_speculative(engine, state, proposer=proposer, draft_tokens=3, new_tokens=12)
    assert rounds == 3
