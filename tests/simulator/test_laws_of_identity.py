"""The same question has the same answer, bit for bit: twice, with the JIT off, with any number of workers."""

import os
import subprocess
import sys

import numpy as np

from scenarios.build import build_service
from scenarios.files import scenario_from_dict
from scenarios.questions.decide import decide_service
from simulator.acceptance import IidAcceptance
from simulator.replica import Replica
from simulator.step_loop import advance, advance_plainly
from tests.simulator.fingerprint import digest, results
from tests.source_tree import ROOT
from tests.strategies import affine_costs, head, limits, workload


def _fingerprint(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.simulator.fingerprint"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_results_are_identical_with_the_jit_off():
    compiled = [digest(result) for result in results()]
    assert len(set(compiled)) == len(compiled) == 8
    assert _fingerprint(NUMBA_DISABLE_JIT="1") == compiled


def test_the_smaller_compiled_loop_takes_the_same_steps_as_the_general_one():
    def run(loop):
        replica = Replica(
            workload(np.arange(40) * 0.3, 30, 25),
            costs=affine_costs(step_s=0.1, per_token_s=1e-3, draft_pass_s=0.01, round_extra_s=0.02),
            limits=limits(max_batched_tokens=64, max_sequences=6, kv_blocks=14),
            speculation=head(3, IidAcceptance(0.6)),
            seed=2,
            trace_steps=True,
        )
        assert replica._advance is advance_plainly
        replica._advance = loop
        assert replica.advance(float("inf"))
        return replica.result()

    general, plain = run(advance), run(advance_plainly)
    assert general.preemptions.sum() > 0
    assert digest(general) == digest(plain)


COUNT_SIGNATURES = """
from simulator import control, pricing, scheduler, step_loop
from tests.simulator.fingerprint import results

list(results())
parts = [part for module in (control, pricing, scheduler, step_loop) for part in vars(module).values()]
compiled = {part.__name__: len(part.signatures) for part in parts if hasattr(part, "signatures")}
assert len(compiled) > 10, compiled
print([name for name, count in compiled.items() if count > 1])
"""


def test_every_part_of_the_loop_is_compiled_for_one_set_of_types():
    # In a process of its own: other tests call parts with types of their own.
    done = subprocess.run(
        [sys.executable, "-c", COUNT_SIGNATURES], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]"]


def test_results_are_identical_when_asked_twice():
    assert [digest(result) for result in results()] == [digest(result) for result in results()]


def test_the_fingerprint_covers_preemption_chunks_and_truncated_drafts():
    found = list(results())
    assert sum(int(result.preemptions.sum()) for result in found) > 0
    assert any(np.any(result.steps.new_tokens == 512) for result in found)
    assert any(np.any((result.steps.decoding > 0) & (result.steps.prefilling > 0)) for result in found)


SCENARIO = {
    "schema_version": 1,
    "name": "workers",
    "target": {"model": "meta-llama/Llama-3.1-8B-Instruct"},
    "hardware": {"gpu": "H100-SXM"},
    "speculation": {"method": "eagle3", "draft": "SafeAILab/EAGLE3-LLaMA3.1-8B", "draft_tokens": 3},
    "acceptance": {"length": "2.5@3"},
    "workload": {
        "kind": "poisson",
        "rate_per_s": 10.0,
        "requests": 150,
        "input_tokens": {"mean_tokens": 300, "sigma": 0.5, "max_tokens": 2000},
        "output_tokens": {"mean_tokens": 60, "sigma": 0.5, "max_tokens": 500},
    },
}


def test_the_number_of_workers_changes_no_byte():
    service = build_service(scenario_from_dict(SCENARIO))
    alone, together = (decide_service(service, workers=workers) for workers in (1, 2))
    assert repr(alone) == repr(together)
    assert alone.loads
