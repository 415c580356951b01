"""Heads shaped as such heads usually are, beside the published ones they stand in for."""

import pytest

from roofline.counts import parameters
from roofline.errors import InvalidInput
from roofline.hf_config import load_model
from roofline.hf_typical import typical_head


@pytest.mark.parametrize(
    ("target", "method", "published"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "SafeAILab/EAGLE3-LLaMA3.1-8B"),
        ("Qwen/Qwen3-8B", "eagle3", "SpecForge/EAGLE3-qwen3-8b"),
        ("Qwen/Qwen3-30B-A3B", "eagle3", "SpecForge/EAGLE3-qwen3-30B-A3B"),
        ("Qwen/Qwen3-8B", "dflash", "SpecForge/DFlash-qwen3-8b"),
        ("meta-llama/Llama-2-7b-hf", "eagle", "yuhuili/EAGLE-llama2-chat-7B"),
    ],
)
def test_a_typical_head_weighs_about_what_the_published_one_does(target, method, published):
    model = load_model(target)
    own = load_model(published, role="head", method=method, target=model)
    assert parameters(typical_head(model, method)) == pytest.approx(parameters(own), rel=0.15)


def test_a_typical_head_says_that_it_is_assumed():
    head = typical_head(load_model("Qwen/Qwen3-8B"), "eagle3")
    assert any("assumed" in note for note in head.notes)


def test_methods_without_a_head_of_their_own_are_refused():
    with pytest.raises(InvalidInput, match="'mtp'"):
        typical_head(load_model("Qwen/Qwen3-8B"), "mtp")
