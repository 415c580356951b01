import pytest

from tests.scenarios.check.checks import ask, written_to
from tests.scenarios.check.recipes import RECIPES


def complaints(report):
    return [f"{finding.level} {finding.rule}: {finding.text} ({finding.number})" for finding in report.findings
            if finding.level != "pass"]  # fmt: skip


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_published_recipes_are_met_with_silence(recipe, tmp_path):
    given = {"file": written_to(tmp_path, recipe.yaml)} if recipe.yaml else {"serve": recipe.serve}
    report = ask(**given, gpu=recipe.gpu, model=recipe.model, draft=recipe.draft)
    assert complaints(report) == []
    assert report.speculates


def test_there_are_twenty_of_them_from_four_engines():
    engines = {recipe.name.split(":")[0] for recipe in RECIPES}
    assert engines == {"vLLM", "SGLang", "TensorRT-LLM", "llama.cpp"}
    assert len(RECIPES) >= 20
    assert all(recipe.url.startswith("https://") for recipe in RECIPES)


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if recipe.gpu], ids=lambda recipe: recipe.name)
def test_recipes_stay_silent_under_a_small_load(recipe, tmp_path):
    given = {"file": written_to(tmp_path, recipe.yaml)} if recipe.yaml else {"serve": recipe.serve}
    report = ask(**given, gpu=recipe.gpu, model=recipe.model, draft=recipe.draft,
                 kind="closed", concurrency=1, input_tokens=1000, output_tokens=300)  # fmt: skip
    assert complaints(report) == []
