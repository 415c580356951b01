import json

import numpy as np
import pytest

from roofline.errors import InvalidInput
from scenarios.files import TRACE_FOLDER, scenario_from_dict
from scenarios.imports.traces import read_trace
from scenarios.loads import read_scenario_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def written(folder, text, name="trace.csv"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_the_shipped_trace_has_every_request():
    trace = read_trace(TRACE_FOLDER / "azure_llm_2023_conv.csv")
    assert trace.requests == 19_366
    assert trace.rate_per_s == pytest.approx(5.53, abs=0.01)
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (374, 44)
    assert (trace.prompt_tokens[-1], trace.output_tokens[-1]) == (197, 183)
    assert np.mean(trace.prompt_tokens + trace.output_tokens > 4096) == pytest.approx(0.083, abs=0.001)


def test_times_keep_their_seven_digits_and_start_at_zero(tmp_path):
    text = HEADER + "2023-11-16 23:59:59.9999990,10,2\r\n2023-11-17T00:00:00.0000010+00:00,20,3"
    trace = read_trace(written(tmp_path, text))
    assert trace.arrival_s == pytest.approx([0.0, 2e-6], abs=1e-9)
    assert list(trace.output_tokens) == [2, 3]


def test_columns_may_stand_in_any_order_beside_others(tmp_path):
    text = "ContextTokens,User,TIMESTAMP,GeneratedTokens\n7,a,0.5,3\n8,b,1.5,4\n"
    trace = read_trace(written(tmp_path, text))
    assert list(trace.prompt_tokens) == [7, 8]
    assert trace.arrival_s == pytest.approx([0.0, 1.0])


def test_only_the_first_requests_are_kept_when_asked(tmp_path):
    text = HEADER + "0,1,1\n1,2,2\n2,broken"
    assert read_trace(written(tmp_path, text), max_requests=2).requests == 2


def test_mooncake_hits_are_the_leading_blocks_seen_before(tmp_path):
    rows = [
        {"timestamp": 1000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 2]},
        {"timestamp": 3000, "input_length": 1500, "output_length": 5, "hash_ids": [0, 1, 3]},
        {"timestamp": 3000, "input_length": 512, "output_length": 5, "hash_ids": [0]},
    ]
    trace = read_trace(written(tmp_path, "\n".join(json.dumps(row) for row in rows), "t.jsonl"))
    assert trace.arrival_s == pytest.approx([0.0, 2.0, 2.0])
    assert list(trace.prefix_hit_tokens) == [0, 1024, 511]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("is empty",)),
        (HEADER, ("no requests",)),
        ("TIMESTAMP,ContextTokens\n0,5\n", ("GeneratedTokens", "missing")),
        (HEADER + "-1,5,5\n", ("line 2", "-1", "at least 0")),
        (HEADER + "2,5,5\n1,5,5\n", ("line 3", "goes back by 1 s", "sort")),
        (HEADER + "nan,5,5\n", ("line 2", "nan")),
        (HEADER + "0,0,5\n", ("line 2", "prompt tokens", "got 0")),
        (HEADER + "0,5,0\n", ("line 2", "output tokens", "got 0")),
        (HEADER + "0,5,-3\n", ("line 2", "got -3")),
        (HEADER + "0,5,5\n0,5", ("line 3", "2 of 3 columns", "cut off")),
        (HEADER + "0,5.5,5\n", ("line 2", "ContextTokens", "5.5")),
        (HEADER + "2023-02-31 00:00:00,5,5\n", ("line 2", "no such day")),
        ('{"timestamp": 0, "input_length": 5}\n', ("line 1", "output_length")),
        ('{"timestamp": -5, "input_length": 5, "output_length": 5}\n', ("line 1", "-5")),
        ('{"timestamp": 0, "input_length": 5, "output_len', ("line 1", "not JSON", "cut off")),
    ],
)
def test_wrong_traces_are_refused_with_line_value_and_fix(tmp_path, text, words):
    with pytest.raises(InvalidInput) as caught:
        read_trace(written(tmp_path, text))
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_prefix_hits_of_a_trace_without_hashes_are_refused(tmp_path):
    bare = '{"timestamp": 0, "input_length": 5, "output_length": 5}\n'
    hashed = '{"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1]}\n'
    for text in (HEADER + "0,5,5\n", bare):
        scenario = scenario_of(
            {"kind": "trace", "path": str(written(tmp_path, text)), "prefix_hits": "unlimited_cache"}
        )
        with pytest.raises(InvalidInput, match="needs block hashes"):
            read_scenario_trace(scenario)
    path = str(written(tmp_path, hashed))
    trace = read_scenario_trace(scenario_of({"kind": "trace", "path": path, "prefix_hits": "unlimited_cache"}))
    assert trace is not None
    assert trace.hashed


def scenario_of(workload):
    return scenario_from_dict({"target": {"model": "x"}, "hardware": {"gpu": "x"}, "workload": workload})


def test_a_trace_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_trace(tmp_path / "none.csv")
