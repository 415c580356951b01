"""Sessions: turns wait for answers, contexts grow, and luck belongs to the turn."""

import numpy as np
import pytest

from roofline.errors import InvalidInput
from simulator.acceptance import IidAcceptance
from simulator.sessions import Sessions, serve_sessions
from tests.strategies import PLAIN, affine_costs, head, limits


def _sessions(count=6, turns=4, wait_s=0.5, keeps_cache=True) -> Sessions:
    total = count * turns
    return Sessions(
        session_id=np.repeat(np.arange(count), turns),
        wait_s=np.where(np.arange(total) % turns == 0, np.repeat(np.arange(count) * 0.2, turns), wait_s),
        new_tokens=np.full(total, 20),
        output_tokens=np.full(total, 30),
        keeps_cache=keeps_cache,
    )


def _serve(sessions, speculation=PLAIN, **changes):
    costs = affine_costs(step_s=0.01, per_token_s=1e-4)
    return serve_sessions(sessions, costs=costs, limits=limits(**changes), speculation=speculation, seed=4)


def test_a_turn_arrives_a_thought_after_the_answer_before_it():
    sessions = _sessions()
    served = _serve(sessions)
    result, of_turn = served.result, np.argsort(served.turn)

    assert sorted(served.turn.tolist()) == list(range(24))
    assert result.counts.finished == 24
    for turn in range(24):
        request = of_turn[turn]
        if turn % 4:
            waited_s = result.arrival_s[request] - result.finished_s[of_turn[turn - 1]]
            assert waited_s == pytest.approx(0.5, abs=1e-9)
        else:
            assert result.arrival_s[request] == pytest.approx(0.2 * (turn // 4), abs=1e-9)
    assert np.all(np.diff(result.arrival_s) >= 0)
    assert result.prompt_tokens[of_turn[:4]].tolist() == [20, 70, 120, 170]


def test_a_kept_cache_spares_the_prompt():
    kept, recomputed = _serve(_sessions()), _serve(_sessions(keeps_cache=False))
    assert kept.result.mean("ttft") < recomputed.result.mean("ttft")
    assert kept.result.totals.step_tokens < recomputed.result.totals.step_tokens


def test_speculation_shortens_whole_sessions_and_luck_belongs_to_the_turn():
    plain = _serve(_sessions())
    fast = _serve(_sessions(), head(4, IidAcceptance(0.8)))
    one_at_a_time = _serve(_sessions(), head(4, IidAcceptance(0.8)), max_sequences=1)

    assert fast.result.end_s < plain.result.end_s
    rounds = [served.result.rounds[np.argsort(served.turn)] for served in (fast, one_at_a_time)]
    assert np.array_equal(*rounds)


def test_a_session_ends_where_its_context_no_longer_fits():
    served = _serve(_sessions(count=2), max_context_tokens=160)
    assert served.result.counts.refused == 2
    assert served.result.counts.finished == 6


def test_turns_out_of_order_are_refused():
    with pytest.raises(InvalidInput, match="session_id must not fall"):
        Sessions(np.array([1, 0]), np.zeros(2), np.ones(2, dtype=int), np.ones(2, dtype=int))
