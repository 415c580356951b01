"""Published numbers are those of the rows they name, and medians are those of the file that ships."""

import csv
import tomllib
from pathlib import Path
from statistics import median

import pytest

import scenarios.chapter
from roofline.errors import UnknownName
from scenarios.chapter.published import FILE, published

DATA = Path(scenarios.chapter.__file__).parents[1] / "data" / "validation"
ENTRIES = tomllib.loads(FILE.read_text(encoding="utf-8"))
TASKS = {
    "code": ("humaneval", "code", "mbpp", "swe"),
    "math": ("gsm8k", "math"),
    "chat": ("mt-bench", "mtbench", "sharegpt", "alpaca", "chat"),
}
CHAINS = ("draft", "eagle", "eagle3", "mtp", "mtp/eagle")


def rows(name="speedups.csv"):
    with (DATA / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def task_of(dataset):
    return next((task for task, words in TASKS.items() if any(word in dataset.lower() for word in words)), None)


@pytest.mark.parametrize(
    "name", [name for name, entry in ENTRIES.items() if entry["row"].startswith("R") and entry["row"] != "R"]
)
def test_a_number_copied_from_a_row_is_in_that_row(name):
    entry = ENTRIES[name]
    found = [row for row in rows() if row["id"] in entry["row"].replace(",", "").split()]
    assert found
    numbers = [number(row[column]) for row in found for column in ("speedup", "mean_accept_len_tau")]
    numbers += [number(row["k"]) for row in found]
    known = [value for value in numbers if value is not None]
    ratios = [a / b for a in known for b in known if b]
    assert any(value == pytest.approx(entry["value"], abs=6e-4) for value in known + ratios)


@pytest.mark.parametrize(("task", "count"), [("code", 27), ("math", 23), ("chat", 40)])
def test_speedups_by_task_are_medians_of_serving_engines_at_small_batches(task, count):
    values = [
        number(row["speedup"])
        for row in rows()
        if any(engine in row["engine"] for engine in ("vLLM", "SGLang", "TensorRT"))
        and row["method"] in CHAINS
        and row["simulable"] != "no"
        and task_of(row["dataset"]) == task
        and number(row["speedup"]) is not None
        and (number(row["load_value"]) or 9) <= 2
    ]
    assert len(values) == count
    assert published(f"speedup_{task}").value == pytest.approx(median(values), abs=0.01)


@pytest.mark.parametrize(
    ("name", "method"),
    [("draft_model", "draft"), ("eagle2", "eagle2"), ("eagle3", "eagle3"), ("ngram", "ngram"), ("medusa", "medusa"),
     ("dflash", "dflash")],
)  # fmt: skip
def test_what_a_round_costs_is_the_median_of_rows_with_both_numbers(name, method):
    values = [
        number(row["speedup"]) / number(row["mean_accept_len_tau"])
        for row in rows()
        if row["method"] == method
        and number(row["load_value"]) == 1
        and number(row["speedup"])
        and number(row["mean_accept_len_tau"])
    ]
    quantity = published(f"round_{name}")
    assert quantity.value == pytest.approx(median(values), abs=6e-4)
    assert f"{len(values)} rows" in quantity.name


def test_as_many_sweeps_never_cross_as_the_file_says():
    never = [row for row in rows("load_sweeps.csv") if row["crossover_below_1"].startswith("none")]
    assert published("sweeps_that_never_cross").value == len(never)


def test_every_published_number_says_what_and_where():
    for name in ENTRIES:
        quantity = published(name)
        assert quantity.label == "measured"
        assert quantity.name
        assert len(quantity.source) > 10


def test_an_unknown_measurement_is_named():
    with pytest.raises(UnknownName, match="does not exist"):
        published("speedup_of_nothing")
