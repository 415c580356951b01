"""The answer: a row per deployment and mode, ranked, and what was found about the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scenarios.plan.question import Choice, Mode, PlanOptions
from scenarios.questions.assumptions import Assumption
from scenarios.schema import Scenario

Status = Literal["MEETS", "INFEASIBLE", "SATURATED", "TOO MANY GPUS", "CANNOT SAY"]


@dataclass(frozen=True, slots=True)
class Reached:
    """Attainment of one objective: the share of requests that meet it, with half the width of its 95 % interval."""

    objective: str
    wanted_fraction: float
    fraction: float
    half_width_fraction: float

    @property
    def holds(self) -> bool:
        """The estimate is where it should be."""
        return self.fraction >= self.wanted_fraction

    @property
    def surely_met(self) -> bool:
        """The whole interval is where it should be."""
        return self.fraction - self.half_width_fraction >= self.wanted_fraction

    @property
    def surely_missed(self) -> bool:
        """No part of it is."""
        return self.fraction + self.half_width_fraction < self.wanted_fraction


@dataclass(frozen=True, slots=True)
class CountTried:
    """A number of replicas that was simulated; times are (p50, p95, p99) over requests, the rest means of seeds.

    `decided`: the interval allowed the decision. Else the estimates decided after the last seed; of the first
    rows, such a count does not meet.
    """

    replicas: int
    seeds: int
    reached: tuple[Reached, ...]
    meets: bool
    decided: bool
    saturated: bool
    ttft_s: tuple[float, float, float]
    tpot_s: tuple[float, float, float]
    throughput_tokens_per_s: float
    mean_batch: float
    outstanding: float
    acceptance_length: float

    @property
    def user_tokens_per_s(self) -> float:
        """Tokens per second as the median user sees them."""
        return 1.0 / self.tpot_s[0] if self.tpot_s[0] > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class Floor:
    """What an objective finds where every request has a replica of its own; `value_s` at the objective's quantile."""

    objective: str
    limit_s: float
    value_s: float
    wanted_fraction: float
    fraction: float


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One deployment in one mode. `count` is None where no number of replicas was chosen; `reason` says why.

    `one_fewer`: the next smaller count, which misses, or is not known to meet. `bound_replicas`: of a perfect system,
    see `scenarios.plan.bound`. `tried`: all counts that were simulated, rising.
    """

    choice: Choice
    mode: Mode
    status: Status
    reason: str
    draft_tokens: int
    count: CountTried | None
    one_fewer: CountTried | None
    bound_replicas: float
    floors: tuple[Floor, ...]
    tried: tuple[CountTried, ...]

    @property
    def replicas(self) -> int | None:
        """Replicas needed at the peak of the load."""
        return self.count.replicas if self.count is not None else None

    @property
    def gpus(self) -> int | None:
        """GPUs needed at the peak of the load."""
        return self.count.replicas * self.choice.gpus_per_replica if self.count is not None else None

    def gpu_tokens_per_s(self, count: CountTried) -> float:
        """Output tokens per second and GPU."""
        return count.throughput_tokens_per_s / (count.replicas * self.choice.gpus_per_replica)


@dataclass(frozen=True, slots=True)
class LoadMarks:
    """Loads of one replica in requests per second, each its own number (docs/plan.md).

    `knee`: throughput over latency is largest. `peak`: most requests per second inside every objective. `saturation`:
    from here on the backlog grows; None where it did not at `highest`, the largest load tried.
    """

    knee_per_s: float
    peak_per_s: float
    saturation_per_s: float | None
    highest_per_s: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """The same load under an autoscaler with the largest target that still meets every objective."""

    target_outstanding: float
    mean_replicas: float
    peak_replicas: int
    reached: tuple[Reached, ...]
    meets: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """Money for a million output tokens.

    `usage`: paid GPU hours at the usage-based price, of the autoscaled cluster where there is one. `reserved`: the
    peak count all the time at the reserved price. `spare`: with one replica more (N + 1).
    """

    usage_per_million_tokens: float | None
    reserved_per_million_tokens: float | None
    usage_spare_per_million_tokens: float | None
    reserved_spare_per_million_tokens: float | None


@dataclass(frozen=True, slots=True)
class Best:
    """More about the best row: how much more load it carries, its marks, its cost, its autoscaled mean."""

    row: PlanRow
    headroom_fraction: float
    headroom_is_bound: bool
    marks: LoadMarks
    scaled: Scaled | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows from the best to the infeasible, what was asked, and what it rests on."""

    scenario: Scenario
    options: PlanOptions
    load_per_s: float
    requests: int
    rows: tuple[PlanRow, ...]
    costs: tuple[Cost, ...]
    best: Best | None
    assumptions: tuple[Assumption, ...]
    version: str

    def report(self) -> str:
        """What the command prints."""
        from scenarios.report.plan_text import plan_text

        return plan_text(self)

    @property
    def pareto(self) -> tuple[int, ...]:
        """Places of the rows that no other beats in both tokens/s/GPU and tokens/s/user."""
        points = [
            (index, row.gpu_tokens_per_s(row.count), row.count.user_tokens_per_s)
            for index, row in enumerate(self.rows)
            if row.count is not None
        ]
        return tuple(
            index
            for index, gpu, user in points
            if not any((g >= gpu and u >= user) and (g > gpu or u > user) for _, g, u in points)
        )
