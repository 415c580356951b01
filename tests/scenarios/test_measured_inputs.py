import numpy as np
import pytest

from roofline.cost import round_cost
from roofline.errors import InvalidInput
from scenarios.imports.acceptance_banks import read_acceptance_bank
from scenarios.imports.step_costs import read_step_costs
from tests.strategies import affine_costs

BANK = "commits,category,a0,a1\n2,code,1,1\n0,code,0.2,0\n1,chat,0.9,0.4\n1,code,1,0\n"
COSTS = """batch_size,num_draft_tokens,step_seconds
1,1,0.010
1,3,0.014
4,1,0.012
4,3,0.020
"""


def written(folder, text):
    path = folder / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_bank_gives_shares_by_position_for_each_category(tmp_path):
    bank = read_acceptance_bank(written(tmp_path, BANK))
    assert bank.categories == ("code", "chat")
    assert bank.acceptance().unconditional == pytest.approx((3 / 4, 1 / 4))
    assert bank.acceptance("code").unconditional == pytest.approx((2 / 3, 1 / 3))
    assert bank.acceptance_length() == 2.0
    assert bank.histogram("code").tolist() == [1, 1, 1]
    assert bank.signals[2].tolist() == [0.9, 0.4]
    with pytest.raises(InvalidInput, match="no category 'cod'; nearest: code"):
        bank.acceptance("cod")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("commits,category,a0,a1\n", "no rounds"),
        ("commits,category\n1,code\n", "header must be"),
        ("commits,a0,a1\n1,0,0\n", "header must be"),
        ("commits,category,a0\n1,code\n", "line 2 has 2 cells, the header 3"),
        ("commits,category,a0\n2,code,1\n", "commits must be in 0..1"),
        ("commits,category,a0\n-1,code,1\n", "commits must be a whole number of at least 0, got '-1'"),
        ("commits,category,a0\nnan,code,1\n", "got 'nan'"),
        ("commits,category,a0\n1,code,nan\n", "a0 must be in 0..1, got 'nan'"),
        ("commits,category,a0\n1,code,1.5\n", "a0 must be in 0..1, got '1.5'"),
    ],
)
def test_a_bad_bank_is_one_sentence(tmp_path, text, said):
    with pytest.raises(InvalidInput) as caught:
        read_acceptance_bank(written(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_measured_times_are_linear_between_points(tmp_path):
    costs = read_step_costs(written(tmp_path, COSTS))
    assert costs.drafts.tolist() == [0, 2]
    assert costs.seconds(0, np.array([1.0, 2.0, 4.0])) == pytest.approx([0.010, 0.010 + 0.002 / 3, 0.012])
    assert costs.seconds(1, np.array([4.0])) == pytest.approx([0.016])
    with pytest.raises(InvalidInput, match="K = 3 was not measured"):
        costs.seconds(3, np.array([1.0]))


def test_a_corrected_table_prices_rounds_as_measured_at_that_context(tmp_path):
    computed = affine_costs(step_s=0.005, per_token_s=1e-4, kv_s_per_token=1e-6, draft_pass_s=1e-3)
    table = read_step_costs(written(tmp_path, COSTS)).applied_to(computed, context_tokens=1000)
    assert table.label == "measured"
    assert (table.max_sequences, table.max_draft_tokens) == (4, 2)
    for batch, draft_tokens, measured_s in ((1, 0, 0.010), (4, 0, 0.012), (1, 2, 0.014), (4, 2, 0.020), (4, 1, 0.016)):
        cost = round_cost(table, batch=batch, context_tokens=1000, draft_tokens=draft_tokens)
        assert cost.round_s == pytest.approx(measured_s, rel=1e-12)
        if draft_tokens:
            assert cost.plain_s == pytest.approx({1: 0.010, 4: 0.012}[batch], rel=1e-12)
    longer = round_cost(table, batch=4, context_tokens=2000, draft_tokens=2).round_s
    before = round_cost(computed, batch=4, context_tokens=2000, draft_tokens=2).round_s
    assert longer - 0.020 == pytest.approx(
        before - round_cost(computed, batch=4, context_tokens=1000, draft_tokens=2).round_s
    )


def test_a_measurement_of_another_machine_is_refused(tmp_path):
    computed = affine_costs(step_s=0.005, kv_s_per_token=1e-4)
    with pytest.raises(InvalidInput, match="less than the computed attention alone"):
        read_step_costs(written(tmp_path, COSTS)).applied_to(computed, context_tokens=1000)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("batch,k,s\n", "header must be"),
        ("batch_size,num_draft_tokens,step_seconds\n", "no rows with num_draft_tokens 1"),
        ("batch_size,num_draft_tokens,step_seconds\n1,2,0.1\n", "no rows with num_draft_tokens 1"),
        ("batch_size,num_draft_tokens,step_seconds\n1,1,0.1\n2,1,0.1\n2,2,0.1\n", "batch 1 with num_draft_tokens 2 is"),
        ("batch_size,num_draft_tokens,step_seconds\n1,0,0.1\n", "count from 1"),
        ("batch_size,num_draft_tokens,step_seconds\n1,1,0\n", "must be a positive number of seconds, got '0'"),
        ("batch_size,num_draft_tokens,step_seconds\n1,1,inf\n", "got 'inf'"),
        ("batch_size,num_draft_tokens,step_seconds\n1,1,0.1\n1,1,0.2\n", "was given before"),
        ("batch_size,num_draft_tokens,step_seconds\n1,1\n", "line 2 has 2 cells"),
    ],
)
def test_a_bad_table_of_step_times_is_one_sentence(tmp_path, text, said):
    with pytest.raises(InvalidInput) as caught:
        read_step_costs(written(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
