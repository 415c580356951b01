"""Published gains of quantisation, of speculation on top, and of both, beside predictions: `quantization.csv`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from roofline.cost import round_cost
from roofline.errors import InvalidInput, SpecdecError
from scenarios.build import Arm
from scenarios.questions.break_even import simulate_arm
from scenarios.validate.measure import service_of
from scenarios.validate.predict import predicted
from scenarios.validate.row_scenario import Setup, setups_of
from scenarios.validate.rows import DATA_FOLDER, Prediction, Problem, Row, number, read_table
from simulator.rng import Streams
from simulator.workload import make_workload, poisson_arrivals

QUANTIZATION = DATA_FOLDER / "quantization.csv"
Gain = Literal["quantisation", "speculation", "both"]
GAINS: dict[Gain, str] = {
    "quantisation": "quant_only_speedup_vs_fp16",
    "speculation": "spec_speedup_on_same_quant",
    "both": "combined_speedup_vs_fp16",
}
"""What is compared, and its column: plain decoding over 16-bit plain decoding; speculation over plain decoding of the
same weights; speculation on quantised weights over 16-bit plain decoding."""
COLUMNS = (
    "id", "source", "url_or_ref", "hardware", "n_gpus", "engine", "target_model", "target_quant", "draft_model",
    "draft_quant", "method", "k", "dataset", "temperature", "batch_size", "acceptance_rate", "mean_accept_len_tau",
    *GAINS.values(), "notes",
)  # fmt: skip
RESEARCH_TREE = "steps=6,topk=10,draft_tokens=60"
"""K of the C++ code of SpecMQuant (arXiv 2505.22179), EAGLE-2 with 60 draft tokens."""
RATE_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class QuantPoint:
    """One published gain, its prediction or the reason for none."""

    id: str
    source: str
    setup: str
    gain: Gain
    measured: float
    status: Literal["computed", "not computed"]
    reason: str = ""
    predicted: float = math.nan
    assumed: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Predicted over measured minus 1."""
        return self.predicted / self.measured - 1.0


def quant_points(path: Path = QUANTIZATION) -> tuple[tuple[QuantPoint, ...], tuple[Problem, ...]]:
    """Every published gain of a file with its prediction, and what was wrong with the file."""
    table = read_table(path, columns=COLUMNS)
    return tuple(point for cells in table.rows for point in _points(cells)), table.problems


def _points(cells: dict[str, str]) -> Iterator[QuantPoint]:
    wanted: dict[Gain, float] = {}
    for gain, column in GAINS.items():
        published = number(cells[column])
        if published is not None:
            wanted[gain] = published.value
    if is_sixteen_bit(cells["target_quant"]):
        # Against itself: quantisation gains nothing, both are speculation alone.
        wanted.pop("quantisation", None)
        wanted.pop("both", None)
    setup = " ".join(filter(None, (cells["hardware"], cells["engine"], cells["target_model"], cells["target_quant"])))
    found: dict[Gain, float] = {}
    reason = ""
    assumed: tuple[str, ...] = ()
    try:
        found, assumed = _predicted(cells, set(wanted))
    except (SpecdecError, ValueError) as error:
        reason = str(error).splitlines()[0]
    for gain, value in wanted.items():
        known = gain in found
        yield QuantPoint(
            id=cells["id"],
            source=cells["source"],
            setup=f"{setup}, {cells['method']} {cells['dataset']}".strip(),
            gain=gain,
            measured=value,
            status="computed" if known else "not computed",
            reason="" if known else reason,
            predicted=found.get(gain, math.nan),
            assumed=assumed,
        )


def is_sixteen_bit(text: str) -> bool:
    """Whether the weights are not quantised."""
    return text.strip().lower() in ("fp16", "bf16", "f16", "fp16/bf16")


def _predicted(cells: dict[str, str], wanted: set[Gain]) -> tuple[dict[Gain, float], tuple[str, ...]]:
    if not wanted:
        raise InvalidInput("publishes no ratio of times")
    if cells["target_quant"].upper().startswith("W4A8"):
        raise InvalidInput("weights of 4 bits multiplied in 8 bits (W4A8) are no format of the catalogue")
    if not cells["hardware"]:
        raise InvalidInput("hardware is not given, and gains of quantisation depend on it")
    row = _row(cells)
    assumed: list[str] = ["the authors' C++ code priced as vLLM"] if _is_research_code(cells) else []
    found: dict[Gain, float] = {}
    if "speculation" in wanted or "both" in wanted:
        speculating = predicted(row)
        _refuse(speculating)
        found["speculation"] = speculating.speedup
        assumed += speculating.assumed
    if "quantisation" in wanted or "both" in wanted:
        found["quantisation"] = _quantised_gain(row)
    if "both" in wanted:
        found["both"] = found["speculation"] * found["quantisation"]
    return {gain: found[gain] for gain in wanted}, tuple(assumed)


def _refuse(prediction: Prediction) -> None:
    if prediction.status != "computed":
        raise InvalidInput(prediction.reason)


def _is_research_code(cells: dict[str, str]) -> bool:
    return cells["engine"].startswith("C++/CUDA")


def _row(cells: dict[str, str]) -> Row:
    """A line of this table as a row of the table of speed-ups."""
    said = number(cells["batch_size"])
    rate = "RPS" in cells["dataset"]
    size = number(cells["dataset"].split()[-2]) if rate else said
    gain = number(cells[GAINS["speculation"]])
    gpus = number(cells["n_gpus"])
    length = number(cells["mean_accept_len_tau"])
    return Row(
        id=cells["id"],
        source_id=cells["source"],
        source=cells["source"],
        url_or_ref=cells["url_or_ref"],
        hardware=cells["hardware"],
        gpus=None if gpus is None else int(gpus.value),
        tensor_parallel=None,
        engine="vLLM" if _is_research_code(cells) else cells["engine"],
        target_model=cells["target_model"],
        target_dtype=cells["target_quant"],
        target_params_b=None,
        method="eagle" if cells["method"].startswith("eagle2") else cells["method"],
        draft_model=cells["draft_model"],
        draft_params_b=None,
        k=RESEARCH_TREE if _is_research_code(cells) else cells["k"],
        tree_or_chain="tree" if _is_research_code(cells) else "",
        dataset=cells["dataset"],
        temperature=None,
        load_type="qps" if rate else "batch_size",
        load_value=size.value if size else 1.0,
        input_tokens=None,
        output_tokens=None,
        acceptance_alpha=number(cells["acceptance_rate"]),
        acceptance_length=length.value if length else None,
        tau_convention="",
        metric="mean_latency_s" if rate else "tpot_s",
        baseline_value=None,
        value=None,
        speedup=gain.value if gain else 1.0,
        simulable="full",
        notes=cells["notes"],
    )


def _quantised_gain(row: Row) -> float:
    """Plain decoding with the row's weights over 16-bit weights, by the step or, at a rate, by mean latency."""
    plain = replace(
        row, method="ngram", k="1", tree_or_chain="", draft_model="", acceptance_alpha=None, acceptance_length=1.0
    )
    slow, quick = (_plain_s(replace(plain, target_dtype=weights)) for weights in ("bf16", row.target_dtype))
    return slow / quick


def _plain_s(row: Row) -> float:
    setup = setups_of(row).variants[0]
    service = service_of(setup.key)
    if setup.load == "rate":
        return _mean_latency_s(service.off, setup)
    batch = min(max(1, round(setup.load_value)), service.off.costs.max_sequences)
    context = setup.input_tokens + setup.output_tokens // 2
    return round_cost(service.off.costs, batch=batch, context_tokens=context, draft_tokens=0).plain_s


def _mean_latency_s(arm: Arm, setup: Setup) -> float:
    requests = make_workload(
        poisson_arrivals(RATE_REQUESTS, setup.load_value, Streams(0).get("arrivals", 0)),
        prompt_tokens=np.full(RATE_REQUESTS, setup.input_tokens),
        output_tokens=np.full(RATE_REQUESTS, setup.output_tokens),
    )
    return simulate_arm(arm, requests, seed=0).mean("latency")
