"""L16: goodput: the share of requests inside the objectives is the figure that counts."""

from __future__ import annotations

from dataclasses import dataclass

from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.services import DENSE, at_load, service
from scenarios.questions.load_run import CaseAtLoad, LoadOutcome
from scenarios.report import words

SLO = ("tpot_p95=15ms", "ttft_p95=500ms")
RATES_PER_S = (10.0, 20.0, 25.0, 30.0, 40.0)
_HEADER = ("load", "arm", "tok/s", "goodput req/s", "goodput fraction", "TPOT p95 ms", "TTFT p95 ms")
_SERVED_FRACTION = 0.95


@dataclass(frozen=True, slots=True)
class _Load:
    outcome: LoadOutcome
    case: CaseAtLoad

    @property
    def throughput_ratio(self) -> float:
        return self.case.on.throughput_tokens_per_s / self.outcome.off.throughput_tokens_per_s

    @property
    def goodput_ratio(self) -> float:
        return self.case.on.goodput_requests_per_s / max(self.outcome.off.goodput_requests_per_s, 1e-9)


def goodput(seed: int, *, slo: tuple[str, ...] = SLO) -> Row:
    """Throughput and goodput of both arms over loads, and the load each can carry inside the objectives."""
    made = service(DENSE, seed, slo=slo, workload={"requests": 600}, run={"seeds": 2})
    loads: list[_Load] = []
    for rate_per_s in RATES_PER_S:
        outcome = at_load(made, "rate", rate_per_s)
        assert outcome.middle is not None, "the preset gives an acceptance"
        loads.append(_Load(outcome, outcome.middle))
    widest = max(loads, key=lambda load: load.goodput_ratio)
    off_per_s, on_per_s = (_carried(loads, arm) for arm in ("off", "on"))
    return Row(
        id="L16",
        title="Goodput",
        says="the share of requests inside the objectives is the figure that counts",
        command=f"specdec decide {DENSE} --loads 10,20,25,30,40 --slo tpot_p95=15ms --slo ttft_p95=500ms",
        claims=(
            _throughput_hides_it(widest),
            _goodput_shows_it(widest),
            _load_carried(off_per_s, on_per_s),
        ),
        tables=(
            Table(f"Objectives {', '.join(slo)}", _HEADER, tuple(line for load in loads for line in _lines(load))),
        ),
        note="No published row of the collection reports goodput. Above saturation speculation loses goodput first: "
        "its first tokens wait.",
    )


def _throughput_hides_it(widest: _Load) -> Claim:
    return Claim(
        "throughput does not show what users get: it barely differs where goodput does",
        1.0,
        1.0,
        tolerance_fraction=0.05,
        found=(
            Quantity(f"throughput, on over off, at {widest.outcome.point.text}", widest.throughput_ratio, "assumed"),
        ),
    )


def _goodput_shows_it(widest: _Load) -> Claim:
    return Claim(
        "goodput shows it",
        1.2,
        None,
        found=(Quantity(f"goodput, on over off, at {widest.outcome.point.text}", widest.goodput_ratio, "assumed"),),
    )


def _load_carried(off_per_s: float, on_per_s: float) -> Claim:
    return Claim(
        f"it decides how much load is carried with {_SERVED_FRACTION:.0%} inside",
        1.1,
        None,
        found=(Quantity("largest such load, on over off", on_per_s / off_per_s, "assumed"),),
        beside=(Quantity("off", off_per_s, "assumed", "req/s"), Quantity("on", on_per_s, "assumed", "req/s")),
    )


def _carried(loads: list[_Load], arm: str) -> float:
    """The largest simulated load at which nearly all requests are inside; the smallest load where none is."""
    sides = [(load.outcome.point.value, load.case.on if arm == "on" else load.outcome.off) for load in loads]
    inside = [rate_per_s for rate_per_s, side in sides if side.goodput_fraction >= _SERVED_FRACTION]
    return max(inside, default=sides[0][0])


def _lines(load: _Load) -> list[tuple[str, ...]]:
    return [
        (
            load.outcome.point.text,
            name,
            words.number(arm.throughput_tokens_per_s),
            words.number(arm.goodput_requests_per_s),
            words.share_text(arm.goodput_fraction),
            words.time_text(arm.tpot_s[1]),
            words.time_text(arm.ttft_s[1]),
        )
        for name, arm in (("off", load.outcome.off), ("on", load.case.on))
    ]
