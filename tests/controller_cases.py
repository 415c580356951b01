"""Deployments and loads by seed, for the comparison of controllers: costs with a ridge, a draft that is not free."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from roofline.step_table import StepCostTable
from simulator.acceptance import IidAcceptance
from simulator.limits import EngineLimits
from simulator.plan import Speculation
from simulator.proposers import HeadProposer
from simulator.replica import simulate
from simulator.result import Result
from simulator.workload import Workload
from tests.strategies import affine_costs, limits, workload

MAX_DRAFT_TOKENS = 6
CONCURRENCIES = (1, 8, 64)


@dataclass(frozen=True)
class ControllerCase:
    """One deployment with an acceptance; `run` serves a load with a policy."""

    costs: StepCostTable
    acceptance: IidAcceptance
    prompts: np.ndarray
    outputs: np.ndarray
    limits: EngineLimits

    def load(self, concurrency: int) -> Workload:
        """A closed loop."""
        count = max(24, 6 * concurrency)
        return workload(np.zeros(count), self.prompts[:count], self.outputs[:count], concurrency=concurrency)

    def run(self, load: Workload, policy) -> Result:
        speculation = Speculation(HeadProposer(), policy, (self.acceptance,))
        return simulate(load, costs=self.costs, limits=self.limits, speculation=speculation, seed=1)


def controller_case(seed: int) -> ControllerCase:
    """Seed 0..19: step time joins a memory floor and arithmetic beyond a ridge of 30 to 400 tokens."""
    rng = np.random.default_rng(seed)
    floor_s = rng.uniform(0.005, 0.03)
    ridge_tokens = np.exp(rng.uniform(np.log(30), np.log(400)))
    joint = rng.uniform(2.0, 6.0)
    tokens = np.arange(4097)
    table = affine_costs(
        step_s=rng.uniform(0.0, 0.002),
        kv_s_per_token=rng.uniform(0.0, 2e-7),
        round_extra_s=rng.uniform(0.0, 0.002),
        draft_pass_s=floor_s * rng.uniform(0.02, 0.15),
        idle_speculation_s=rng.uniform(0.0, 0.0005),
        max_draft_tokens=MAX_DRAFT_TOKENS,
    )
    trunk_s = np.where(tokens > 0, floor_s * (1.0 + (tokens / ridge_tokens) ** joint) ** (1.0 / joint), 0.0)
    return ControllerCase(
        costs=dataclasses.replace(table, target=dataclasses.replace(table.target, trunk_s=trunk_s)),
        acceptance=IidAcceptance(float(rng.uniform(0.45, 0.9))),
        prompts=rng.integers(20, 400, 400),
        outputs=rng.integers(60, 300, 400),
        limits=limits(max_batched_tokens=2048, max_sequences=64),
    )
