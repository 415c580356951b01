"""What the lab counts, against a slow loop with the same random numbers and against plain arithmetic."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.lab.cells import ProposerAsked, measure_cell, proposer_factory  # noqa: E402 # needs torch
from calibrate.lab.language_model import LanguageModel  # noqa: E402
from calibrate.lab.loading import load_folder  # noqa: E402
from calibrate.lab.measure import measure  # noqa: E402
from calibrate.lab.plans import LoopPlan  # noqa: E402
from calibrate.lab.rounds import RoundLog, by_size, loops, mean_of_rounds, ratio_over_answers, spearman  # noqa: E402
from tests.calibrate.lab.folders import GEMMA, LLAMA, write_folder  # noqa: E402

PROMPTS = [[(7 * row + 3 * place) % 256 for place in range(9)] for row in range(3)]
KEPT = (0, 2)


def law(model: LanguageModel, tokens: list[int], temperature: float) -> np.ndarray:
    """The law of the next token, from a pass over everything."""
    ids, places = torch.tensor([tokens]), torch.arange(len(tokens))[None]
    cache = model.empty_cache(batch=1, capacity_tokens=len(tokens))
    hidden = model.forward(ids, places, cache=cache, span=len(tokens))
    return torch.softmax(model.logits(hidden[:, -1])[0].double() / temperature, dim=-1).numpy()


def drawn(weights: np.ndarray, uniform: float) -> int:
    return int(np.sum(np.cumsum(weights) <= uniform * weights.sum()))


def slow_rounds(target: LanguageModel, draft: LanguageModel, plan: LoopPlan) -> list[list[tuple[int, float]]]:
    """(accepted, entropy) of each round of each answer; uniforms in the order in which the loop draws them."""
    generator = torch.Generator().manual_seed(plan.seed)
    texts, ended = [list(prompt) for prompt in PROMPTS], [False] * len(PROMPTS)
    found: list[list[tuple[int, float]]] = [[] for _ in PROMPTS]
    while not all(ended):
        rows, most = len(texts), plan.draft_tokens
        for_drafts = [torch.rand(rows, 1, generator=generator) for _ in range(most)]
        for_accept = torch.rand(rows, most, generator=generator)
        for_last = torch.rand(rows, 1, generator=generator)
        for row, text in enumerate(texts):
            accepted, last, entropy = 0, None, None
            drafts: list[int] = []
            q_laws: list[np.ndarray] = []
            for index in range(most):
                q_laws.append(law(draft, text + drafts, plan.temperature))
                drafts.append(drawn(q_laws[-1], float(for_drafts[index][row, 0])))
            for index, token in enumerate(drafts):
                p, q = law(target, text + drafts[:index], plan.temperature), q_laws[index]
                entropy = float(-(p * np.log(p)).sum()) if entropy is None else entropy
                if float(for_accept[row, index]) * q[token] >= p[token]:
                    last = drawn(np.maximum(p - q, 0.0), float(for_last[row, 0]))
                    break
                accepted += 1
            if last is None:
                last = drawn(law(target, text + drafts, plan.temperature), float(for_last[row, 0]))
            if not ended[row]:
                found[row].append((accepted, entropy))
            text += [*drafts[:accepted], last]
            ended[row] = ended[row] or len(text) >= len(PROMPTS[row]) + plan.answer_tokens
    return found


@torch.inference_mode()
def test_counted_acceptance_equals_a_slow_reference_with_the_same_random_numbers(tmp_path: Path):
    target = load_folder(write_folder(tmp_path, GEMMA), dtype="fp32").model
    plan = LoopPlan(draft_tokens=3, answer_tokens=14, temperature=1.3, seed=11)
    factory = proposer_factory(target, ProposerAsked("layer-skip", kept_layers=KEPT), temperature=1.3)
    log = measure(target, factory, prompts=torch.tensor(PROMPTS), plan=plan, end_id=None).rounds
    slow = slow_rounds(target, target.with_layers(KEPT), plan)
    for row, rounds in enumerate(slow):
        mine = log.sequence == row
        assert log.accepted[mine].tolist() == [accepted for accepted, _ in rounds]
        np.testing.assert_allclose(log.entropy_nats[mine], [entropy for _, entropy in rounds], rtol=1e-4)
    assert 0 < log.accepted.sum() < log.drafted.sum()


def test_a_target_that_drafts_for_itself_is_always_right(tmp_path: Path):
    loaded = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32")
    cell = measure_cell(loaded, ProposerAsked("draft", draft=loaded.model), prompts=PROMPTS, plan=LoopPlan(3, 12, 0.9))
    assert cell.first.mean == 1.0
    assert cell.length.mean == 4.0
    assert cell.overlap is not None
    assert cell.overlap.mean == pytest.approx(1.0, abs=1e-5)


def test_counted_first_acceptance_is_the_overlap_of_the_laws(tmp_path: Path):
    loaded = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32")
    prompts = np.random.default_rng(0).integers(0, 256, (48, 8)).tolist()
    asked = ProposerAsked("layer-skip", kept_layers=KEPT)
    cell = measure_cell(loaded, asked, prompts=prompts, plan=LoopPlan(2, 24, 1.5))
    assert cell.overlap is not None
    assert cell.first.low <= cell.overlap.mean <= cell.first.high


@pytest.mark.parametrize("kind", ["ngram", "suffix"])
def test_matchers_account_for_every_token_of_plain_answers(tmp_path: Path, kind):
    loaded = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32")
    greedy = LoopPlan(4, 64, 0.0)
    prompts = [[row + 1] * 12 for row in range(4)]
    cell = measure_cell(loaded, ProposerAsked(kind), prompts=prompts, plan=greedy)
    assert cell.overlap is None
    # The first token of an answer comes out of the prefill.
    assert cell.counts.emitted_tokens == 4 * 63
    assert 0 < cell.counts.accepted_tokens <= cell.counts.drafted_tokens


def log_of(sequence, accepted) -> RoundLog:
    n = len(sequence)
    sizes = np.arange(1, n + 1)
    return RoundLog(np.array(sequence), sizes, sizes, np.full(n, 4), np.array(accepted), np.ones(n), np.full(n, np.nan))


def test_intervals_come_from_answers_not_from_rounds():
    totals, weights = np.array([3.0, 5.0, 4.0]), np.array([10.0, 10.0, 10.0])
    found = ratio_over_answers(totals, weights)
    assert found.mean == pytest.approx(0.4)
    assert found.high - found.mean == pytest.approx(4.302653 * 0.1 / np.sqrt(3), rel=1e-5)
    assert np.isnan(ratio_over_answers(np.zeros(2), np.zeros(2)).mean)


def test_rounds_without_a_value_are_left_out_of_a_mean():
    log = log_of([0, 0, 1, 1], [0, 1, 2, 3])
    assert mean_of_rounds(log, np.array([1.0, np.nan, 2.0, np.nan])).mean == pytest.approx(1.5)


def test_groups_by_size_hold_every_round_once():
    log = log_of([0] * 9, [0, 1, 2, 3, 4, 0, 1, 2, 3])
    groups = by_size(log, log.depth_tokens, 4)
    assert [(sizes, counts.rounds) for sizes, counts in groups.items()] == [
        ((0, 1), 1),
        ((2, 3), 2),
        ((4, 7), 4),
        ((8, 15), 2),
    ]


@pytest.mark.parametrize(
    ("tokens", "looping"),
    [
        ([5, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3], True),
        ([9, 9, 9, 9], True),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3, 4], False),
        ([1, 2, 1, 2, 1, 2], False),
    ],
)
def test_an_answer_loops_where_its_end_repeats_four_times(tokens, looping):
    assert loops(np.array(tokens)) is looping


def test_rank_correlation_needs_three_points():
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([9.0, 4.0, 1.0])) == pytest.approx(-1.0)
    assert np.isnan(spearman(np.array([1.0, 2.0]), np.array([2.0, 1.0])))
