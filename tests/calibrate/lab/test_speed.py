"""Timing both loops: with a clock that only steps move, prediction and measurement must agree."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

from calibrate.engine.loop import Engine  # noqa: E402 # needs torch
from calibrate.lab import speed  # noqa: E402
from calibrate.lab.cells import ProposerAsked, proposer_factory  # noqa: E402
from calibrate.lab.loading import load_folder  # noqa: E402
from calibrate.lab.measure import LoopPlan  # noqa: E402
from tests.calibrate.lab.folders import LLAMA, write_folder  # noqa: E402

PLAIN_S, ROUND_S = 0.030, 0.048


class StepClock:
    """Stands still but for plain steps and rounds, which are counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slowed: float = 1.0) -> None:
        self.now_s, self.slowed = 0.0, slowed
        self.order: list[str] = []
        monkeypatch.setattr(speed.time, "perf_counter", lambda: self.now_s)
        for name, cost_s in (("plain_step", PLAIN_S), ("speculative_round", ROUND_S)):
            monkeypatch.setattr(Engine, name, self._counted(getattr(Engine, name), name, cost_s))

    def _counted(self, step, name: str, cost_s: float):
        def counted(engine, *args, **words):
            # The machine gets slower all the time; taking turns is to keep that out of the ratio.
            self.now_s += cost_s * self.slowed ** len(self.order)
            self.order.append(name)
            return step(engine, *args, **words)

        return counted


@pytest.fixture
def timed(tmp_path, monkeypatch):
    def run(temperature: float, slowed: float = 1.0):
        torch.set_num_threads(1)
        target = load_folder(write_folder(tmp_path, LLAMA), dtype="fp32").model
        factory = proposer_factory(target, ProposerAsked("layer-skip", kept_layers=(0, 2)), temperature=temperature)
        plan = LoopPlan(draft_tokens=3, answer_tokens=40, temperature=temperature)
        prompts = torch.randint(0, 256, (3, 16), generator=torch.Generator().manual_seed(1)).tolist()
        clock = StepClock(monkeypatch, slowed)
        return speed.measure_speed(target, factory, prompts=prompts, plan=plan), clock

    return run


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_where_a_step_costs_the_same_on_every_text_the_prediction_is_exact(timed, temperature):
    cell, _ = timed(temperature)
    assert cell.plain_s == pytest.approx(PLAIN_S)
    assert cell.round_cost == pytest.approx(ROUND_S / PLAIN_S)
    assert 1.0 <= cell.acceptance_length <= 4.0
    assert cell.error == pytest.approx(0.0, abs=1e-9)


def test_a_machine_that_slows_down_meanwhile_hardly_matters(timed):
    cell, _ = timed(1.0, slowed=1.001)
    assert abs(cell.error) < 0.02
    assert cell.round_cost == pytest.approx(ROUND_S / PLAIN_S, rel=0.03)
