"""The project's own source as syntax trees, for the tests of its shape."""

import ast
import functools
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("roofline", "simulator", "calibrate", "scenarios")
UNTRACKED_FOLDERS = {".git", ".venv", "out", "build", "dist", ".pytest_cache", ".ruff_cache", ".hypothesis"}

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """One Python file: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.path.split("/")[0]

    @property
    def module(self) -> str:
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def package_files() -> tuple[SourceFile, ...]:
    """Every Python file of the four packages."""
    return tuple(_read(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@functools.cache
def files_of_tests() -> tuple[SourceFile, ...]:
    """Every Python file under tests."""
    return tuple(_read(path) for path in sorted((ROOT / "tests").rglob("*.py")))


def _read(path: Path) -> SourceFile:
    text = path.read_text(encoding="utf-8")
    return SourceFile(path.relative_to(ROOT).as_posix(), text, ast.parse(text, filename=str(path)))


def tracked_files() -> list[Path]:
    """What git tracks, or, in a copy without git, everything that is not built or installed."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [
        path
        for path in sorted(ROOT.rglob("*"))
        if path.is_file() and not UNTRACKED_FOLDERS & set(path.relative_to(ROOT).parts)
    ]


def imported_modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module name, line) of every import in the tree, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def imports_when_loaded(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """(module name, line) of the imports that run when the module is imported."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported_modules(ast.Module(body=[node], type_ignores=[]))
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))


def functions(tree: ast.Module) -> Iterator[tuple[str, AnyFunction]]:
    """(qualified name, node) of every function and method."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, AnyFunction]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, AnyFunction):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(tree, "")


def decorated_with(node: AnyFunction, *words: str) -> bool:
    """Whether a decorator's text contains one of the words."""
    return any(word in ast.unparse(decorator) for decorator in node.decorator_list for word in words)


def assert_none(found: list[str]) -> None:
    """Fail with one finding a line."""
    assert not found, "\n".join(["", *found])
