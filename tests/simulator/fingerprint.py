"""Prints one hash over the outcome of several small simulations: equal hashes, equal bytes.

Run with and without the JIT by `test_laws_of_identity.py`.
"""

import dataclasses
import hashlib
import sys

import numpy as np

from roofline.catalog import engine, gpu
from roofline.cost import Deployment, TableSize, step_cost_table
from roofline.efficiency import catalogue_calibration
from roofline.hf_config import load_model
from simulator.acceptance import LengthAcceptance
from simulator.limits import EngineLimits
from simulator.policy import DraftByBatch, FixedDraft
from simulator.proposers import DraftModelProposer, HeadProposer, NgramProposer, NoProposer
from simulator.replica import Speculation, simulate
from simulator.result import Result
from simulator.rng import Streams
from simulator.workload import gamma_arrivals, lognormal_lengths, make_workload


def digest(result: Result) -> str:
    """Hash of every array and number of a result, its steps included."""
    found = hashlib.sha256()

    def add(value: object) -> None:
        if dataclasses.is_dataclass(value):
            for each in dataclasses.fields(value):
                add(getattr(value, each.name))
        elif isinstance(value, np.ndarray):
            found.update(str(value.dtype).encode() + value.tobytes())
        else:
            found.update(repr(value).encode())

    add(result)
    return found.hexdigest()


def results():
    """Every proposer, cache pressure, chunked prefill, open and closed loop, on a catalogue deployment."""
    target = load_model("meta-llama/Llama-3.1-8B-Instruct")
    eagle = load_model("SafeAILab/EAGLE3-LLaMA3.1-8B", role="head", method="eagle3", target=target)
    small = load_model("meta-llama/Llama-3.2-1B-Instruct", role="draft_model")
    machine = gpu("H100-SXM")
    vllm = engine("vllm")
    deployment = Deployment(
        gpu=machine,
        calibration=catalogue_calibration(machine, vllm),
        graph_tokens=vllm.graph_tokens(machine, max_sequences=16, draft_tokens=4),
    )
    acceptance = (LengthAcceptance(2.5, 3),)
    arms = [
        (None, Speculation(NoProposer(), FixedDraft(0))),
        (eagle, Speculation(HeadProposer(), FixedDraft(3), acceptance)),
        (small, Speculation(DraftModelProposer(), DraftByBatch(((1, 4, 4), (5, 9, 2), (10, 16, 0))), acceptance)),
        (None, Speculation(NgramProposer(0.6), FixedDraft(4), acceptance)),
    ]
    streams = Streams(7)
    for draft, speculation in arms:
        costs = step_cost_table(
            target,
            deployment,
            size=TableSize(max_tokens=512, max_sequences=16, max_draft_tokens=4),
            draft=draft,
            work=speculation.proposer.work,
        )
        for concurrency in (None, 6):
            load = make_workload(
                gamma_arrivals(60, 30.0, streams.get("arrivals"), burstiness=0.5),
                prompt_tokens=lognormal_lengths(60, 200, streams.get("prompt"), sigma=0.8, max_tokens=900),
                output_tokens=lognormal_lengths(60, 25, streams.get("output"), sigma=0.6, max_tokens=80),
                prefix_hit_fraction=0.2,
                concurrency=concurrency,
            )
            limits = EngineLimits(
                max_batched_tokens=512,
                max_sequences=16,
                kv_blocks=120,
                lookahead_tokens=speculation.proposer.lookahead_tokens(4),
                draft_window_tokens=700,
                alternate_prefill=concurrency is not None and draft is small,
            )
            yield simulate(load, costs=costs, limits=limits, speculation=speculation, seed=3, trace_steps=True)


if __name__ == "__main__":
    sys.stdout.write(" ".join(digest(result) for result in results()) + "\n")
