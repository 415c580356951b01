"""Published cases at the limits of speculative decoding as checks: one band a row, with the run it was seen in.

`checks.csv` is transcribed from public threads. A row either describes a run (metric `tpot_speedup` and the like) or
puts values of other rows of its case together (`best_k`, `ratio`, `crossover`; column `of`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from roofline.errors import InvalidInput
from scenarios.schema import Scenario
from scenarios.validate.rows import DATA_FOLDER, Problem, is_blank, number, read_table

CHECKS = DATA_FOLDER / "checks.csv"
Metric = Literal[
    "tpot_speedup",
    "throughput_speedup",
    "tpot_s",
    "tokens_per_s",
    "acceptance_length",
    "best_k",
    "ratio",
    "crossover",
]
COMBINED: tuple[Metric, ...] = ("best_k", "ratio", "crossover")
"""Metrics of rows that describe no run of their own."""
COLUMNS = (
    "case", "grade", "arm", "metric", "low", "high", "measured", "direction", "of", "hardware", "tensor_parallel",
    "draft_tensor_parallel", "engine", "target", "target_quantization", "draft", "draft_quantization", "method", "k",
    "tree", "acceptance", "load", "input_tokens", "output_tokens", "options", "on_options", "assumed", "url", "reason",
)  # fmt: skip
REQUESTS = 48
"""Requests of a run, or three times those in flight where that is more."""


@dataclass(frozen=True, slots=True)
class Check:
    """One row. `low`, `high`: the band, None where the row only serves others. `direction`: the side of 1 that the case
    reports, "above" or "below". `assumed`: what its source leaves open, and what was taken. `reason`: why it cannot be
    computed. `cells` holds the run.
    """

    case: str
    grade: str
    arm: str
    metric: Metric
    low: float | None
    high: float | None
    measured: float | None
    direction: str
    of: tuple[str, ...]
    assumed: str
    url: str
    reason: str
    cells: dict[str, str]

    @property
    def name(self) -> str:
        """Case and arm."""
        return f"{self.case} {self.arm}".strip()


def read_checks(path: Path = CHECKS) -> tuple[tuple[Check, ...], tuple[Problem, ...]]:
    """The rows of a file of checks, and every problem met; a row whose metric is unknown is left out."""
    table = read_table(path, columns=COLUMNS)
    problems = list(table.problems)
    checks: list[Check] = []
    for line, cells in zip(table.lines, table.rows, strict=True):
        name = f"{cells['case']} {cells['arm']}"
        if cells["metric"] not in get_args(Metric):
            said = f"must be one of {', '.join(get_args(Metric))}, got {cells['metric']!r}; the row is left out"
            problems.append(Problem(table.file, line, name, "metric", said))
            continue
        low, high, measured = (_number(cells, column, table.file, line, problems) for column in _NUMBERS)
        checks.append(
            Check(
                case=cells["case"],
                grade=cells["grade"],
                arm=cells["arm"],
                metric=cast("Metric", cells["metric"]),
                low=low,
                high=high,
                measured=measured,
                direction=cells["direction"],
                of=tuple(cells["of"].split()),
                assumed=cells["assumed"],
                url=cells["url"],
                reason=cells["reason"],
                cells=cells,
            )
        )
    return tuple(checks), tuple(problems)


_NUMBERS = ("low", "high", "measured")


def _number(cells: dict[str, str], column: str, file: str, line: int, problems: list[Problem]) -> float | None:
    text = cells[column]
    if is_blank(text):
        return None
    found = number(text)
    if found is None:
        said = f"must be a number, got {text!r}; taken as not given"
        problems.append(Problem(file, line, f"{cells['case']} {cells['arm']}", column, said))
        return None
    return found.value


def scenario_of(check: Check, *, speculating: bool = True) -> Scenario:
    """The run of a row; `speculating` adds what only the speculating arm had (`on_options`).

    Raises
    ------
    InvalidInput
        A cell is not understood, or names something the catalogue lacks.
    """
    cells = check.cells
    table: dict[str, Any] = {
        "name": check.name,
        "target": given({"model": cells["target"], "quantization": cells["target_quantization"]}),
        "hardware": given(
            {
                "gpu": cells["hardware"],
                "tensor_parallel": whole(cells["tensor_parallel"]) or 1,
                "draft_tensor_parallel": whole(cells["draft_tensor_parallel"]),
                "outside_domain": "clip",
            }
        ),
        "engine": {"profile": cells["engine"]},
        "speculation": speculation_of(cells),
        "workload": _workload(cells),
        "run": {"seeds": 1, "max_draft_tokens": 1},
    }
    if not is_blank(cells["acceptance"]):
        table["acceptance"] = _acceptance(cells["acceptance"])
    for text in (cells["options"], cells["on_options"] if speculating else ""):
        _set_options(table, text)
    return Scenario.model_validate(table)


def given(table: dict[str, Any]) -> dict[str, Any]:
    """The entries that say something."""
    return {key: value for key, value in table.items() if value not in (None, "")}


def whole(text: str) -> int | None:
    """A cell as a whole number; None where it is blank."""
    return None if is_blank(text) else int(text)


def speculation_of(cells: dict[str, str]) -> dict[str, Any]:
    """Method, draft and K; a tree is written `depth 6 beam 10 nodes 31`."""
    table = given(
        {
            "method": cells["method"],
            "draft": cells["draft"],
            "draft_quantization": cells["draft_quantization"],
            "draft_tokens": whole(cells["k"]),
        }
    )
    if not is_blank(cells["tree"]):
        words = cells["tree"].split()
        table["tree"] = {key: int(value) for key, value in zip(words[::2], words[1::2], strict=True)}
    if cells["method"] in ("ngram", "suffix"):
        table["proposal_fraction"] = 1.0  # published AL of matching counts rounds without a match
    return table


def _acceptance(text: str) -> dict[str, Any]:
    """`2.4@3`, `alpha 0.7`, or `task chat`."""
    word, _, rest = text.partition(" ")
    if word == "alpha":
        return {"alpha": float(rest)}
    return {"task": rest} if word == "task" else {"length": text}


def _workload(cells: dict[str, str]) -> dict[str, Any]:
    """`concurrency 8` in a closed loop, or `qps 2` of Poisson arrivals."""
    kind, _, value = cells["load"].partition(" ")
    lengths = {"input_tokens": int(cells["input_tokens"]), "output_tokens": int(cells["output_tokens"])}
    if kind == "qps":
        return {"kind": "poisson", "rate_per_s": float(value), "requests": 6 * REQUESTS, **lengths}
    if kind != "concurrency":
        raise InvalidInput(f"load must read 'concurrency 8' or 'qps 2', got {cells['load']!r}; correct it")
    flight = int(value)
    return {"kind": "closed", "concurrency": flight, "requests": max(REQUESTS, 3 * flight), **lengths}


def _set_options(table: dict[str, Any], text: str) -> None:
    """`engine.enforce_eager=true; hardware.expert_parallel=true`: keys of the scenario, values as JSON."""
    for part in text.split(";"):
        if not part.strip():
            continue
        path, _, value = part.strip().partition("=")
        section, _, key = path.partition(".")
        try:
            table.setdefault(section, {})[key] = json.loads(value)
        except json.JSONDecodeError as error:
            raise InvalidInput(
                f"option {part.strip()!r}: {value!r} is no JSON value ({error.msg}); quote texts"
            ) from None
