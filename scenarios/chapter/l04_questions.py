"""L4: the decision frame: latency- or throughput-bound, GPU idle or busy, acceptance at least a half."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.speculation import alpha_from_length
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.services import DENSE, MIXTURE, at_load, both_arms, service
from scenarios.report import words
from simulator.compare import paired_speedup

RATES_PER_S = {DENSE: (0.2, 1.0, 10.0, 30.0, 50.0), MIXTURE: (0.2, 1.0, 8.0, 64.0, 96.0)}
ALPHAS = (0.35, 0.5, 0.65)
IDLE_FRACTION, BUSY_FRACTION, ALPHA_FLOOR = 0.6, 0.85, 0.5
_HEADER = ("model", "load", "alpha", "GPU busy", "arithmetic used", "S(TPOT)", "pays", "utilisation says", "alpha says")


@dataclass(frozen=True, slots=True)
class _Case:
    preset: str
    rate_per_s: float
    alpha: float
    busy_fraction: float
    compute_fraction: float
    speedup: float

    @property
    def pays(self) -> bool:
        return self.speedup > 1.0

    @property
    def by_utilisation(self) -> bool | None:
        """The chapter's answer from the share of time in which the GPU is busy; None: it says to measure."""
        if self.busy_fraction < IDLE_FRACTION:
            return True
        return False if self.busy_fraction > BUSY_FRACTION else None

    @property
    def by_alpha(self) -> bool:
        return self.alpha >= ALPHA_FLOOR


def three_questions(seed: int, *, requests: int = 300) -> Row:
    """Each question answered by simulation over loads and acceptances, and the thresholds held against it."""
    cases = [
        _case(preset, rate_per_s, alpha, seed=seed, requests=requests)
        for preset, rates in RATES_PER_S.items()
        for rate_per_s in rates
        for alpha in ALPHAS
    ]
    return Row(
        id="L4",
        title="Three questions before switching it on",
        says="latency- or throughput-bound? GPU idle (utilisation below 60 %) or busy (above 85 %)? measured "
        "acceptance at least 0.5?",
        command=f"specdec decide {DENSE} --loads 0.2,1,10,30,50 --alpha 0.5",
        claims=(_utilisation(cases), _acceptance(cases), _break_even(seed), _bound_by_latency(cases)),
        tables=(Table("The thresholds against the simulation", _HEADER, tuple(_line(case) for case in cases)),),
        note="Utilisation as a monitor shows it is the share of time in which some kernel runs. One request at a time "
        "keeps that high while the arithmetic is all but idle: the threshold refuses where speculation gains most. The "
        "acceptance that pays is a break-even of the load, not a half.",
    )


def _case(preset: str, rate_per_s: float, alpha: float, *, seed: int, requests: int) -> _Case:
    made = service(preset, seed, workload={"requests": requests}, acceptance={"alpha": alpha})
    off, on = both_arms(made, "rate", rate_per_s)
    return _Case(
        preset=preset,
        rate_per_s=rate_per_s,
        alpha=alpha,
        busy_fraction=off.busy_fraction,
        compute_fraction=off.compute_utilisation_fraction,
        speedup=paired_speedup([off], [on]).estimate,
    )


def _utilisation(cases: list[_Case]) -> Claim:
    answered = [case for case in cases if case.by_utilisation is not None]
    right = [case for case in answered if case.by_utilisation == case.pays]
    return Claim(
        "below 60 % busy it pays, above 85 % it does not",
        0.9,
        None,
        found=(Quantity("share of cases answered rightly", len(right) / len(answered), "assumed"),),
        beside=(Quantity("cases it answers, of " + str(len(cases)), len(answered), "assumed"),),
    )


def _acceptance(cases: list[_Case]) -> Claim:
    right = [case for case in cases if case.by_alpha == case.pays]
    return Claim(
        "it pays from an acceptance of 0.5 on",
        0.9,
        None,
        found=(Quantity("share of cases answered rightly", len(right) / len(cases), "assumed"),),
    )


def _break_even(seed: int) -> Claim:
    """The acceptance at which both arms are equally fast, by simulation."""
    found: list[Quantity] = []
    for preset, rates in RATES_PER_S.items():
        made = service(preset, seed, workload={"requests": 300}, run={"seeds": 1})
        for rate_per_s in (rates[1], rates[-2]):
            outcome = at_load(made, "rate", rate_per_s)
            alpha = float("nan")
            if outcome.break_even.kind == "at":
                alpha = float(alpha_from_length(outcome.break_even.length, made.draft_tokens))
            name = f"{made.target.name.split('/')[-1]} at {outcome.point.text}, K = {made.draft_tokens}"
            found.append(Quantity(f"break-even alpha, {name}", alpha, made.deployment.calibration.label))
    return Claim("the break-even acceptance is 0.5", 0.5, 0.5, tolerance_fraction=0.2, found=tuple(found))


def _bound_by_latency(cases: list[_Case]) -> Claim:
    """The lightest load of each model against its heaviest, at the largest acceptance."""
    best = [case for case in cases if case.alpha == max(ALPHAS)]
    gains: list[Quantity] = []
    for preset in RATES_PER_S:
        by_load = [case.speedup for case in best if case.preset == preset]
        gains.append(
            Quantity(f"{preset}: S at the lightest load over S at the heaviest", by_load[0] / by_load[-1], "assumed")
        )
    return Claim("a latency-bound service gains more than a throughput-bound one", 1.0, None, found=tuple(gains))


def _line(case: _Case) -> tuple[str, ...]:
    says = {True: "on", False: "off", None: "measure"}
    return (
        case.preset.split("_")[0],
        f"{case.rate_per_s:g} req/s",
        f"{case.alpha:g}",
        words.share_text(case.busy_fraction),
        words.share_text(case.compute_fraction),
        f"{case.speedup:.2f}",
        "yes" if case.pays else "no",
        says[case.by_utilisation],
        says[case.by_alpha],
    )
