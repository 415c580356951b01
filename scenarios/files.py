"""Scenario files: TOML to a validated `Scenario` with one-sentence errors; presets; atomic writing."""

from __future__ import annotations

import os
import shutil
import tempfile
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from calibrate import writing
from roofline.errors import InvalidInput, SpecdecError, UnknownName
from scenarios import notation
from scenarios.schema import CATALOGUE, SCHEMA_VERSION, Scenario

PRESET_FOLDER = Path(__file__).parent / "presets"
TRACE_FOLDER = Path(__file__).parent / "data"
_NOT_SCENARIOS = ("acceptance", "quantization")
_FIXES = {
    "target": "give --serve or --model, or a [target] table",
    "hardware": "give --gpu, or a [hardware] table",
    "hardware.gpu": "give --gpu or `gpu` (`specdec list gpus`)",
    "workload": "give --trace FILE, or --rate with --input-tokens and --output-tokens, or a [workload] table",
    "acceptance.alpha": "give the share of drafts that are accepted, 0 to 1",
    "speculation.draft_tokens": "give K, the drafts per round, of at least 1",
    "workload.rate_per_s": "give a positive rate in requests per second",
}
_PATH_KEYS = (
    ("target", "model"), ("hardware", "gpu"), ("hardware", "calibration"), ("speculation", "draft"),
    ("workload", "path"), ("acceptance", "logits"),
)  # fmt: skip


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file, or a shipped preset by its name.

    Relative paths inside the file are taken from the file's folder.

    Raises
    ------
    InvalidInput
        The file is unreadable, not TOML, of a newer schema version, or a field is wrong.
    """
    return scenario_from_dict(read_scenario_table(path), origin=f"scenario {path}")


def read_scenario_table(path: str | Path) -> dict[str, Any]:
    """The TOML table of a scenario file with its paths made absolute, not yet validated."""
    file = find_scenario(path)
    content = read_toml(file, what="scenario")
    version = content.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise InvalidInput(
            f"scenario {path}: schema_version {version} is newer than the {SCHEMA_VERSION} this specdec "
            "reads; "
            "upgrade specdec-sim, or write the scenario for the older schema"
        )
    if version != SCHEMA_VERSION:
        raise InvalidInput(
            f"scenario {path}: schema_version must be {SCHEMA_VERSION}, got {version!r}; "
            f"write `schema_version = {SCHEMA_VERSION}` on top"
        )
    return _with_absolute_paths(content, folder=file.resolve().parent)


def scenario_from_dict(content: Mapping[str, Any], *, origin: str = "scenario") -> Scenario:
    """Validate a table; every error is one sentence with field, value and fix."""
    try:
        return Scenario.model_validate(dict(content))
    except ValidationError as error:
        raise InvalidInput(f"{origin}: {first_problem(error, Scenario)}") from error


def find_scenario(path: str | Path) -> Path:
    """The file itself, or the preset of that name."""
    file = Path(path)
    if file.is_file():
        return file
    preset = PRESET_FOLDER / f"{path}.toml"
    if "/" not in str(path) and preset.is_file() and preset.stem not in _NOT_SCENARIOS:
        return preset
    raise UnknownName(
        f"scenario {str(path)!r} is neither a file nor a preset; "
        f"{notation.nearest(file.stem, preset_names())} "
        "(`specdec init` writes a new one)"
    )


def preset_names() -> tuple[str, ...]:
    """Names of the shipped scenarios."""
    return tuple(sorted(file.stem for file in PRESET_FOLDER.glob("*.toml") if file.stem not in _NOT_SCENARIOS))


def preset_path(name: str) -> Path:
    """File of a shipped scenario."""
    if name not in preset_names():
        raise UnknownName(f"preset {name!r} does not exist; {notation.nearest(name, preset_names())}")
    return PRESET_FOLDER / f"{name}.toml"


def read_toml(file: Path, *, what: str) -> dict[str, Any]:
    """A TOML file as a table."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{what} {file}: cannot be read ({error.strerror}); give a readable file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} {file}: is not UTF-8 text; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{what} {file}: is not TOML ({error}); correct that line") from error


def looks_like_path(text: str) -> bool:
    """Whether a model or GPU is meant as a file: it ends in .json or .toml, or starts like a path."""
    return text.endswith((".json", ".toml")) or text.startswith(("./", "../", "/", "~"))


def _with_absolute_paths(content: dict[str, Any], *, folder: Path) -> dict[str, Any]:
    result = dict(content)
    for table_name, key in _PATH_KEYS:
        table = result.get(table_name)
        value = cast("dict[str, Any]", table).get(key) if isinstance(table, dict) else None
        if not isinstance(value, str):
            continue
        file = folder / Path(value).expanduser()
        shipped = value == file.name and (TRACE_FOLDER / value).is_file()
        if (table_name, key, value) == ("hardware", "calibration", CATALOGUE):
            continue
        if file.exists() or (key in ("path", "calibration") and not shipped):
            result[table_name] = {**cast("dict[str, Any]", table), key: str(file.resolve())}
    return cast("dict[str, Any]", _lengths_with_absolute_paths(result, folder))


def _lengths_with_absolute_paths(node: object, folder: Path) -> object:
    if isinstance(node, dict):
        table = cast("dict[str, object]", node)
        return {
            key: str((folder / Path(value).expanduser()).resolve())
            if key == "from_trace" and isinstance(value, str)
            else _lengths_with_absolute_paths(value, folder)
            for key, value in table.items()
        }
    if isinstance(node, list):
        return [_lengths_with_absolute_paths(item, folder) for item in cast("list[object]", node)]
    return node


def first_problem(error: ValidationError, model: type[BaseModel]) -> str:
    """One sentence about the first error of a validation: field, what came, what is allowed, what to do."""
    problem = sorted(error.errors(), key=lambda item: (_of_the_other_class(item), item["type"] == "missing"))[0]
    places = [str(part) for part in problem["loc"] if part not in ("trace", "poisson", "gamma", "closed")]
    field = ".".join(part for part in places if not part.startswith(("function-", "int", "constrained-int", "Lengths")))
    context = problem.get("ctx", {})
    cause = context.get("error")
    if isinstance(cause, SpecdecError):
        return str(cause)
    value = problem.get("input")
    shown = repr(value) if not isinstance(value, Mapping) else "a table"
    match problem["type"]:
        case "extra_forbidden":
            return _unknown_key(field, problem["loc"], _keys_at(model, problem["loc"][:-1]))
        case "missing":
            return f"{field} is missing; {_FIXES.get(field, 'add it (`specdec init` writes a commented example)')}"
        case "literal_error" | "union_tag_invalid" | "union_tag_not_found":
            allowed = context.get("expected") or context.get("expected_tags") or "a `kind`"
            where = f"{field}.kind" if problem["type"].startswith("union") else field
            shown = shown if problem["type"] == "literal_error" else repr(context.get("tag", "nothing"))
            return f"{where} must be {allowed}, got {shown}; choose one of them"
        case "finite_number":
            return f"{field} must be a finite number, got {shown}; give a number"
        case _:
            rule = problem["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
            return f"{field} must be {rule}, got {shown}; {_FIXES.get(field, f'correct {field}')}"


def _of_the_other_class(problem: Mapping[str, Any]) -> bool:
    """A table where a plain number may stand too: what the table lacks says more than that it is no number."""
    return problem["type"] == "int_type" and isinstance(problem.get("input"), Mapping)


def _unknown_key(field: str, location: tuple[int | str, ...], known: set[str]) -> str:
    key = str(location[-1])
    if key in known:  # by another class of a union: no misspelling
        return f"{field} does not belong to kind {str(location[-2])!r}; remove it, or change the kind"
    return f"unknown key {field!r}; {notation.nearest(key, known)}"


def _keys_at(model: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """Keys of every class reachable at a location of the schema."""
    schema = model.model_json_schema()
    nodes: list[dict[str, Any]] = [schema]
    for part in location:
        followed: list[dict[str, Any]] = []
        for node in schema_nodes(nodes, schema):
            properties = node.get("properties", {})
            if isinstance(part, int) and "items" in node:
                followed.append(node["items"])
            elif part in properties:
                followed.append(properties[part])
        nodes = followed or nodes
    return {key for node in schema_nodes(nodes, schema) for key in node.get("properties", {})}


def schema_nodes(nodes: list[dict[str, Any]], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes with references and unions followed."""
    result: list[dict[str, Any]] = []
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if "$ref" in node:
            todo.append(schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
        elif "anyOf" in node or "oneOf" in node:
            todo.extend(node.get("anyOf") or node["oneOf"])
        else:
            result.append(node)
    return result


def check_can_write(folder: Path, *, option: str = "--out") -> None:
    """Refuse a folder that cannot be made or written, before any work is done for it."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        raise InvalidInput(f"{option} {folder}: {nearest} is no folder you may write to; give another folder")


@contextmanager
def folder_written_at_once(folder: Path) -> Generator[Path]:
    """A temporary folder whose files move into `folder` when the block ends well, and vanish otherwise."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise InvalidInput(
            f"--out {folder}: cannot be written ({error.strerror}); give a folder you may write to"
        ) from error
    try:
        yield draft
        try:
            folder.mkdir(exist_ok=True)
            for file in sorted(draft.iterdir()):
                os.replace(file, folder / file.name)
        except OSError as error:
            raise InvalidInput(
                f"--out {folder}: cannot be written ({error.strerror}); give a folder you may write to"
            ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_text_at_once(file: Path, text: str) -> None:
    """Write a file and the folders it lies in; no reader ever sees half of it.

    Raises
    ------
    InvalidInput
        It cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise writing.cannot_write(file, error) from error
    writing.write_text_at_once(file, text)
