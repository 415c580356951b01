"""Laws of the counts: coverage of experts, contexts, scalars and arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.counts import expert_shares, experts_touched, kv_bytes_for_context, linear_format
from roofline.hf_config import load_model

pools = st.integers(1, 300).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count)))
skews = st.sampled_from([0.0, 0.3, 1.0, 2.5])


@given(pools, skews)
def test_one_token_touches_exactly_its_experts(pool, skew):
    count, per_token = pool
    assert experts_touched(count, per_token, 1, skew=skew) == pytest.approx(per_token)


@given(pools, skews, st.integers(1, 5000))
def test_coverage_grows_with_tokens_up_to_all_experts(pool, skew, tokens):
    count, per_token = pool
    fewer, more = (experts_touched(count, per_token, t, skew=skew) for t in (tokens, tokens + 1))
    assert per_token - 1e-9 * count <= fewer <= more + 1e-9 * count
    assert more <= count * (1 + 1e-12)


@given(pools, st.integers(1, 500))
def test_uniform_routing_is_the_formula_and_touches_most(pool, tokens):
    count, per_token = pool
    uniform = experts_touched(count, per_token, tokens)
    assert uniform == pytest.approx(count * (1 - (1 - per_token / count) ** tokens))
    assert experts_touched(count, per_token, tokens, skew=1.0) <= uniform * (1 + 1e-9)
    assert experts_touched(count, per_token, tokens, skew=1e-9) == pytest.approx(uniform, rel=1e-6)


@given(pools, skews)
def test_scalars_and_arrays_agree(pool, skew):
    count, per_token = pool
    tokens = np.array([0.0, 1.0, 2.0, 7.5, 400.0])
    together = experts_touched(count, per_token, tokens, skew=skew)
    assert isinstance(experts_touched(count, per_token, 7.5, skew=skew), float)
    apart = [experts_touched(count, per_token, float(t), skew=skew) for t in tokens]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    assert together[0] == 0.0


@given(pools, skews)
def test_shares_of_experts_add_up_to_the_experts_of_a_token(pool, skew):
    count, per_token = pool
    shares = expert_shares(count, per_token, skew=skew)
    assert shares.shape == (count,)
    assert shares.sum() == pytest.approx(per_token)
    assert shares.max() <= 1 + 1e-12
    assert (np.diff(shares) <= 1e-12).all()


def test_deepseek_touches_8_experts_with_one_token_and_most_with_128():
    assert experts_touched(256, 8, 1) == pytest.approx(8)
    assert experts_touched(256, 8, 128) == pytest.approx(256 * (1 - (1 - 8 / 256) ** 128))


@pytest.mark.parametrize("name", ["google/gemma-3-1b-it", "Qwen/Qwen3-Next-80B-A3B", "deepseek-ai/DeepSeek-V3"])
def test_cache_of_a_context_is_the_same_for_scalars_and_arrays(name):
    model = load_model(name)
    contexts = np.array([0.0, 1.0, 511.0, 512.0, 513.0, 100_000.0])
    together = kv_bytes_for_context(model, contexts)
    assert together.tolist() == [kv_bytes_for_context(model, float(c)) for c in contexts]
    assert (np.diff(together) >= 0).all()


def test_matrices_kept_in_16_bits_have_the_embeddings_format():
    model = load_model("Qwen/Qwen3-30B-A3B", quantization="fp8")
    formats = {linear.name: linear_format(model, linear).name for linear in model.layers[0].linears}
    assert formats == {"qkv": "fp8", "o": "fp8", "router": "bf16"}
