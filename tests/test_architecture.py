"""The rules of shape: who may import whom, how large things may be, what importing may do."""

import ast
import subprocess
import sys

import pytest

from tests.source_tree import (
    PACKAGES,
    ROOT,
    AnyFunction,
    SourceFile,
    assert_none,
    decorated_with,
    files_of_tests,
    functions,
    imported_modules,
    imports_when_loaded,
    package_files,
)

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_PARAMETERS = 6
MAX_POSITIONAL = 2
MAX_PUBLIC_NAMES = 15
# Loading these loads torch, so they are imported where they are used.
TORCH_WHEN_LOADED = ("calibrate/engine/", "calibrate/lab/", "scenarios/lab/")

# One long straight formula may stay one function. "path:function" -> why.
LONG_FUNCTIONS: dict[str, str] = {}
# More than six parameters. "path:function" -> why.
MANY_PARAMETERS: dict[str, str] = {
    "simulator/replica.py:simulate": "the one entry of the package; every argument is a separate question",
    "roofline/hf_config.py:model_from_config": "what a config cannot tell comes from outside, one by one",
    "roofline/kernel_bands.py:banded_s": "one formula over five arrays",
    "roofline/memory.py:memory_account": "one line of the account each",
}
# Positional beyond two. "path:function" -> why.
POSITIONAL_FORMULAS: dict[str, str] = {
    "roofline/counts.py:experts_touched": "E, k, T of the formula",
}


def _findings(rule, files) -> list[str]:
    return [finding for file in files for finding in rule(file)]


def _allowed_in(file: SourceFile, module: str) -> bool:
    """Whether the file may import a module that is reserved to some place."""
    path = file.path
    match module.split(".")[0]:
        case "torch":
            return path.startswith(("calibrate/engine/", "calibrate/lab/"))
        case "simpy" | "numba":
            return path.startswith("simulator/")
        case "matplotlib":
            return path.endswith("/plot.py") or path.startswith("scenarios/figures/")
        case _:
            return True


def test_packages_import_only_downwards():
    def rule(file: SourceFile):
        rank = PACKAGES.index(file.package)
        for module, line in imported_modules(file.tree):
            top = module.split(".")[0]
            if top in PACKAGES and PACKAGES.index(top) > rank:
                yield f"{file.path}:{line} imports {module}"
            if top == "tests":
                yield f"{file.path}:{line} imports the tests"

    assert_none(_findings(rule, package_files()))


def test_heavy_libraries_are_imported_only_where_they_belong():
    def rule(file: SourceFile):
        for module, line in imported_modules(file.tree):
            if not _allowed_in(file, module):
                yield f"{file.path}:{line} imports {module}"

    assert_none(_findings(rule, package_files()))


def test_the_torch_engine_is_imported_lazily():
    def rule(file: SourceFile):
        if file.path.startswith(TORCH_WHEN_LOADED):
            return
        for module, line in imports_when_loaded(file.tree):
            if module.startswith(("calibrate.lab.plans", "scenarios.lab.plan")):  # numbers that a command line shows
                continue
            if module.startswith(("calibrate.engine", "calibrate.lab", "scenarios.lab")) or module == "torch":
                yield f"{file.path}:{line} imports {module} when loaded; import it where it is used"

    assert_none(_findings(rule, package_files()))


def test_imports_are_absolute():
    def rule(file: SourceFile):
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield f"{file.path}:{node.lineno}"

    assert_none(_findings(rule, package_files() + files_of_tests()))


def test_no_module_is_named_like_one_of_the_standard_library():
    def rule(file: SourceFile):
        for name in file.module.split(".")[1:]:
            if name in sys.stdlib_module_names and not name.startswith("__"):
                yield f"{file.path}: {name}"

    assert_none(_findings(rule, package_files()))


def test_no_file_inside_a_package_is_run_as_a_script():
    def rule(file: SourceFile):
        if not file.path.endswith("__main__.py") and "__main__" in file.text:
            yield file.path

    assert_none(_findings(rule, package_files()))


def test_files_stay_below_400_lines():
    def rule(file: SourceFile):
        lines = file.text.count("\n")
        if lines > MAX_FILE_LINES:
            yield f"{file.path}: {lines} lines"

    assert_none(_findings(rule, package_files() + files_of_tests()))


def _is_compiled(node: AnyFunction) -> bool:
    return decorated_with(node, "njit", "compiled", "inlined")


def _span(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _lines_of_code(node: AnyFunction) -> int:
    """Lines from `def` to the end; the docstring is left out, functions inside count for themselves."""
    inside = sum(_span(child) for child in node.body if isinstance(child, AnyFunction))
    docstring = _span(node.body[0]) if ast.get_docstring(node) is not None else 0
    return _span(node) - docstring - inside


def test_functions_stay_below_40_lines():
    def rule(file: SourceFile):
        for name, node in functions(file.tree):
            lines = _lines_of_code(node)
            if lines > MAX_FUNCTION_LINES and not _is_compiled(node) and f"{file.path}:{name}" not in LONG_FUNCTIONS:
                yield f"{file.path}:{node.lineno} {name}: {lines} lines"

    assert_none(_findings(rule, package_files()))


def _parameters(node: AnyFunction) -> tuple[int, int]:
    """(all, positional) parameters, `self` and `cls` left out."""
    positional = [argument.arg for argument in node.args.posonlyargs + node.args.args]
    if positional and positional[0] in ("self", "cls"):
        positional = positional[1:]
    return len(positional) + len(node.args.kwonlyargs), len(positional)


def _takes_what_others_pass(node: AnyFunction) -> bool:
    """Kernels take arrays one by one, commands their options, dunders what the language passes."""
    is_dunder = node.name.startswith("__") and node.name.endswith("__") and node.name != "__init__"
    return is_dunder or _is_compiled(node) or decorated_with(node, "click.", ".command", "validator", "overload")


def test_functions_take_at_most_six_parameters():
    def rule(file: SourceFile):
        for name, node in functions(file.tree):
            count, _ = _parameters(node)
            key = f"{file.path}:{name}"
            if count > MAX_PARAMETERS and not _takes_what_others_pass(node) and key not in MANY_PARAMETERS:
                yield f"{file.path}:{node.lineno} {name}: {count} parameters"

    assert_none(_findings(rule, package_files()))


def _exported(file: SourceFile) -> set[str]:
    """Names that the file's package declares as its own."""
    init = next((each for each in package_files() if each.path == f"{file.package}/__init__.py"), None)
    return set(_declared_names(init) or ()) if init else set()


def test_parameters_after_the_second_are_keyword_only():
    """After the second in what a package exports, after the third in other public functions (a formula's symbols)."""

    def rule(file: SourceFile):
        exported = _exported(file)
        for name, node in functions(file.tree):
            _, positional = _parameters(node)
            allowed = MAX_POSITIONAL if name.split(".")[0] in exported else MAX_POSITIONAL + 1
            exempt = node.name.startswith("_") or _takes_what_others_pass(node)
            if positional > allowed and not exempt and f"{file.path}:{name}" not in POSITIONAL_FORMULAS:
                yield f"{file.path}:{node.lineno} {name}: {positional} positional parameters"

    assert_none(_findings(rule, package_files()))


def test_exemptions_name_functions_that_exist_and_need_them():
    present = {f"{file.path}:{name}": node for file in package_files() for name, node in functions(file.tree)}
    stale = [key for key in LONG_FUNCTIONS if key not in present or _lines_of_code(present[key]) <= MAX_FUNCTION_LINES]
    stale += [key for key in MANY_PARAMETERS if key not in present or _parameters(present[key])[0] <= MAX_PARAMETERS]
    stale += [
        key for key in POSITIONAL_FORMULAS if key not in present or _parameters(present[key])[1] <= MAX_POSITIONAL
    ]
    assert_none(stale)


def _declared_names(file: SourceFile) -> list[str] | None:
    for node in file.tree.body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def _constants_classes_functions(name: str) -> tuple[int, str]:
    """The order of ruff's RUF022."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_declares_few_names_in_order(package):
    init = next((file for file in package_files() if file.path == f"{package}/__init__.py"), None)
    assert init is not None, f"{package}/__init__.py is missing"
    names = _declared_names(init)
    assert names is not None, f"{package}/__init__.py has no __all__"
    assert names == sorted(set(names), key=_constants_classes_functions)
    assert len(names) <= MAX_PUBLIC_NAMES


def test_every_declared_list_of_names_is_sorted_and_true():
    def rule(file: SourceFile):
        names = _declared_names(file)
        if names is not None and names != sorted(set(names), key=_constants_classes_functions):
            yield f"{file.path}: __all__ is not sorted or repeats a name"

    assert_none(_findings(rule, package_files()))


def test_importing_a_module_calls_nothing():
    def rule(file: SourceFile):
        if file.path.endswith("__main__.py"):
            return
        for node in file.tree.body:
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                yield f"{file.path}:{node.lineno} {ast.unparse(node)}"

    assert_none(_findings(rule, package_files()))


def test_only_the_rng_module_makes_generators():
    makers = {
        "default_rng",
        "Generator",
        "PCG64",
        "Philox",
        "SeedSequence",
        "RandomState",
        "seed",
        "rand",
        "randn",
    }

    def rule(file: SourceFile):
        if file.path == "simulator/rng.py" or file.package == "calibrate":
            return
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                made = ast.unparse(node.func).split(".")
                if made[-2:-1] == ["random"] and made[-1] in makers:
                    yield f"{file.path}:{node.lineno} {'.'.join(made)}"
            if isinstance(node, ast.ImportFrom) and node.module == "numpy.random":
                yield f"{file.path}:{node.lineno} imports from numpy.random"

    assert_none(_findings(rule, package_files()))


def test_nobody_uses_a_global_seed_or_the_random_module():
    def rule(file: SourceFile):
        for module, line in imported_modules(file.tree):
            if module.split(".")[0] == "random":
                yield f"{file.path}:{line} imports {module}"
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in (
                "np.random.seed",
                "numpy.random.seed",
            ):
                yield f"{file.path}:{node.lineno} seeds numpy for everyone"

    assert_none(_findings(rule, package_files()))


def test_tests_use_no_mocks():
    def rule(file: SourceFile):
        for module, line in imported_modules(file.tree):
            if "mock" in module.split("."):
                yield f"{file.path}:{line} imports {module}"
        for node in ast.walk(file.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "monkeypatch.setattr":
                yield f"{file.path}:{node.lineno} patches; pass an object instead"

    assert_none(_findings(rule, files_of_tests()))


def _loaded_after(code: str) -> set[str]:
    """Top-level modules in `sys.modules` after the code ran in a fresh interpreter."""
    script = f"import sys\n{code}\nprint('loaded:', *sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    before, _, listed = done.stdout.partition("loaded:")
    return set(listed.split()) | ({f"printed {before!r}"} if "help" not in code and before else set())


@pytest.mark.parametrize(
    ("package", "unwanted"),
    [
        ("roofline", {"torch", "matplotlib", "numba", "simpy", "scipy", "pandas"}),
        ("simulator", {"torch", "matplotlib", "scipy", "pandas"}),
        ("calibrate", {"torch", "matplotlib", "pandas"}),
        ("scenarios", {"torch", "matplotlib", "numba", "scipy", "pandas"}),
    ],
)
def test_importing_a_package_loads_nothing_heavy_and_prints_nothing(package, unwanted):
    loaded = _loaded_after(f"import {package}")
    assert package in loaded
    assert loaded & unwanted == set()
    assert not [name for name in loaded if name.startswith("printed")]


def test_the_help_text_loads_nothing_heavy():
    code = (
        "from scenarios.cli.main import main\n"
        "sys.argv = ['specdec', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )
    assert _loaded_after(code) & {"torch", "matplotlib", "numba", "simpy", "scipy", "pandas"} == set()
