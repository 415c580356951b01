"""L3: speculation buys latency, not throughput; where the gain ends, for a dense model and a mixture of experts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roofline.speculation import crossover_batches
from scenarios.build import Service
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, MIXTURE, at_load, label_of, round_at, service
from scenarios.questions.break_even import speculating_arm
from scenarios.questions.load_run import CaseAtLoad, LoadOutcome
from scenarios.report import words

RATES_PER_S = {DENSE: (1.0, 5.0, 20.0, 30.0, 40.0, 50.0), MIXTURE: (1.0, 8.0, 32.0, 64.0, 80.0, 96.0)}
_NAMES = {DENSE: "8B dense", MIXTURE: "30B-A3B mixture"}
_HEADER = ("model", "load", "batch off", "batch on", "TPOT off ms", "TPOT on ms", "S(TPOT)", "S(throughput)", "answer")


@dataclass(frozen=True, slots=True)
class _Sweep:
    name: str
    made: Service
    loads: tuple[LoadOutcome, ...]

    def case(self, index: int) -> CaseAtLoad:
        found = self.loads[index].middle
        assert found is not None, "the presets give an acceptance"
        return found

    def quantity(self, what: str, value: float) -> Quantity:
        return Quantity(f"{self.name}: {what}", value, label_of(self.made))


def load(seed: int, *, requests: int = 800) -> Row:
    """Both arms over loads up to saturation, and the batch at which a round costs as much as it yields."""
    sweeps = [_sweep(preset, seed, requests) for preset in RATES_PER_S]
    return Row(
        id="L3",
        title="It buys latency, not throughput",
        says="at low load idle compute is traded for fewer serial weight reads (2-4x); at medium load measure; at "
        "saturation it may lose",
        command=f"specdec decide {MIXTURE} --loads 1,8,32,64,80,96",
        claims=(_at_low_load(sweeps), _throughput_below_saturation(sweeps), _at_saturation(sweeps), _crossover(sweeps)),
        tables=(Table("Speed-up against load", _HEADER, tuple(row for sweep in sweeps for row in _rows(sweep))),),
        note="Under an open load below saturation both arms carry the same requests, so throughput cannot differ; what "
        "differs is capacity. A mixture of experts gains least at batch 2 to 8, where every draft touches new experts, "
        "and most in the middle.",
    )


def _sweep(preset: str, seed: int, requests: int) -> _Sweep:
    made = service(preset, seed, workload={"requests": requests}, run={"seeds": 2})
    return _Sweep(_NAMES[preset], made, tuple(at_load(made, "rate", rate) for rate in RATES_PER_S[preset]))


def _at_low_load(sweeps: list[_Sweep]) -> Claim:
    return Claim(
        "2 to 4 times as fast at low load",
        2.0,
        4.0,
        tolerance_fraction=0.05,
        found=tuple(sweep.quantity("S(TPOT) at 1 req/s", sweep.case(0).tpot_speedup.estimate) for sweep in sweeps),
        published=(published("eagle3_8b_batch_2"), published("dspark_k3_concurrency_1")),
    )


def _throughput_below_saturation(sweeps: list[_Sweep]) -> Claim:
    return Claim(
        "no throughput is gained below saturation",
        1.0,
        1.0,
        tolerance_fraction=0.03,
        found=tuple(
            sweep.quantity(f"S(throughput) at {item.point.text}", sweep.case(index).throughput_speedup.estimate)
            for sweep in sweeps
            for index, item in enumerate(sweep.loads[:3])
        ),
    )


def _at_saturation(sweeps: list[_Sweep]) -> Claim:
    return Claim(
        "throughput is lost at saturation",
        None,
        0.99,
        found=tuple(
            sweep.quantity(f"S(throughput) at {sweep.loads[-1].point.text}", sweep.case(-1).throughput_speedup.estimate)
            for sweep in sweeps
        ),
        published=(published("eagle3_8b_batch_64"), published("eagle_8b_batch_48"), published("tree60_batch_32")),
        beside=(published("sweeps_that_never_cross"),),
    )


def _crossover(sweeps: list[_Sweep]) -> Claim:
    """Where AL / R passes 1 downwards for good, from the cost table."""
    return Claim(
        "the gain ends at some batch the engine can run",
        1.0,
        1024.0,
        found=tuple(sweep.quantity("batch at which S falls to 1", _last_crossing(sweep.made)) for sweep in sweeps),
        published=(published("eagle_8b_crossover"), published("tree60_crossover")),
    )


def _last_crossing(made: Service) -> float:
    """NaN: S stays on one side of 1 up to the engine's largest batch."""
    arm, k = speculating_arm(made), made.draft_tokens
    largest = min(arm.costs.max_sequences, arm.costs.max_tokens // (k + 1))
    batches = np.unique(np.geomspace(1, largest, 80).round().astype(int))
    gains = [made.cases[0].length(k) / round_at(arm, int(batch), draft_tokens=k).ratio for batch in batches]
    crossings = crossover_batches(batches, gains)
    return crossings[-1] if crossings and gains[-1] < 1 else float("nan")


def _rows(sweep: _Sweep) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in sweep.loads:
        case = item.middle
        assert case is not None, "the presets give an acceptance"
        rows.append(
            (
                sweep.name,
                item.point.text,
                words.number(item.off.mean_batch),
                words.number(case.on.mean_batch),
                words.time_text(item.off.tpot_s[0]),
                words.time_text(case.on.tpot_s[0]),
                f"{case.tpot_speedup.estimate:.2f}",
                f"{case.throughput_speedup.estimate:.2f}",
                case.word,
            )
        )
    return rows
