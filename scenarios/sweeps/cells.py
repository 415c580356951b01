"""One scenario under one seed: both arms on the same requests with the same luck, as one flat row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import numpy as np

from roofline.errors import DoesNotFit, InvalidInput, SpecdecError
from scenarios.acceptance import acceptance_cases
from scenarios.build import Service, build_service
from scenarios.files import scenario_from_dict
from scenarios.loads import LoadPoint, load_points, own_load, workload_at
from scenarios.questions.break_even import simulate_arm, speculating_arm
from scenarios.questions.domain import check_before, domain_findings
from scenarios.questions.load_run import decode_context_tokens, round_split, slos_of
from scenarios.schema import MATCHING_METHODS, Scenario
from scenarios.sweeps.keys import canonical, code_version, files_named
from simulator.compare import paired_speedup
from simulator.result import Metric, Result, Slo

Row = dict[str, Any]

ARM_COLUMNS = (
    "ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "tpot_p50_s", "tpot_p95_s", "tpot_p99_s", "latency_p50_s",
    "latency_p95_s", "throughput_tokens_per_s", "throughput_requests_per_s", "goodput_requests_per_s",
    "goodput_fraction", "mean_batch", "acceptance_length", "refused_fraction", "preemptions",
)  # fmt: skip
ARM_ANSWERS = ("saturated", "meets_slo")
PAIR_COLUMNS = ("tpot_speedup", "throughput_speedup", "round_verify", "round_draft", "round_host")
METRIC_COLUMNS = (*PAIR_COLUMNS, *(f"{arm}_{name}" for arm in ("off", "on") for name in ARM_COLUMNS))
ANSWER_COLUMNS = tuple(f"{arm}_{name}" for arm in ("off", "on") for name in ARM_ANSWERS)
KEPT_SERVICES = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive scenarios of a sweep with all their seeds: the unit of work, of writing and of resuming.

    `version` and `files` (digest by path) are what the results are to be made with.
    """

    index: int
    first: int
    tables: tuple[dict[str, Any], ...]
    seeds: int
    version: str
    files: Mapping[str, str]


def run_chunk(chunk: Chunk) -> list[Row]:
    """Rows by scenario, then seed.

    Raises
    ------
    InvalidInput
        This process runs other code, or sees other files, than the one that asked.
    """
    if code_version() != chunk.version:
        raise InvalidInput(
            f"a worker runs specdec-sim {code_version()} but the sweep is made by {chunk.version}; install the same "
            "version on every worker"
        )
    seen = files_named(list(chunk.files))
    missing = next((path for path, digest in chunk.files.items() if seen.get(path) != digest), None)
    if missing is not None:
        raise InvalidInput(f"a worker does not see {missing}, or sees another content; put the file on every worker")
    return [
        {"scenario": chunk.first + offset, **row}
        for offset, table in enumerate(chunk.tables)
        for row in scenario_rows(table, chunk.seeds)
    ]


def scenario_rows(table: Mapping[str, Any], seeds: int) -> list[Row]:
    """One row a seed; a scenario that cannot be answered keeps its rows, with the reason."""
    try:
        return _answered(table, seeds)
    except DoesNotFit as error:
        status, reason = "infeasible", str(error)
    except SpecdecError as error:
        status, reason = "refused", str(error)
    return [{"seed": seed, "status": status, "reason": reason} for seed in range(seeds)]


def _answered(table: Mapping[str, Any], seeds: int) -> list[Row]:
    scenario = scenario_from_dict(table)
    service = service_of(scenario, table)
    point = the_load(service)
    slos = slos_of(service)
    return [_cell(service, point, slos, seed) for seed in range(seeds)]


def service_of(scenario: Scenario, table: Mapping[str, Any]) -> Service:
    """The built service; scenarios that differ in load, acceptance or objectives alone share its cost tables."""
    left_out = ["name", "description", "loads", "slo", "run"]
    if scenario.speculation.method not in MATCHING_METHODS:
        left_out.append("acceptance")
    shared = {key: value for key, value in table.items() if key not in left_out}
    workload = cast("dict[str, Any]", shared["workload"])
    loads = ("rate_per_s", "concurrency", "requests", "burstiness", "swing", "prefix_hit_fraction")
    kind = "poisson" if workload.get("kind") == "gamma" else workload.get("kind")
    shared["workload"] = {**{key: value for key, value in workload.items() if key not in loads}, "kind": kind}
    run = cast("dict[str, Any]", table.get("run") or {})
    if "max_draft_tokens" in run:
        shared["run"] = {"max_draft_tokens": run["max_draft_tokens"]}
    service = _built(canonical(shared))
    return replace(service, scenario=scenario, cases=acceptance_cases(scenario, service.draft_tokens))


@lru_cache(maxsize=KEPT_SERVICES)
def _built(text: str) -> Service:
    return build_service(scenario_from_dict(json.loads(text)))


def the_load(service: Service) -> LoadPoint:
    """The one load a scenario of a sweep names.

    Raises
    ------
    InvalidInput
        It names several, or none.
    """
    scenario = service.scenario
    loads = scenario.loads
    named = len(loads.factors) + len(loads.rates_per_s) + len(loads.concurrencies)
    if named == 1:
        return load_points(scenario, service.trace)[0]
    own = own_load(scenario, service.trace)
    if named > 1 or own is None or not math.isfinite(own):
        raise InvalidInput(
            f"one load is needed here, the scenario names {named or 'none'}; give an axis like "
            "workload.rate_per_s=1,2,4, workload.concurrency=1,8,64 or loads.factors=[0.5],[1],[2]"
        )
    return LoadPoint(0, "concurrency" if scenario.workload.kind == "closed" else "rate", own)


def _cell(service: Service, point: LoadPoint, slos: tuple[Slo, ...], seed: int) -> Row:
    requests = workload_at(service.scenario, point, trace=service.trace, seed=seed)
    drafts = service.draft_tokens if service.on is not None and service.cases else None
    check_before(service, requests, draft_tokens=drafts)
    first_seed = service.scenario.run.seed
    off = simulate_arm(service.off, requests, seed=first_seed + seed)
    row: Row = {
        "seed": seed,
        "status": "answered",
        "load": point.value,
        "load_kind": point.kind,
        "label": service.deployment.calibration.label,
        **_arm("off", off, slos),
    }
    batch, reason = off.mean_batch, ""
    if drafts is not None:
        middle = service.middle_case
        arm = speculating_arm(service)
        on = simulate_arm(arm, requests, models=middle.models, seed=first_seed + seed)
        batch = max(batch, on.mean_batch)
        split = round_split(
            service, arm, batch=max(1, round(on.mean_batch)), context_tokens=decode_context_tokens(requests)
        )
        row |= _arm("on", on, slos)
        row |= {"round_verify": split.verify, "round_draft": split.draft, "round_host": split.host}
        for metric in ("tpot", "throughput"):
            row[f"{metric}_speedup"] = paired_speedup([off], [on], metric=metric).estimate
    elif service.on is not None:
        reason = "acceptance is not given: plain decoding alone was simulated"
    outside = domain_findings(service, requests, mean_batch=batch, draft_tokens=drafts)
    row["reason"] = "; ".join([*([reason] if reason else []), *(f"extrapolated: {text}" for text in outside)])
    return row


def _arm(name: str, result: Result, slos: tuple[Slo, ...]) -> Row:
    inside = result.goodput(slos)
    quantiles: tuple[tuple[Metric, tuple[float, ...]], ...] = (
        ("ttft", (0.5, 0.95, 0.99)),
        ("tpot", (0.5, 0.95, 0.99)),
        ("latency", (0.5, 0.95)),
    )
    found: Row = {}
    for metric, wanted in quantiles:
        values = result.metric_s(metric)
        values = values[~np.isnan(values)]
        reached = np.quantile(values, wanted) if len(values) else np.full(len(wanted), np.nan)
        found |= {f"{metric}_p{round(q * 100)}_s": float(value) for q, value in zip(wanted, reached, strict=True)}
    found |= {
        "throughput_tokens_per_s": result.throughput_tokens_per_s,
        "throughput_requests_per_s": result.throughput_requests_per_s,
        "goodput_requests_per_s": inside.requests_per_s,
        "goodput_fraction": inside.fraction,
        "mean_batch": result.mean_batch,
        "acceptance_length": result.acceptance_length,
        "refused_fraction": result.counts.refused / len(result.arrival_s),
        "preemptions": float(result.preemptions.sum()),
        "saturated": result.saturation.saturated,
        "meets_slo": result.meets(slos) if slos else None,
    }
    return {f"{name}_{key}": value for key, value in found.items()}
