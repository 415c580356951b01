import importlib.util
import resource

import pytest

from scenarios.chapter.rows import ROWS
from tests.source_tree import ROOT

MAX_S = 90.0


@pytest.fixture(scope="module")
def generator():
    path = ROOT / "docs" / "notebooks" / "make_limits_notebook.py"
    spec = importlib.util.spec_from_file_location("make_limits_notebook", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_notebook_is_what_its_generator_writes(generator):
    assert generator.NOTEBOOK.read_text(encoding="utf-8") == generator.text()


def test_the_notebook_walks_through_every_row_of_the_chapter(generator):
    assert list(generator.WALK) == list(ROWS)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the kernel's own libraries
def test_the_notebook_runs_from_top_to_bottom(generator):
    from nbclient import NotebookClient

    notebook = generator.notebook()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime - before.ru_utime < MAX_S, "processor time of the kernel: the machine may be shared"
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in shown) >= 12
    texts = " ".join(str(output.get("data", {}).get("text/markdown", "")) for output in shown)
    for name in ROWS:
        assert f"## {name} " in texts
