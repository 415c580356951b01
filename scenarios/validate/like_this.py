"""How far off predictions of published rows like a scenario were: read from a result that `specdec validate` wrote.

A kind is what is served on (architecture of the GPU), by what (serving engine, llama.cpp, paper code), with which
method. Nothing is said about a kind nobody published.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from roofline.catalog import gpu
from roofline.errors import InvalidInput
from roofline.specs import Gpu
from scenarios.validate.rows import DATA_FOLDER, Prediction

SHIPPED = DATA_FOLDER / "result.json"
RESULT_SCHEMA_VERSION = 1
_CLASSES = {"llama.cpp": "llama.cpp", "paper": "paper frameworks", "gpt-fast": "paper frameworks"}
SERVING = "serving engines"
_KIND = ("hardware", "engine", "method")
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class LikeThis:
    """Errors of the predicted speed-ups of published rows of one kind; `rows` = 0 where there are none.

    `bias` is the median of predicted / measured - 1. `label` is "measured": the other side of the error is.
    """

    kind: str
    rows: int
    sources: tuple[str, ...]
    median_abs_error: float
    p90_abs_error: float
    bias: float
    result: str
    label: str = "measured"

    @property
    def text(self) -> str:
        """One sentence; says so where nothing is known."""
        if not self.rows:
            return f"no published rows of this kind ({self.kind}): how far off this answer is was never checked"
        sources = f"{len(self.sources)} source{'s' if len(self.sources) > 1 else ''}"
        return (
            f"{self.rows} published rows of this kind ({self.kind}, {sources}): predicted speed-ups were off by "
            f"{self.median_abs_error:.0%} in the median and {self.p90_abs_error:.0%} at p90, bias {self.bias:+.0%}"
        )


def hardware_class(machine: Gpu) -> str:
    """Architecture, the data-centre Blackwell boards taken together."""
    return "Blackwell sm10x" if "sm10" in machine.architecture else machine.architecture


def engine_class(engine: str) -> str:
    """Serving engines together; llama.cpp and the code of papers apart."""
    return _CLASSES.get(engine, SERVING)


def result_json(predictions: Sequence[Prediction], *, version: str) -> str:
    """The result as a small JSON document, (source, error) of every computed row by kind; the same bytes every time."""
    kinds: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for one in predictions:
        if one.status == "computed" and math.isfinite(one.error):
            kind = (hardware_class(gpu(one.gpu)), engine_class(one.engine), _method(one))
            kinds.setdefault(kind, []).append((one.row.source_id, round(one.error, _DIGITS)))
    entries = [{**dict(zip(_KIND, kind, strict=True)), "rows": rows} for kind, rows in sorted(kinds.items())]
    digest = hashlib.sha256(json.dumps(entries).encode()).hexdigest()
    lines = ",\n".join("    " + json.dumps(entry) for entry in entries)
    return (
        f'{{\n  "schema_version": {RESULT_SCHEMA_VERSION},\n  "specdec_sim_version": {json.dumps(version)},\n'
        f'  "rows_sha256": "{digest}",\n  "kinds": [\n{lines}\n  ]\n}}\n'
    )


def _method(prediction: Prediction) -> str:
    """Method of the scenario, trees left together with their chains."""
    return prediction.tags.get("method", "").removesuffix(" tree")


def like_this(machine: Gpu, *, engine: str, method: str, path: Path = SHIPPED) -> LikeThis:
    """The published rows of a kind, with the errors of their predictions.

    Raises
    ------
    InvalidInput
        The result is no such file.
    """
    kind = (hardware_class(machine), engine_class(engine), method)
    content = _content(path)
    rows = [row for one in content["kinds"] if tuple(one[key] for key in _KIND) == kind for row in one["rows"]]
    name = f"{method} on {kind[0]}, {kind[1]}"
    result = f"{content['specdec_sim_version']} {content['rows_sha256'][:12]}"
    if not rows:
        return LikeThis(name, 0, (), math.nan, math.nan, math.nan, result)
    errors = np.array([error for _, error in rows])
    return LikeThis(
        kind=name,
        rows=len(rows),
        sources=tuple(sorted({source for source, _ in rows})),
        median_abs_error=float(np.median(np.abs(errors))),
        p90_abs_error=float(np.quantile(np.abs(errors), 0.9)),
        bias=float(np.median(errors)),
        result=result,
    )


@cache
def _content(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["schema_version"] != RESULT_SCHEMA_VERSION:
            raise InvalidInput(
                f"{path.name}: schema_version must be {RESULT_SCHEMA_VERSION}, got {content['schema_version']}; write "
                "it again with `specdec validate`"
            )
        return content
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path}: is no result of `specdec validate` ({error}); write it again") from error
