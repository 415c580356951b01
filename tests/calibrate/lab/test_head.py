"""The distilled head: it learns, it drafts as it was trained, and its file belongs to one target."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.lab.cells import ProposerAsked, measure_cell  # noqa: E402 # needs torch
from calibrate.lab.head import Head  # noqa: E402
from calibrate.lab.loading import Loaded, load_folder  # noqa: E402
from calibrate.lab.measure import head_proposer  # noqa: E402
from calibrate.lab.plans import LoopPlan, TrainingPlan  # noqa: E402
from calibrate.lab.train_head import frequent_ids, load_head, save_head, target_states, train_from_ids  # noqa: E402
from roofline.errors import InvalidInput  # noqa: E402
from tests.calibrate.lab.folders import GEMMA, LLAMA, QWEN2, write_folder  # noqa: E402

PLAN = TrainingPlan(
    window_tokens=24, batch_windows=4, epochs=6, draft_vocab=256, learning_rate=1e-2, first_layers_fraction=0.4
)
SHORT = TrainingPlan(window_tokens=24, batch_windows=32, epochs=1, draft_vocab=256, first_layers_fraction=0.4)
FAMILIES = {"llama": LLAMA, "gemma": GEMMA, "qwen2": QWEN2}


def told(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total


def windows(count: int, *, seed: int) -> list[list[int]]:
    """Noise is text enough: what is learned is the target's law, not what comes next."""
    return torch.randint(0, 256, (count, 24), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load_folder(write_folder(tmp_path_factory.mktemp("model"), LLAMA), dtype="fp32")


def overlap(loaded: Loaded, head: Head) -> float:
    """Chance of the first draft to be accepted."""
    cell = measure_cell(loaded, ProposerAsked("head", head=head), prompts=windows(48, seed=5), plan=LoopPlan(2, 8, 1.0))
    assert cell.overlap is not None
    return cell.overlap.mean


@pytest.mark.parametrize("family", FAMILIES)
def test_an_untrained_head_is_the_target_without_its_middle(family: str, tmp_path: Path):
    target = load_folder(write_folder(tmp_path, FAMILIES[family]), dtype="fp32").model
    head = Head(target, first_layers=1, ids=torch.arange(0, 256, 2))
    skipping = target.with_layers([0, 2])
    tokens, places = torch.tensor(windows(3, seed=4)), torch.arange(24).repeat(3, 1)
    features = torch.randn(3, 24, 48)
    with torch.inference_mode():
        own = head(tokens, places, cache=head.empty_cache(batch=3, capacity_tokens=24), span=24, features=features)
        cache = skipping.empty_cache(batch=3, capacity_tokens=24)
        expected = skipping.logits(skipping.forward(tokens, places, cache=cache, span=24))
        torch.testing.assert_close(head.logits(own), expected[..., ::2])


@pytest.mark.parametrize("family", FAMILIES)
def test_unrolled_passes_in_training_are_the_drafts_at_work(family: str, tmp_path: Path):
    target = load_folder(write_folder(tmp_path, FAMILIES[family]), dtype="fp32").model
    head = Head(target, first_layers=1, ids=torch.arange(256))
    torch.nn.init.normal_(head.fuse.weight, std=0.1)
    tokens, places = torch.tensor(windows(3, seed=4)), torch.arange(1, 24).repeat(3, 1)
    text = target_states(target, tokens, first_layers=1, batch_windows=2, told=told)
    with torch.inference_mode():
        features, caches, passes = text.hidden[:, :-1], [], []
        for index in range(3):
            x, at = text.first[:, index + 1 :], places[:, index:]
            out, cache = head.unrolled_pass(x, at, features=features, span=24, before=caches, dtype=torch.float32)
            passes.append(out)
            caches.append(cache)
            features = out[:, :-1]
        # At work: prompts in two parts, as after a first round, then the text's own tokens as drafts.
        cache = head_proposer(head, tokens, (3, 24), temperature=1.0).cache
        for part in (slice(0, 14), slice(14, 21)):
            out = head(
                tokens[:, 1:][:, part], places[:, part], cache=cache, span=24, features=text.hidden[:, :-1][:, part]
            )
        torch.testing.assert_close(out, passes[0][:, 14:21])
        for index in (1, 2):
            place = 21 + index
            out = head(tokens[:, place, None], places[:, place - 1, None], cache=cache, span=24, features=out[:, -1:])
            torch.testing.assert_close(out[:, 0], passes[index][:, place - 1 - index])


def test_drafts_are_drawn_among_the_ids_a_head_can_propose(loaded: Loaded):
    head = Head(loaded.model, first_layers=1, ids=torch.arange(0, 256, 2))
    hidden = torch.randn(8000, 48, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        drafts, law = head.draw(hidden, 0.7, torch.Generator().manual_seed(0))
        expected = torch.softmax(head.logits(hidden) / 0.7, dim=-1)
    assert law is not None
    assert (drafts % 2 == 0).all()
    torch.testing.assert_close(law[:, ::2], expected)
    assert not law[:, 1::2].any()
    # The mean of -log p over draws of p is its entropy.
    surprise = -law.gather(1, drafts[:, None]).log().mean()
    assert surprise == pytest.approx(float(torch.special.entr(expected).sum(dim=1).mean()), rel=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_training_brings_a_head_closer_to_its_target(family: str, tmp_path: Path):
    loaded = load_folder(write_folder(tmp_path, FAMILIES[family]), dtype="fp32")
    text = windows(120, seed=1)
    short = train_from_ids(loaded.model, text, SHORT, counted=range(256), told=told)
    long = train_from_ids(loaded.model, text, PLAN, counted=range(256), told=told)
    assert overlap(loaded, long) > overlap(loaded, short) + 0.02


def test_a_saved_head_is_the_same_head_and_fits_its_target_alone(loaded: Loaded, tmp_path: Path):
    head = train_from_ids(loaded.model, windows(16, seed=2), SHORT, counted=range(256), told=told)
    path = tmp_path / "head.safetensors"
    save_head(head, path)
    again = load_head(path, loaded.model)
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in head.state_dict().items())
    other = load_folder(write_folder(tmp_path / "other", LLAMA | {"intermediate_size": 80}), dtype="fp32")
    with pytest.raises(InvalidInput, match="another shape"):
        load_head(path, other.model)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InvalidInput, match="cannot be read as a trained head"):
        load_head(path, loaded.model)


def test_the_head_proposes_the_most_frequent_ids_only():
    assert frequent_ids(torch.tensor([[5, 5, 9], [2, 9, 5]]), 2).tolist() == [5, 9]
