"""Timing both loops: with a clock that only forward passes move, prediction and measurement must agree."""

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.lab.cells import ProposerAsked, proposer_factory  # noqa: E402 # needs torch
from calibrate.lab.loading import load_folder  # noqa: E402
from calibrate.lab.plans import LoopPlan  # noqa: E402
from calibrate.lab.speed import SpeedCell, measure_speed  # noqa: E402
from tests.calibrate.lab.folders import LLAMA, write_folder  # noqa: E402

PASS_S, ROW_S = 0.020, 0.005
PLAIN_S, VERIFY_S = PASS_S + ROW_S, PASS_S + 4 * ROW_S


@dataclass
class Clock:
    """Seconds that passes of the target take; it stands still otherwise."""

    now_s: float = 0.0
    growth: float = 1.0
    """Every pass takes so many times the one before: a machine that gets slower meanwhile."""
    slowness: float = 1.0

    def __call__(self) -> float:
        return self.now_s

    def spend(self, seconds: float) -> None:
        self.now_s += seconds * self.slowness
        self.slowness *= self.growth


class Ticking:
    """A target whose passes move a clock."""

    def __init__(self, target, clock: Clock) -> None:
        self._target, self._clock = target, clock

    def __getattr__(self, name: str):
        return getattr(self._target, name)

    def forward(self, tokens, positions, **words):
        self._clock.spend(PASS_S + ROW_S * tokens.shape[1])
        return self._target.forward(tokens, positions, **words)


@pytest.fixture
def timed(tmp_path):
    def run(temperature: float, *, acceptance_length: float = 1.5, growth: float = 1.0) -> SpeedCell:
        clock = Clock(growth=growth)
        target = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32").model
        # The draft is not ticking: drafts cost nothing here.
        factory = proposer_factory(target, ProposerAsked("layer-skip", kept_layers=(0, 2)), temperature=temperature)
        return measure_speed(
            Ticking(target, clock),
            factory,
            prompts=torch.randint(0, 256, (4, 16), generator=torch.Generator().manual_seed(1)).tolist(),
            plan=LoopPlan(draft_tokens=3, answer_tokens=40, temperature=temperature),
            acceptance_length=acceptance_length,
            clock=clock,
        )

    return run


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_a_step_costs_the_same_on_every_text_only_acceptance_can_be_wrong(timed, temperature):
    cell = timed(temperature)
    assert cell.plain_s == pytest.approx(PLAIN_S)
    assert cell.round_s == pytest.approx(VERIFY_S)
    assert cell.measured_speedup == pytest.approx(cell.timed_acceptance_length * PLAIN_S / VERIFY_S)
    assert cell.error == pytest.approx(cell.acceptance_length / cell.timed_acceptance_length - 1.0)
    assert cell.measured_low <= cell.measured_speedup <= cell.measured_high
    assert timed(temperature, acceptance_length=cell.timed_acceptance_length).error == pytest.approx(0.0, abs=1e-9)


def test_a_machine_that_slows_down_meanwhile_hardly_matters(timed):
    steady, slowing = timed(1.0), timed(1.0, growth=1.001)
    assert slowing.plain_s > 1.1 * PLAIN_S
    assert slowing.round_cost == pytest.approx(VERIFY_S / PLAIN_S, rel=0.02)
    assert slowing.measured_speedup == pytest.approx(steady.measured_speedup, rel=0.02)
