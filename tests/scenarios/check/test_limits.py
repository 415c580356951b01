"""Each of the seven don'ts flips where its limit is crossed, and not just before it."""

import pytest

from roofline.errors import InvalidInput
from scenarios.check.checking import check
from scenarios.check.limits import with_limits
from scenarios.check.reading import CheckOptions, read_setup
from tests.scenarios.check.checks import vllm

HEAD = "SafeAILab/EAGLE3-LLaMA3.1-8B.json"
LONG_HEAD = "SpecForge/EAGLE3-llama3-8B.json"


def eagle(k=3, more=""):
    return vllm("meta-llama/Llama-3.1-8B-Instruct", more, method="eagle3", model="head", num_speculative_tokens=k)


def drafted(k):
    return vllm("meta-llama/Llama-3.1-8B-Instruct", method="draft_model", model="draft", num_speculative_tokens=k)


def seven(serve, *, exact=False, engine_version=None, length="2.4@3", gpu="H100-SXM", draft=HEAD, **workload):
    """Level by number of the don't."""
    workload = {"kind": "closed", "requests": 300, "input_tokens": 300, "output_tokens": 200} | workload
    table = {
        "schema_version": 1,
        "serve": serve,
        "hardware": {"gpu": gpu},
        "speculation": {"draft": draft} if draft else {},
        "workload": workload,
        "run": {"seeds": 2},
    }
    if length:
        table["acceptance"] = {"length": length}
    setup = read_setup(table, CheckOptions(exact=exact, engine_version=engine_version))
    report = with_limits(check(setup), setup, table, origin="test")
    return {finding.rule[0]: finding for finding in report.findings if finding.rule[0].isdigit()}


def test_saturated_throughput_flips_with_the_load():
    assert seven(eagle(), length="1.7@3", concurrency=64)["1"].level == "pass"
    assert seven(eagle(), length="1.7@3", concurrency=256)["1"].level == "stop"


def test_low_acceptance_flips_at_the_break_even_of_this_load_and_not_at_a_half():
    needed = float(seven(eagle(), concurrency=64)["2"].number.split("break-even ")[1].split(" ")[0])
    assert seven(eagle(), length=f"{needed + 0.1:.2f}@3", concurrency=64)["2"].level == "pass"
    assert seven(eagle(), length=f"{needed - 0.1:.2f}@3", concurrency=64)["2"].level == "stop"
    assert needed < 1 + 0.5 + 0.5**2 + 0.5**3


def test_the_same_tokens_cannot_be_promised():
    assert seven(eagle(), concurrency=4)["3"].level == "pass"
    assert seven(eagle(), concurrency=4, exact=True)["3"].level == "stop"
    assert seven("VLLM_BATCH_INVARIANT=1 " + eagle(), concurrency=4, exact=True)["3"].level == "warn"


def test_memory_flips_where_the_drafts_share_of_the_cache_is_needed():
    small = {"gpu": "L4", "draft": LONG_HEAD, "concurrency": 2, "requests": 40, "output_tokens": 100}
    assert seven(eagle(), input_tokens=21000, **small)["4"].level == "pass"
    full = seven(eagle(), input_tokens=23000, **small)["4"]
    assert full.level == "stop"
    assert "with that memory back" in full.number
    assert seven(eagle(), input_tokens=60000, **small)["4"].level == "stop"


def test_pipeline_stages_flip_with_their_number():
    assert seven(eagle(), concurrency=4)["5"].level == "pass"
    staged = seven(eagle(3, "-pp 2"), concurrency=4, engine_version="0.15.1")
    assert staged["5"].level == "stop"
    assert "not simulated" in staged["1"].number
    assert seven(eagle(3, "-pp 2"), concurrency=4, engine_version="0.30")["5"].level == "pass"


def test_a_mismatched_draft_flips_with_its_size_and_its_vocabulary():
    drafts = {"length": "1.8@1", "concurrency": 4, "output_tokens": 100}
    assert seven(drafted(1), draft="meta-llama/Llama-3.2-3B-Instruct.json", **drafts)["6"].level == "pass"
    assert seven(drafted(1), draft="meta-llama/Meta-Llama-3.1-8B.json", **drafts)["6"].level == "stop"
    assert seven(drafted(1), draft="TinyLlama/TinyLlama-1.1B-Chat-v1.0.json", **drafts)["6"].level == "stop"


def test_short_outputs_flip_with_their_length():
    given = {
        "length": "2.6@4",
        "draft": "meta-llama/Llama-3.2-1B-Instruct.json",
        "concurrency": 4,
        "input_tokens": 2000,
    }
    assert seven(drafted(4), output_tokens=200, **given)["7"].level == "pass"
    assert seven(drafted(4), output_tokens=6, **given)["7"].level == "stop"


def test_without_an_acceptance_the_length_needed_is_named():
    found = seven(eagle(), length=None, concurrency=8)
    assert found["1"].level == found["2"].level == "warn"
    assert "needed" in found["2"].number


def test_a_schedule_by_batch_is_simulated_as_written():
    off_above_8 = vllm("meta-llama/Llama-3.1-8B-Instruct", method="eagle3", model="head", num_speculative_tokens=3,
                       num_speculative_tokens_per_batch_size=[[1, 8, 3], [9, 1024, 0]])  # fmt: skip
    scheduled, fixed = (seven(line, length="1.7@3", concurrency=256)["1"].number for line in (off_above_8, eagle()))
    assert float(scheduled.split("S(TPOT) ")[1][:4]) > float(fixed.split("S(TPOT) ")[1][:4]) + 0.1


def test_there_is_nothing_to_simulate_without_speculation():
    with pytest.raises(InvalidInput, match="nothing is drafted"):
        seven("vllm serve meta-llama/Llama-3.1-8B-Instruct", draft=None, concurrency=4)


def test_an_incomplete_scenario_is_refused():
    table = {"schema_version": 1, "serve": eagle(), "speculation": {"draft": HEAD}}
    setup = read_setup(table, CheckOptions())
    with pytest.raises(InvalidInput, match="hardware"):
        with_limits(check(setup), setup, table, origin="test")
