"""The distilled head: it learns, it drafts as it was trained, and its file belongs to one target."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.lab.cells import ProposerAsked, measure_cell  # noqa: E402 # needs torch
from calibrate.lab.loading import Loaded, load_folder  # noqa: E402
from calibrate.lab.measure import LoopPlan  # noqa: E402
from calibrate.lab.train_head import TrainingPlan, frequent_ids, load_head, save_head, train_from_ids  # noqa: E402
from roofline.errors import InvalidInput  # noqa: E402
from tests.calibrate.lab.folders import LLAMA, write_folder  # noqa: E402

PLAN = TrainingPlan(window_tokens=24, batch_windows=4, epochs=12, draft_vocab=256, learning_rate=4e-3)
SHORT = TrainingPlan(window_tokens=24, batch_windows=32, epochs=1, draft_vocab=256)


def told(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total


def windows(count: int, *, seed: int) -> list[list[int]]:
    """Noise is text enough: what is learned is the target's law, not what comes next."""
    return torch.randint(0, 256, (count, 24), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load_folder(write_folder(tmp_path_factory.mktemp("model"), LLAMA), dtype="fp32")


def first_acceptance(loaded: Loaded, head) -> float:
    cell = measure_cell(loaded, ProposerAsked("head", head=head), prompts=windows(24, seed=5), plan=LoopPlan(2, 8, 1.0))
    return cell.first.mean


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_training_makes_a_head_that_is_accepted_more_often(loaded: Loaded):
    short = train_from_ids(loaded.model, windows(64, seed=1), SHORT, counted=range(256), told=told)
    long = train_from_ids(loaded.model, windows(64, seed=1), PLAN, counted=range(256), told=told)
    assert first_acceptance(loaded, long) > first_acceptance(loaded, short) + 0.1


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
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
