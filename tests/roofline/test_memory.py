"""The memory account: by hand, and its refusal."""

import pytest

from roofline.errors import DoesNotFit
from roofline.memory import memory_account
from roofline.specs import Parallelism, Recurrence
from tests.roofline.small_models import GPU, model


def _account(target, *, draft=None, tensor=1, fraction=0.9, context_tokens=None):
    return memory_account(
        target,
        gpu=GPU,
        parallel=Parallelism(tensor=tensor),
        draft=draft,
        utilization_fraction=fraction,
        max_step_tokens=100,
        max_logit_rows=10,
        context_tokens=context_tokens,
    )


def test_the_account_by_hand():
    account = _account(model())
    weights = 2 * (2 * 64 * 64 + 100 * 64 + 100 * 64)
    workspace = 100 * (2 * 64 + 2 * 64) * 2 + 4 * 10 * 100

    assert account.weights_bytes == weights
    assert account.workspace_bytes == workspace
    assert account.kv_tokens == int((0.9e9 - weights - workspace) / (64 * 2))


def test_a_draft_costs_its_weights_and_its_own_cache():
    account = _account(model(layers=4), draft=model())
    assert account.kv_bytes_per_token == 4 * account.draft_kv_bytes_per_token
    assert account.kv_tokens_lost == pytest.approx(account.kv_tokens_without_draft / 5, rel=1e-3)


def test_a_model_that_does_not_fit_is_refused_with_the_account():
    with pytest.raises(DoesNotFit, match=r"does not fit 1 x Round: usable .* weights .* GiB per GPU are missing"):
        _account(model(hidden=32768))


def test_a_full_window_stops_growing_and_a_fixed_state_is_spread_over_the_context():
    whole = _account(model(layers=2), context_tokens=1000.0)
    assert whole.kv_bytes_per_token == _account(model(layers=2)).kv_bytes_per_token == 2 * 64 * 2

    windowed = _account(model(layers=2, window_tokens=100), context_tokens=1000.0)
    assert windowed.kv_bytes_per_token == pytest.approx(whole.kv_bytes_per_token / 10)
    assert windowed.kv_tokens == pytest.approx(10 * whole.kv_tokens, rel=1e-5)

    state = Recurrence(state_elements=1000, flops_per_token=1)
    stateful = _account(model(layers=2, recurrence=state), context_tokens=1000.0)
    assert stateful.kv_bytes_per_token == pytest.approx(whole.kv_bytes_per_token + 2 * 1000 * 4 / 1000)
