"""Cache reads and pairs of attention, against a loop over rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.attention import attention_classes, seen_pairs, seen_tokens
from tests.roofline.small_models import model


@given(context=st.integers(0, 200), new=st.integers(1, 40), window=st.one_of(st.just(0), st.integers(1, 100)))
def test_pairs_and_reads_equal_a_loop_over_rows(context, new, window):
    rows = [range(max(0, end - window) if window else 0, end) for end in range(context + 1, context + new + 1)]

    assert seen_pairs(context, new, window) == sum(len(row) for row in rows)
    assert seen_tokens(context, new, window) == len({token for row in rows for token in row})


def test_the_cache_is_cut_into_no_more_parts_than_there_are_kv_heads():
    alone, four = attention_classes(model(layers=3), 1)[0], attention_classes(model(layers=3), 4)[0]

    assert alone.kv_bytes_per_token == 3 * 64 * 2
    assert four.kv_bytes_per_token == alone.kv_bytes_per_token / 2
    assert four.flops_per_pair == alone.flops_per_pair / 4


def test_layers_are_grouped_by_window():
    narrow = model(layers=2, window_tokens=8)
    mixed = narrow.model_copy(update={"layers": (*narrow.layers, *model(layers=1).layers)})
    classes = attention_classes(mixed)

    assert [(group.window_tokens, group.layers) for group in classes] == [(0, 1), (8, 2)]


def test_arrays_are_taken_elementwise():
    contexts = np.array([3, 10, 50])
    assert seen_pairs(contexts, 4, 16).tolist() == [int(seen_pairs(int(c), 4, 16)) for c in contexts]


@pytest.mark.parametrize("window", [0, 16])
def test_a_longer_context_never_reads_less(window):
    reads = seen_tokens(np.arange(100), 4, window)
    assert np.all(np.diff(reads) >= 0)
