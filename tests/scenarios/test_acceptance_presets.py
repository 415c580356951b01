"""The file of published acceptance by task, whatever reads it."""

import tomllib
from pathlib import Path

import pytest

PRESETS = tomllib.loads((Path(__file__).parents[2] / "scenarios/presets/acceptance.toml").read_text(encoding="utf-8"))
TASKS = ("code", "chat", "math", "json", "summarisation", "translation", "qa", "creative")
ROWS = [(task, family, row) for task, families in PRESETS.items() for family, row in families.items()]


def test_every_task_has_a_preset_for_chain_drafters():
    assert set(PRESETS) == set(TASKS)
    assert all("chain" in PRESETS[task] for task in TASKS)


@pytest.mark.parametrize(("task", "family", "row"), ROWS)
def test_a_preset_has_a_spread_a_count_and_sources(task: str, family: str, row: dict):
    assert family in ("chain", "parallel", "ngram"), task
    assert 0 < row["alpha_p10"] <= row["alpha_median"] <= row["alpha_p90"] < 1
    assert row["rows"] >= row["source_count"] >= 1
    assert row["rows"] >= 3 or row["notes"]
    assert row["label"] == "assumed"
    assert row["sources"]
    assert all(source["url"].startswith("https://") and source["title"] for source in row["sources"])


def test_published_medians_order_tasks_as_the_literature_does():
    """Per-token acceptance of chain drafters: code and mathematics above chat and summaries; n-grams far below."""
    chain = {task: PRESETS[task]["chain"]["alpha_median"] for task in TASKS}
    assert min(chain["code"], chain["math"]) > max(chain["chat"], chain["summarisation"], chain["qa"])
    assert PRESETS["chat"]["ngram"]["alpha_median"] < chain["chat"] - 0.2
