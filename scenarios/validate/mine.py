"""A user's own pair of runs, plain and speculative, as one row of the table of speed-ups: predicted like any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from roofline.errors import InvalidInput
from scenarios.validate.rows import Number, Row

SAME_LOAD_FRACTION = 0.05
"""Two runs whose loads or lengths differ by more are not of one load."""


class AcceptedLike(Protocol):
    """What was accepted: K and AL, bonus included."""

    @property
    def draft_tokens(self) -> int | None:
        """K."""
        ...

    @property
    def acceptance_length(self) -> float | None:
        """AL, bonus included."""
        ...


class RunLike(Protocol):
    """What is needed of an imported run; `times["tpot"]["mean"]` in seconds where it is known."""

    @property
    def source(self) -> str:
        """File it was read from."""
        ...

    @property
    def rate_per_s(self) -> float | None:
        """Requests per second."""
        ...

    @property
    def concurrency(self) -> int | None:
        """Requests in flight."""
        ...

    @property
    def input_tokens_mean(self) -> float | None:
        """Mean prompt."""
        ...

    @property
    def output_tokens_mean(self) -> float | None:
        """Mean answer."""
        ...

    @property
    def output_tokens_per_s(self) -> float | None:
        """Output tokens per second."""
        ...

    @property
    def accepted(self) -> AcceptedLike | None:
        """What was accepted; None: not told."""
        ...

    @property
    def times(self) -> Mapping[str, Mapping[str, float]]:
        """Statistics in seconds, by metric and name."""
        ...


@dataclass(frozen=True, slots=True)
class OwnSetup:
    """What benchmark files do not say about the deployment, in the words of published tables or of the catalogue."""

    hardware: str
    engine: str
    target_model: str
    method: str
    gpus: int = 1
    target_dtype: str = ""
    draft_model: str = ""


def own_row(plain: RunLike, speculating: RunLike, setup: OwnSetup) -> Row:
    """The row of a pair of runs at one load; `scenarios.validate.predict.predicted` predicts it.

    S is plain over speculative mean TPOT, or speculative over plain tokens/s where a run does not tell its TPOT.

    Raises
    ------
    InvalidInput
        The runs are of different loads, or do not tell load, acceptance or speed.
    """
    load_type, load_value = _load(plain, speculating)
    metric, before, after, speedup = _speed(plain, speculating)
    length, draft_tokens = _acceptance(speculating)
    return Row(
        id=speculating.source,
        source_id="mine",
        source=f"{plain.source} and {speculating.source}",
        url_or_ref="",
        hardware=setup.hardware,
        gpus=setup.gpus,
        tensor_parallel=setup.gpus,
        engine=setup.engine,
        target_model=setup.target_model,
        target_dtype=setup.target_dtype,
        target_params_b=None,
        method=setup.method,
        draft_model=setup.draft_model,
        draft_params_b=None,
        k=str(draft_tokens),
        tree_or_chain="chain",
        dataset="",
        temperature=None,
        load_type=load_type,
        load_value=load_value,
        input_tokens=_mean(plain.input_tokens_mean, speculating.input_tokens_mean),
        output_tokens=_mean(plain.output_tokens_mean, speculating.output_tokens_mean),
        acceptance_alpha=None,
        acceptance_length=length,
        tau_convention="incl. bonus",
        metric=metric,
        baseline_value=before,
        value=after,
        speedup=speedup,
        simulable="full",
        notes="",
    )


def _acceptance(run: RunLike) -> tuple[float, int]:
    """AL and K."""
    accepted = run.accepted
    if accepted is None or accepted.acceptance_length is None or accepted.draft_tokens is None:
        raise InvalidInput(
            f"{run.source}: tells no acceptance length and K; give the run with the engine's counters (metrics or log) "
            "beside it"
        )
    return accepted.acceptance_length, accepted.draft_tokens


def _load(plain: RunLike, speculating: RunLike) -> tuple[str, float]:
    for kind, one, other in (
        ("concurrency", plain.concurrency, speculating.concurrency),
        ("qps", plain.rate_per_s, speculating.rate_per_s),
    ):
        if one is None or other is None:
            continue
        if abs(one - other) > SAME_LOAD_FRACTION * max(one, other):
            raise InvalidInput(
                f"{plain.source} and {speculating.source}: {kind} must be the same in both runs, got {one:g} and "
                f"{other:g}; compare runs of one load"
            )
        return kind, float(other)
    raise InvalidInput(
        f"{plain.source} and {speculating.source}: neither concurrency nor request rate is told by both; give runs "
        "that say their load"
    )


def _speed(plain: RunLike, speculating: RunLike) -> tuple[str, float, float, float]:
    """Metric, its two values, S."""
    tpots = [run.times.get("tpot", {}).get("mean") for run in (plain, speculating)]
    if tpots[0] and tpots[1]:
        return "tpot_s", tpots[0], tpots[1], tpots[0] / tpots[1]
    rates = (plain.output_tokens_per_s, speculating.output_tokens_per_s)
    if rates[0] and rates[1]:
        return "output_tokens_per_s", rates[0], rates[1], rates[1] / rates[0]
    raise InvalidInput(
        f"{plain.source} and {speculating.source}: neither mean TPOT nor tokens per second is told by both; give runs "
        "with one of them"
    )


def _mean(one: float | None, other: float | None) -> Number | None:
    known = [value for value in (one, other) if value]
    if not known:
        return None
    return Number(sum(known) / len(known), min(known), max(known))
