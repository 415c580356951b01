"""Reads the catalogue's files. Rows without a source do not load; unknown names say what is near."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from roofline.engines import CollectiveConstants, EngineProfile, KernelConstants
from roofline.errors import InvalidInput, UnknownName
from roofline.hf_catalogue import catalogue_file, catalogue_names
from roofline.specs import Gpu, Source

CATALOG = Path(__file__).parent
_CONSTANTS_OF_A_KERNEL = ("overhead_s", "bandwidth_fraction", "compute_fraction", "p_norm")
_CONSTANTS_OF_A_COLLECTIVE = ("latency_s", "link_fraction")

Table = dict[str, Any]
Row = TypeVar("Row")


def gpu(name: str) -> Gpu:
    """Catalogue row of a GPU; upper and lower case alike.

    Raises
    ------
    UnknownName
        No such row; the message lists the nearest names.
    """
    rows = _gpus()
    return _pick(
        name,
        rows,
        kind="GPU",
        remedy="use one of `specdec list gpus` or describe yours in a file (--gpu my.toml)",
    )


def gpu_names() -> tuple[str, ...]:
    """Names of all GPUs, in the order of the file."""
    return tuple(row.name for row in _gpus().values())


def load_gpu_file(path: Path) -> Gpu:
    """GPU of a user's TOML file: the fields of one `[[gpu]]` row, at the top level or under `[gpu]`.

    Raises
    ------
    InvalidInput
        Unreadable, not TOML, or a field is missing or wrong; one sentence naming the field.
    """
    content = read_toml(path, kind="GPU file")
    row: Any = content.get("gpu", content)
    rows = cast(list[Any], row if isinstance(row, list) else [row])
    if len(rows) != 1 or not isinstance(rows[0], dict):
        raise InvalidInput(f"GPU file {path}: must describe one GPU, got {len(rows)}; keep one [gpu] table")
    return _validated_gpu(cast(Table, rows[0]), where=f"GPU file {path}")


ENGINE_SPELLINGS = {"tensorrt-llm": "trtllm"}
"""Other names engines go by, in lower case."""


def engine(name: str) -> EngineProfile:
    """Profile of a serving engine: vllm, sglang, trtllm, llama.cpp, or paper (unoptimised framework code)."""
    return _pick(
        ENGINE_SPELLINGS.get(name.lower(), name),
        _engines(),
        kind="engine",
        remedy=f"use one of {', '.join(engine_names())}",
    )


def engine_names() -> tuple[str, ...]:
    """Names of all engine profiles."""
    return tuple(profile.name for profile in _engines().values())


@cache
def kernel_constants() -> tuple[KernelConstants, ...]:
    """Rows of kernels.toml."""
    content = read_toml(CATALOG / "kernels.toml", kind="catalogue")
    return tuple(
        KernelConstants.model_validate(_labelled(row, content, names=_CONSTANTS_OF_A_KERNEL))
        for row in content["kernel"]
    )


@cache
def collective_constants() -> tuple[CollectiveConstants, ...]:
    """All-reduce rows of kernels.toml."""
    content = read_toml(CATALOG / "kernels.toml", kind="catalogue")
    return tuple(
        CollectiveConstants.model_validate(_labelled(row, content, names=_CONSTANTS_OF_A_COLLECTIVE))
        for row in content["collective"]
    )


def model_names() -> tuple[str, ...]:
    """Names of the model configurations shipped with the catalogue."""
    return catalogue_names()


def model_config_path(name: str) -> Path:
    """File of a shipped model configuration; `/` and `--` in names are alike, upper and lower case too."""
    return catalogue_file(name)[0]


def read_toml(path: Path, *, kind: str) -> Table:
    """Content of a TOML file, with one-sentence errors."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{kind} {path}: cannot be read ({error.strerror}); give a readable file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{kind} {path}: not valid TOML ({error}); correct it there") from error


def parse_gpus(rows: Iterable[Mapping[str, Any]]) -> dict[str, Gpu]:
    """GPUs of a catalogue file by lower-case name; refuses rows without source and names used twice."""
    parsed: dict[str, Gpu] = {}
    for row in rows:
        spec = _validated_gpu(row, where=f"GPU {row.get('name', '?')!r}")
        if spec.name.lower() in parsed:
            raise InvalidInput(f"GPU {spec.name!r} occurs twice in the catalogue; names must differ beyond case")
        parsed[spec.name.lower()] = spec
    return parsed


@cache
def _gpus() -> dict[str, Gpu]:
    return parse_gpus(read_toml(CATALOG / "gpus.toml", kind="catalogue")["gpu"])


@cache
def _engines() -> dict[str, EngineProfile]:
    content = read_toml(CATALOG / "engines.toml", kind="catalogue")
    sources: Table = content.pop("sources")
    engines: Table = content["engine"]
    whole = {name: _merged(engines.get(row.get("kernels_of", ""), {}), row) for name, row in engines.items()}
    return {
        name.lower(): EngineProfile.model_validate({"name": name, **_with_sources(row, sources)})
        for name, row in whole.items()
    }


def _merged(base: Table, own: Table) -> Table:
    """`own` with what it lacks from `base`, table by table; a constant is taken whole."""
    merged: Table = dict(base)
    for key, value in own.items():
        inner = base.get(key)
        tables = isinstance(value, dict) and isinstance(inner, dict) and "value" not in cast(Table, value)
        merged[key] = _merged(cast(Table, inner), cast(Table, value)) if tables else value
    return merged


def _validated_gpu(row: Mapping[str, Any], *, where: str) -> Gpu:
    try:
        return Gpu.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the whole table"
        raise InvalidInput(
            f"{where}: field {field!r}: {first['msg']}; see roofline/catalog/gpus.toml for a row"
        ) from error


def _pick(name: str, rows: Mapping[str, Row], *, kind: str, remedy: str) -> Row:
    row = rows.get(name.lower())
    if row is not None:
        return row
    near = difflib.get_close_matches(name.lower(), rows, n=4, cutoff=0.4) or sorted(rows)[:4]
    raise UnknownName(f"{kind} {name!r} is not in the catalogue (nearest: {', '.join(near)}); {remedy}")


def _labelled(row: Table, content: Table, *, names: tuple[str, ...]) -> Table:
    """Give the constants of a kernel or collective row their label, source and derivation."""
    fits: int = row.get("fits", 0)
    assumed: tuple[str, ...] = tuple(row.get("assumed", () if fits else names))
    source: Table = content["sources"][row["source"]] if "source" in row else content["source"]
    how: str = row.get("how", f"median and range of {fits} fits over engines and GPUs of the architecture")
    labelled = {key: value for key, value in row.items() if key not in ("fits", "assumed", "source", "how")}
    for name in names:
        label = "assumed" if name in assumed else "catalogue"
        labelled[name] = {**row[name], "label": label, "source": source, "how": how}
    return labelled


def _with_sources(node: Any, sources: Table) -> Any:
    """Replace `source = "key"` by the source table of that key, everywhere below `node`."""
    if isinstance(node, dict):
        table = cast(Table, node)
        replaced: Table = {key: _with_sources(value, sources) for key, value in table.items()}
        if isinstance(table.get("source"), str):
            if table["source"] not in sources:
                raise InvalidInput(
                    f"engines.toml: source {node['source']!r} is not declared under [sources]; add it there"
                )
            replaced["source"] = Source.model_validate(sources[table["source"]])
        return replaced
    if isinstance(node, list):
        return [_with_sources(value, sources) for value in cast(list[Any], node)]
    return node
