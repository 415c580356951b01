"""What a reader meets first is true: docstrings are there, and the examples in them and in the README run."""

import ast
import doctest
import importlib
import re
import subprocess
import sys

import pytest

from tests.source_tree import ROOT, SourceFile, assert_none, package_files

README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(language: str) -> list[str]:
    return [code for name, code in FENCE.findall(README.read_text(encoding="utf-8")) if name == language]


def _undocumented(body: list[ast.stmt], prefix: str):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if ast.get_docstring(node) is None:
                yield prefix + node.name, node.lineno
            if isinstance(node, ast.ClassDef):
                yield from _undocumented(node.body, f"{prefix}{node.name}.")


def _documented_module(file: SourceFile) -> bool:
    return ast.get_docstring(file.tree) is not None


def test_public_names_have_docstrings():
    found = [f"{file.path}:1 module" for file in package_files() if file.text.strip() and not _documented_module(file)]
    found += [
        f"{file.path}:{line} {name}" for file in package_files() for name, line in _undocumented(file.tree.body, "")
    ]
    assert_none(found)


@pytest.mark.parametrize("package", ["roofline", "simulator", "calibrate", "scenarios"])
def test_every_declared_name_exists(package):
    module = importlib.import_module(package)
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []


def test_docstring_examples_run():
    failed = []
    for file in package_files():
        if ">>> " in file.text and not file.path.startswith("calibrate/engine/"):
            results = doctest.testmod(importlib.import_module(file.module))
            assert results.attempted > 0, f"{file.path} has >>> but no example ran"
            if results.failed:
                failed.append(file.path)
    assert_none(failed)


def test_the_readme_has_python_to_run():
    assert _blocks("python")


def test_readme_python_runs_from_top_to_bottom(tmp_path):
    program = "\n".join(_blocks("python"))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "MPLBACKEND": "agg", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_readme_commands_exist():
    """Every `specdec NAME` in a shell block of the README is a command, and every `make NAME` a target."""
    shell = "\n".join(_blocks("console") + _blocks("sh") + _blocks("bash"))
    helped = subprocess.run(
        [sys.executable, "-m", "scenarios", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert helped.returncode == 0, helped.stderr
    commands = set(re.findall(r"^\s+(\w+)\s{2,}", helped.stdout, re.MULTILINE))
    used = set(re.findall(r"(?:^|\$ )specdec ([a-z]\w*)", shell, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = set(re.findall(r"(?:^|\$ )make ([a-z-]+)", shell, re.MULTILINE))
    assert used | made, "the README shows no command"
    assert used - commands == set()
    assert made - targets == set()
