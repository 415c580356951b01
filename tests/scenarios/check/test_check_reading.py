"""What `specdec check` reads, what it refuses to read, and how the command ends."""

import json
import time

import pytest

from roofline.errors import InvalidInput
from scenarios.check.checking import RULES, check
from scenarios.check.reading import CheckOptions, read_setup
from scenarios.cli.main import run
from tests.scenarios.check.checks import HEAD, LLAMA, ask, eagle, levels, sglang, table, vllm, written_to


def test_a_script_holds_a_serve_line_and_its_benchmark(tmp_path):
    text = (
        "#!/bin/bash\n# start\nexport X=1\nvllm serve meta-llama/Llama-3.1-8B-Instruct \\\n"
        '  --speculative-config \'{"method": "ngram", "num_speculative_tokens": 4}\' &\nsleep 60\n'
        "vllm bench serve --dataset-name random --goodput tpot:50 itl:30\n"
    )
    report = ask(file=written_to(tmp_path, text, "run.sh"))
    assert levels(report, "benchmark data") == ["warn"]
    assert levels(report, "ITL as an objective") == ["warn"]
    assert levels(report, "number of drafts") == ["pass"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("rm -rf /", "must start with"),
        ("vllm serve m --speculative-config '{method: eagle}'", "JSON object"),
        ("vllm serve m --speculative-config '[1]'", "JSON object"),
        ('vllm serve m --speculative-config \'{"method":"ngram"\'', "JSON object"),
        ("vllm serve 'm", "close the quotes"),
        ("vllm serve m --max-num-seqs many", "whole number"),
        ("vllm serve m --gpu-memory-utilization 1.5", "at most 1"),
        (eagle(num_speculative_tokens_per_batch_size=[[1, 2]]), "rows must be"),
        (sglang(more="--speculative-adaptive --speculative-adaptive-config '{'"), "must be JSON"),
        (sglang(more="--speculative-adaptive --speculative-adaptive-config '{\"1\": {}}'"), "candidate_steps"),
    ],
)
def test_what_does_not_read_is_one_sentence(line, words):
    with pytest.raises(InvalidInput, match=words):
        ask(line)


@pytest.mark.parametrize(
    ("text", "words"),
    [("a: [1", "not YAML"), ("- 1\n", "mapping"), ("speculative_config: 3\n", "mapping"), ("", "mapping")],
)
def test_yaml_that_does_not_read_is_one_sentence(text, words, tmp_path):
    with pytest.raises(InvalidInput, match=words):
        ask(file=written_to(tmp_path, text))


def test_a_service_without_speculation_has_little_to_check():
    report = ask(vllm("meta-llama/Llama-3.1-8B-Instruct"))
    assert report.findings == ()
    assert report.verdict == "pass"


def test_every_rule_names_its_source_and_has_its_own_class():
    assert len({type(rule) for rule in RULES}) == len(RULES)
    line = eagle("--enforce-eager -pp 2", disable_padded_drafter_batch=True)
    for finding in ask(line).findings:
        assert finding.source.url.startswith("https://")
        assert finding.number
        assert finding.level == "pass" or finding.fix


def test_checking_takes_well_below_a_third_of_a_second():
    content = table(eagle("--max-num-seqs 64"), gpu="H100-SXM", draft=HEAD, kind="closed", concurrency=64)
    check(read_setup(content, CheckOptions()))
    start_s = time.process_time()
    check(read_setup(content, CheckOptions()))
    assert time.process_time() - start_s < 0.3


def test_the_command_exits_by_the_worst_finding(capsys):
    assert run(["check", "--serve", eagle()]) == 0
    assert run(["check", "--serve", eagle("--enforce-eager")]) == 0
    assert run(["check", "--serve", eagle("-pp 2"), "--engine-version", "0.15"]) == 3
    assert run(["check", "--serve", "echo"]) == 2
    assert run(["check"]) == 2
    assert run(["check", "--serve", eagle(), "--engine-version", "new"]) == 2
    capsys.readouterr()
    assert run(["check", "--serve", eagle("--enforce-eager"), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["verdict"] == "warn"
    assert {"level", "rule", "text", "number", "fix", "source"} == set(content["findings"][0])


def test_a_scenario_file_is_checked_like_a_serve_line(capsys):
    assert run(["check", "llama8b_h100_chat", "--brief"]) == 0
    assert "PASS" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line",
    [
        "uv run " + eagle("-pp 2"),
        "python3.12 -u -m vllm.entrypoints.openai.api_server --model " + eagle("-pp 2")[len("vllm serve ") :],
        "docker run --gpus all -e A=1 -p 8000:8000 vllm/vllm-openai:v0.15.0 --model "
        + eagle("-pp 2")[len("vllm serve ") :],
        "docker run --gpus all some/image bash -lc " + json.dumps(vllm(LLAMA, "-pp 2 --speculative-config.method mtp")),
    ],
)
def test_serve_lines_are_found_behind_other_programs(line):
    assert levels(ask(line, engine_version="0.15"), "pipeline parallelism") == ["stop"]


def test_environment_is_read_from_containers_and_scripts(tmp_path):
    line = "docker run -e VLLM_BATCH_INVARIANT=1 vllm/vllm-openai --model " + eagle()[len("vllm serve ") :]
    assert levels(ask(line, exact=True), "reproducibility") == ["warn"]
    script = written_to(tmp_path, f"export VLLM_BATCH_INVARIANT=1\n{eagle()}\n", "run.sh")
    assert levels(ask(file=script, exact=True), "reproducibility") == ["warn"]
