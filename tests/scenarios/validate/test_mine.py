"""A user's own pair of runs becomes a row, and what does not belong together is refused."""

from dataclasses import dataclass, field, replace

import pytest

from roofline.errors import InvalidInput
from scenarios.validate.mine import OwnSetup, own_row
from scenarios.validate.predict import predicted


@dataclass(frozen=True)
class Accepted:
    draft_tokens: int | None = 3
    acceptance_length: float | None = 2.4


@dataclass(frozen=True)
class Run:
    source: str = "plain.json"
    rate_per_s: float | None = None
    concurrency: int | None = 4
    input_tokens_mean: float | None = 300.0
    output_tokens_mean: float | None = 200.0
    output_tokens_per_s: float | None = 500.0
    accepted: Accepted | None = None
    times: dict[str, dict[str, float]] = field(default_factory=lambda: {"tpot": {"mean": 0.008}})


PLAIN = Run()
ON = Run(source="on.json", accepted=Accepted(), times={"tpot": {"mean": 0.005}}, output_tokens_per_s=900.0)
SETUP = OwnSetup("H100-SXM", "vLLM", "Llama-3.1-8B-Instruct", "eagle3")


def test_a_pair_of_runs_is_predicted_like_a_published_row():
    row = own_row(PLAIN, ON, SETUP)
    assert row.speedup == pytest.approx(1.6)
    assert (row.load_type, row.load_value, row.k, row.acceptance_length) == ("concurrency", 4.0, "3", 2.4)
    found = predicted(row)
    assert found.status == "computed"
    assert 1.0 < found.speedup < 2.4
    assert found.error == pytest.approx(found.speedup / 1.6 - 1.0)


def test_tokens_per_second_stand_in_for_a_time_per_token_nobody_told():
    row = own_row(replace(PLAIN, times={}), replace(ON, times={}), SETUP)
    assert (row.metric, row.speedup) == ("output_tokens_per_s", pytest.approx(1.8))


@pytest.mark.parametrize(
    ("plain", "on", "said"),
    [
        (replace(PLAIN, concurrency=8), ON, "must be the same in both runs, got 8 and 4"),
        (replace(PLAIN, concurrency=None), ON, "neither concurrency nor request rate"),
        (PLAIN, replace(ON, accepted=None), "tells no acceptance length"),
        (PLAIN, replace(ON, accepted=Accepted(draft_tokens=None)), "tells no acceptance length and K"),
        (replace(PLAIN, times={}, output_tokens_per_s=None), ON, "neither mean TPOT nor tokens per second"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused_in_one_sentence(plain, on, said):
    with pytest.raises(InvalidInput, match=said):
        own_row(plain, on, SETUP)
