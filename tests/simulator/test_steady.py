"""Plain steps taken together are the same bytes as steps taken one by one, which a trace asks for."""

import dataclasses

import numpy as np
import pytest

from simulator.acceptance import IidAcceptance
from simulator.policy import DraftByBatch
from simulator.proposers import HeadProposer
from simulator.replica import Speculation, simulate
from tests.simulator.fingerprint import digest
from tests.strategies import PLAIN, affine_costs, limits, workload

MIXED = Speculation(HeadProposer(), DraftByBatch(((1, 2, 2), (3, 64, 0))), (IidAcceptance(0.6),), switch_s=0.003)
_COSTS = affine_costs(step_s=0.01, per_token_s=1e-4, kv_s_per_token=1e-7, draft_pass_s=0.001, idle_speculation_s=1e-4)


@pytest.mark.parametrize("speculation", [PLAIN, MIXED], ids=["plain", "off above two"])
@pytest.mark.parametrize("kv_blocks", [40, 100_000], ids=["preempting", "roomy"])
@pytest.mark.parametrize("concurrency", [None, 7], ids=["open", "closed"])
def test_taking_steps_together_changes_no_byte(speculation, kv_blocks, concurrency):
    outputs = 1 + np.arange(150) * 37 % 190
    load = workload(np.arange(150) * 0.21, 1 + np.arange(150) * 53 % 400, outputs, concurrency=concurrency)
    asked = {"costs": _COSTS, "limits": limits(kv_blocks=kv_blocks, max_sequences=12), "speculation": speculation}
    together = simulate(load, **asked, seed=1)
    one_by_one = simulate(load, **asked, seed=1, trace_steps=True)
    assert (together.preemptions.sum() > 0) == (kv_blocks == 40)
    assert digest(together) == digest(dataclasses.replace(one_by_one, steps=None))
