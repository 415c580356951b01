"""The examples of the pages run: every `specdec` line of a console block, every Python block, in order."""

import re
import shlex
import shutil

import pytest

from scenarios.cli.main import run
from tests.source_tree import ROOT

FENCE = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)
PAGES = ("sweep", "compare", "import")
MEASURED = ROOT / "tests" / "data" / "measured"


def commands(block: str) -> list[list[str]]:
    """The lines of a block that call us, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", block)
    return [shlex.split(line)[1:] for line in joined.splitlines() if line.startswith("specdec ")]


def test_every_page_has_examples():
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        assert any(commands(block) for kind, block in FENCE.findall(text) if kind == "console"), page


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    for file in [*MEASURED.rglob("*.*")]:
        shutil.copy(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    for kind, block in FENCE.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")):
        if kind == "python":
            exec(compile(block, f"{page}.md", "exec"), {"__name__": "example"})
        for line in commands(block) if kind == "console" else ():
            assert run(line) in (0, 4), f"specdec {shlex.join(line)}\n{capsys.readouterr().err}"
