"""Files of the model catalogue: configs shipped in `roofline/catalog/models`, each with a row in its
SOURCES.toml.
"""

import tomllib
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from roofline.errors import InvalidInput, UnknownName
from roofline.specs import Source

SIDE_SUFFIXES = (".hf_quant_config", ".quantize_config", ".quant_config")
NEAREST = 5


def catalogue_folder() -> Path:
    """Folder of the shipped configs."""
    return Path(__file__).parent / "catalog" / "models"


@cache
def catalogue_names() -> tuple[str, ...]:
    """Names of the shipped models and heads, sorted; quantisation side files are not models."""
    stems = sorted(path.stem for path in catalogue_folder().glob("*.json"))
    return tuple(stem for stem in stems if not stem.endswith(SIDE_SUFFIXES))


def catalogue_file(name: str) -> tuple[Path, str]:
    """File and name of a catalogue entry; `/` and `--` between owner and model are the same, as is a `.json`
    at the end.

    Raises `UnknownName` with the nearest names.
    """
    asked = name.removesuffix(".json").replace("/", "--")
    known = {entry.lower(): entry for entry in catalogue_names()}
    if asked.lower() not in known:
        near = [known[key].replace("--", "/") for key in get_close_matches(asked.lower(), known, n=NEAREST, cutoff=0.5)]
        hint = f"nearest are {', '.join(near)}" if near else "no name is near"
        raise UnknownName(
            f"model {name!r} is neither a file nor in the catalogue; {hint}; or give the path of its config.json"
        )
    entry = known[asked.lower()]
    return catalogue_folder() / f"{entry}.json", entry.replace("--", "/")


def catalogue_source(stem: str) -> Source:
    """Where a shipped config comes from; raises `InvalidInput` for a file without a row in SOURCES.toml."""
    return source_row(_source_rows(), stem)


def source_row(rows: dict[str, dict[str, object]], stem: str) -> Source:
    """Row `stem` of a table of sources, without its licence note."""
    if stem not in rows:
        raise InvalidInput(
            f"model {stem!r} has no row in SOURCES.toml; add title, url, retrieved and licence before it loads"
        )
    try:
        return Source.model_validate({key: value for key, value in rows[stem].items() if key != "licence"})
    except ValidationError as error:
        field = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise InvalidInput(
            f"model {stem!r}: `{field}` in SOURCES.toml is not as it should be "
            f"({error.errors()[0]['msg']}); correct the row"
        ) from error


@cache
def _source_rows() -> dict[str, dict[str, object]]:
    text = (catalogue_folder() / "SOURCES.toml").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, object]]", tomllib.loads(text))
