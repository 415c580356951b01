"""`validation.json` and `validation.csv`: a validation for other programs."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scenarios.files import folder_written_at_once
from scenarios.validate.ablation import ABLATIONS
from scenarios.validate.errors import Family, computed
from scenarios.validate.like_this import result_json
from scenarios.validate.listed import case_entry, curve_entry, gain_entry, shape_entry
from scenarios.validate.report import report_text
from scenarios.validate.rows import Prediction
from scenarios.validate.run import Validation

SCHEMA_VERSION = 1
_DIGITS = 6
_COLUMNS: tuple[str, ...] = (
    "id", "source_id", "status", "reason", "engine_class", "engine", "gpu", "model", "method", "load_type",
    "load_value", "measured", "predicted", "low", "high", "error", "acceptance_length", "verify", "draft", "host",
    "queue", "plain_s", "label", "assumed",
)  # fmt: skip


def write_validation(validation: Validation, folder: Path, *, version: str) -> None:
    """`validation.json`, `validation.csv`, `validation.md`, `result.json` and two figures, all at once."""
    from scenarios.validate.plot import save_figures

    with folder_written_at_once(folder) as draft:
        (draft / "validation.json").write_text(json_text(validation, version=version), encoding="utf-8")
        (draft / "validation.csv").write_text(csv_text(validation.predictions), encoding="utf-8")
        (draft / "validation.md").write_text(report_text(validation), encoding="utf-8")
        (draft / "result.json").write_text(result_json(validation.predictions, version=version), encoding="utf-8")
        save_figures(validation.predictions, draft)


def json_text(validation: Validation, *, version: str) -> str:
    """The whole validation but for its rows; NaN is null."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "specdec_sim_version": version,
        "rows": len(validation.predictions),
        "computed": len(computed(validation.predictions)),
        "problems": [str(problem) for problem in validation.problems],
        "families": [_family(one) for one in validation.families],
        "baselines": {
            name: {
                "always_on_right": base.always_on,
                "constant_in_sample": _family(base.constant_in_sample),
                "constant_other_sources": _family(base.constant_other_sources),
            }
            for name, base in validation.baselines.items()
        },
        "ablations": {name: [_family(one) for one in rows] for name, rows in validation.ablations.items()},
        "ablation_names": list(ABLATIONS),
        "sweeps": [asdict(sweep) for sweep in validation.sweeps],
        "cases": [case_entry(one) for one in validation.cases],
        "cost_curves": [curve_entry(one) for one in validation.curves],
        "per_position": [shape_entry(one) for one in validation.shapes],
        "quantization": [gain_entry(one) for one in validation.quantization],
        "worst": [
            {"id": one.prediction.row.id, "error": one.prediction.error, "term": one.term, "factors": one.factors}
            for one in validation.worst
        ],
    }
    return json.dumps(_plain(content), indent=2) + "\n"


def _family(one: Family) -> dict[str, Any]:
    content = asdict(one)
    content["n"] = content.pop("rows")
    return content


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(node, list | tuple):
        return [_plain(value) for value in node]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(node, float):
        return round(node, _DIGITS) if math.isfinite(node) else None
    return node


def csv_text(predictions: tuple[Prediction, ...]) -> str:
    """One line a row of the files, computed or not."""
    stream = io.StringIO()
    writer: csv.DictWriter[str] = csv.DictWriter(stream, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in _line(one).items()} for one in predictions)
    return stream.getvalue()


def _line(one: Prediction) -> dict[str, object]:
    row, terms = one.row, one.terms
    content: dict[str, object] = {
        "id": row.id, "source_id": row.source_id, "status": one.status, "reason": one.reason,
        "load_type": row.load_type, "load_value": row.load_value, "measured": row.speedup,
    }  # fmt: skip
    if terms is None:
        return content
    return content | {
        "engine_class": one.tags["engine class"], "engine": one.engine, "gpu": one.gpu, "model": one.model,
        "method": one.tags["method"], "predicted": one.speedup, "low": one.low, "high": one.high, "error": one.error,
        "acceptance_length": terms.acceptance_length, "verify": terms.verify, "draft": terms.draft,
        "host": terms.host, "queue": terms.queue, "plain_s": terms.plain_s, "label": one.label,
        "assumed": "; ".join(one.assumed),
    }  # fmt: skip


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else ""
    return value
