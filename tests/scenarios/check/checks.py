"""How the tests ask: a serve line and keywords in, a report out."""

import json
from pathlib import Path

from scenarios.check.checking import CheckReport, check
from scenarios.check.reading import CheckOptions, read_setup

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
SGLANG = f"python -m sglang.launch_server --model-path {LLAMA} "
EAGLE = {"method": "eagle3", "model": "head", "num_speculative_tokens": 3}
HEAD = "SpecForge/EAGLE3-llama3-8B.json"
OPTION_NAMES = ("file", "engine_version", "benchmarks", "figures", "against", "exact")


def vllm(target=LLAMA, more="", /, **speculative):
    """A vLLM line with a speculative config of these keys."""
    text = f" --speculative-config '{json.dumps(speculative)}'" if speculative else ""
    return f"vllm serve {target} {more}{text}"


def table(serve=None, *, gpu=None, model=None, draft=None, slo=(), **load):
    """A scenario table as the command line makes it."""
    content = {"serve": serve, "slo": list(slo)} if serve else {"slo": list(slo)}
    if gpu:
        content["hardware"] = {"gpu": gpu}
    if model:
        content["target"] = {"model": model}
    if draft:
        content["speculation"] = {"draft": draft}
    if load:
        content["workload"] = load
    return content


def ask(serve=None, **keywords) -> CheckReport:
    """The report on a configuration."""
    options = {name: keywords.pop(name) for name in OPTION_NAMES if name in keywords}
    if "file" in options:
        options["file"] = str(options["file"])
    return check(read_setup(table(serve, **keywords), CheckOptions(**options)))


def levels(report, rule):
    """The levels that a rule reported."""
    return [finding.level for finding in report.findings if finding.rule == rule]


def written_to(folder: Path, text: str, name="config.yaml") -> Path:
    """A file of the user's."""
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def eagle(more="", **keys):
    """A vLLM line with an EAGLE-3 head."""
    return vllm(LLAMA, more, **{**EAGLE, **keys})


def sglang(steps=3, top_k=1, nodes=4, more=""):
    """An SGLang line with an EAGLE-3 head."""
    return (
        SGLANG + "--speculative-algorithm EAGLE3 --speculative-draft-model-path head "
        f"--speculative-num-steps {steps} --speculative-eagle-topk {top_k} "
        f"--speculative-num-draft-tokens {nodes} {more}"
    )
