"""The engine's parts against plain formulas, and every kind of job on real tensors."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from calibrate.engine.attention import attend, causal_mask  # noqa: E402 # needs torch
from calibrate.engine.bench import Bench  # noqa: E402
from calibrate.engine.device import require  # noqa: E402
from calibrate.engine.linear import multiply_for  # noqa: E402
from calibrate.engine.model import Decoder, KvCache  # noqa: E402
from calibrate.engine.proposers import NgramProposer  # noqa: E402
from calibrate.engine.sampler import NOT_DRAFTED, Drafts, draw, verify  # noqa: E402
from calibrate.engine.sequences import Sequences  # noqa: E402
from calibrate.engine.steering import Steering  # noqa: E402
from calibrate.environment import ALLOCATOR_SETTINGS, THREAD_SETTINGS, missing_settings, record  # noqa: E402
from calibrate.jobs import LOOP_ROUNDS, Job, eager_jobs  # noqa: E402
from calibrate.presets import PRESETS  # noqa: E402
from calibrate.run import RunPlan  # noqa: E402
from calibrate.shapes import DecoderShape  # noqa: E402
from roofline.errors import InvalidInput  # noqa: E402

SHAPE = DecoderShape("plain", 32, 2, 4, 2, 8, 48, 40)


def seeded(seed: int) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


@torch.inference_mode()
def test_folded_attention_equals_the_textbook_formula():
    batch, rows, heads, kv_heads, width, span = 3, 4, 6, 2, 8, 11
    query = torch.randn(batch, rows, heads, width, generator=seeded(1))
    keys = torch.randn(batch, kv_heads, span, width, generator=seeded(2))
    values = torch.randn(batch, kv_heads, span, width, generator=seeded(3))
    positions = torch.tensor([[3, 4, 5, 6], [0, 1, 2, 3], [7, 8, 9, 10]])
    mask = causal_mask(positions, span=span, group=heads // kv_heads, dtype=torch.float32)
    found = attend(query, keys, values=values, mask=mask).view(batch, rows, heads, width)
    for sequence in range(batch):
        for row in range(rows):
            seen = int(positions[sequence, row]) + 1
            for head in range(heads):
                k = keys[sequence, head * kv_heads // heads, :seen]
                v = values[sequence, head * kv_heads // heads, :seen]
                weights = torch.softmax(k @ query[sequence, row, head] / width**0.5, dim=0)
                torch.testing.assert_close(found[sequence, row, head], weights @ v, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-5), ("bf16", 0.02), ("int8", 0.05)])
def test_prepared_weights_multiply_like_plain_ones(dtype: str, tolerance: float):
    weight = torch.randn(96, 64, generator=seeded(1))
    x = torch.randn(7, 64, generator=seeded(2))
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    found = multiply_for(weight.to(kind), dtype)(x.to(kind)).float()
    wanted = x @ weight.T
    assert float((found - wanted).norm() / wanted.norm()) < tolerance


@torch.inference_mode()
def test_a_pass_in_pieces_equals_a_pass_at_once():
    model = Decoder(SHAPE, "fp32", device="cpu", seed=5)
    model.reserve(32)
    tokens = torch.randint(0, SHAPE.vocab, (2, 12), generator=seeded(4))
    places = torch.arange(12).repeat(2, 1)
    whole = model.forward(tokens, places, cache=_cache(), span=12)
    cache = _cache()
    parts = [model.forward(tokens[:, a:b], places[:, a:b], cache=cache, span=b) for a, b in ((0, 5), (5, 6), (6, 12))]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)


def _cache() -> KvCache:
    return KvCache.empty(SHAPE, "fp32", batch=2, capacity_tokens=32, device="cpu")


def test_steering_accepts_at_the_rates_it_is_told():
    steering = Steering([0.8, 0.5, 0.1], device="cpu")
    accept = steering.decide(torch.zeros(200_000, 3, dtype=torch.bool), seeded(3))
    reached = accept.long().cumprod(dim=1).float().mean(dim=0)
    torch.testing.assert_close(reached, torch.tensor([0.8, 0.5, 0.1]), atol=0.005, rtol=0.0)


@pytest.mark.parametrize("rates", [[0.5, 0.6], [1.2], [-0.1]])
def test_rates_that_grow_or_leave_zero_to_one_are_refused(rates: list[float]):
    with pytest.raises(InvalidInput, match="acceptance rates must be in"):
        Steering(rates, device="cpu")


def test_drawing_follows_the_weights():
    weights = torch.tensor([[1.0, 0.0, 3.0]]).repeat(100_000, 1)
    counts = torch.bincount(draw(weights, seeded(1)), minlength=3) / 100_000
    torch.testing.assert_close(counts, torch.tensor([0.25, 0.0, 0.75]), atol=0.01, rtol=0.0)


def test_the_ngram_proposer_copies_what_followed_and_else_drafts_nothing():
    sequences = Sequences.from_prompts([[1, 2, 9, 8, 1, 2], [1, 2, 3, 4, 5, 6]], capacity_tokens=16, device="cpu")
    drafts = NgramProposer(2).propose(sequences, 3, span=9, generator=seeded(0), last=None)
    assert drafts.tokens[0].tolist() == [9, 8, 1]
    assert drafts.tokens[1].tolist() == [NOT_DRAFTED] * 3


def test_places_without_a_draft_are_never_accepted():
    logits = torch.zeros(2, 3, 5)
    drafts = Drafts(torch.tensor([[0, NOT_DRAFTED], [NOT_DRAFTED, NOT_DRAFTED]]), None)
    for seed in range(20):
        verified = verify(logits, drafts, temperature=1.0, generator=seeded(seed))
        assert int(verified.accepted[0]) <= 1
        assert int(verified.accepted[1]) == 0


def test_a_missing_card_is_refused_in_one_sentence():
    if torch.cuda.is_available():
        pytest.skip("there is a card")
    with pytest.raises(InvalidInput, match="torch sees no CUDA device"):
        require("cuda")


def test_settings_that_must_be_there_before_the_start_are_found():
    wanted = ALLOCATOR_SETTINGS | THREAD_SETTINGS
    assert missing_settings({}) == wanted
    assert missing_settings(wanted) == {}
    assert missing_settings({**wanted, "OMP_NUM_THREADS": "2"}) == {"OMP_NUM_THREADS": "1"}


def test_the_environment_names_versions_and_not_the_host():
    import platform

    found = record()
    assert "torch" in found["versions"]  # type: ignore[operator]
    assert platform.node() not in str(found) or not platform.node()


def test_every_job_of_a_run_times_real_tensors(tmp_path: Path):
    preset = PRESETS["tiny"]
    bench = Bench(preset, "fp32", device="cpu", context_tokens=64, seed=0)
    jobs = [*RunPlan(preset, "fp32", "cpu", 64, 1.0, loops=True).jobs(), *eager_jobs(64)]
    jobs += RunPlan(preset, "fp32", "cpu", 64, 1.0).jobs()[-9:]
    assert len({job.kind for job in jobs}) == 11
    for job in jobs:
        bench.warm_up(job)
        sample, probe_s, emitted = bench.measure(job)
        assert sample.busy_s > 0
        assert probe_s > 0
        if job.kind == "loop":
            assert LOOP_ROUNDS * job.batch <= emitted <= LOOP_ROUNDS * job.rows
        else:
            assert emitted == 0


def test_a_job_of_the_cut_target_runs_fewer_layers():
    bench = Bench(PRESETS["tiny"], "fp32", device="cpu", context_tokens=64, seed=0)
    bench.measure(Job("forward", "target:1", 1, 1, 64))
    assert len(bench._models["target:1"].layers) == 1
    assert len(bench._models["target"].layers) == 2
