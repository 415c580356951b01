"""L12: the do-not-use list: seven checks, each on a scenario just before its limit and on one just beyond."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from roofline.speculation import alpha_from_length
from scenarios.chapter.judging import Claim, Quantity, Row, Table
from scenarios.chapter.published import published
from scenarios.chapter.services import DENSE, service
from scenarios.check.checking import check
from scenarios.check.finding import Finding
from scenarios.check.limits import with_limits
from scenarios.check.reading import CheckOptions, read_setup
from scenarios.questions.reproducibility import reproducibility

LLAMA, HEAD, LONG_HEAD = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "SafeAILab/EAGLE3-LLaMA3.1-8B",
    "SpecForge/EAGLE3-llama3-8B",
)
ONE_B, THREE_B = "meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-3B-Instruct"
OTHER_WORDS = "TinyLlama/TinyLlama-1.1B-Chat-v1.0"


@dataclass(frozen=True, slots=True)
class Served:
    """What is served, how it drafts and under which load; the least that the seven checks need."""

    concurrency: int = 4
    draft: str = HEAD
    draft_tokens: int = 3
    length: str = "2.4@3"
    gpu: str = "H100-SXM"
    stages: int = 1
    engine_version: str | None = None
    exact: bool = False
    requests: int = 200
    input_tokens: int = 300
    output_tokens: int = 200

    def findings(self, seed: int) -> dict[str, Finding]:
        """The seven checks by number."""
        table = self._table(seed)
        setup = read_setup(table, CheckOptions(exact=self.exact, engine_version=self.engine_version))
        report = with_limits(check(setup), setup, table, origin="chapter L12")
        return {finding.rule[0]: finding for finding in report.findings if finding.rule[0].isdigit()}

    def _table(self, seed: int) -> dict[str, Any]:
        method = "eagle3" if self.draft in (HEAD, LONG_HEAD) else "draft_model"
        config = {"method": method, "model": "draft", "num_speculative_tokens": self.draft_tokens}
        stages = f" -pp {self.stages}" if self.stages > 1 else ""
        return {
            "schema_version": 1,
            "serve": f"vllm serve {LLAMA}{stages} --speculative-config '{json.dumps(config)}'",
            "hardware": {"gpu": self.gpu},
            "speculation": {"draft": self.draft},
            "acceptance": {"length": self.length},
            "workload": {
                "kind": "closed",
                "concurrency": self.concurrency,
                "requests": self.requests,
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
            },
            "run": {"seeds": 2, "seed": seed},
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """One don't, and two scenarios that differ in one thing."""

    number: str
    dont: str
    before: tuple[str, Served]
    beyond: tuple[str, Served]


_SMALL: dict[str, Any] = {"gpu": "L4", "draft": LONG_HEAD, "concurrency": 2, "requests": 40, "output_tokens": 100}
_SHORT: dict[str, Any] = {"draft": ONE_B, "draft_tokens": 4, "length": "2.6@4", "input_tokens": 2000}
_LARGE: dict[str, Any] = {"draft_tokens": 1, "length": "1.8@1", "output_tokens": 100}
PAIRS = (
    Pair(
        "1",
        "saturated throughput",
        ("64 in flight, AL 1.7@3", Served(concurrency=64, length="1.7@3")),
        ("96 in flight", Served(concurrency=96, length="1.7@3")),
    ),
    Pair(
        "2",
        "low acceptance",
        ("AL 1.75@3, 64 in flight", Served(concurrency=64, length="1.75@3")),
        ("AL 1.50@3", Served(concurrency=64, length="1.5@3")),
    ),
    Pair("3", "the same tokens needed", ("not asked for", Served()), ("asked for (--exact)", Served(exact=True))),
    Pair(
        "4",
        "memory full",
        ("two prompts of 22,000 tokens on an L4", Served(input_tokens=22000, **_SMALL)),
        ("two of 22,500", Served(input_tokens=22500, **_SMALL)),
    ),
    Pair(
        "5",
        "pipeline parallel",
        ("two stages, vLLM 0.30", Served(stages=2, engine_version="0.30")),
        ("two stages, vLLM 0.15", Served(stages=2, engine_version="0.15.1")),
    ),
    Pair(
        "6",
        "mismatched draft",
        ("a 3B draft for 8B", Served(draft=THREE_B, **_LARGE)),
        ("a draft of another vocabulary", Served(draft=OTHER_WORDS, **_LARGE)),
    ),
    Pair(
        "7",
        "short outputs",
        ("40 tokens out after 2,000 in", Served(output_tokens=40, **_SHORT)),
        ("20 tokens out", Served(output_tokens=20, **_SHORT)),
    ),
)


def donts(seed: int) -> Row:
    """Every don't before and beyond its limit, and the chapter's fixed limits beside those found."""
    found = {pair.number: (_finding(pair, pair.before, seed), _finding(pair, pair.beyond, seed)) for pair in PAIRS}
    header = ("don't", "just before", "says", "number", "just beyond", "says", "number")
    return Row(
        id="L12",
        title="When not to use it",
        says="do not use it: saturated throughput; acceptance below 0.5; token-for-token reproducibility needed; "
        "memory full; pipeline parallel on vLLM up to 0.15; vocabulary or ability mismatch; outputs under 20 tokens",
        command=f'specdec check --serve "vllm serve {LLAMA} --speculative-config '
        '\'{\\"method\\":\\"ngram\\",\\"num_speculative_tokens\\":3}\'" --gpu H100-SXM --concurrency 96 '
        "--input-tokens 300 --output-tokens 200 --requests 200 --acceptance-length 1.7@3 --proposal-fraction 1 "
        "--simulate",
        claims=(*(_flips(pair, found[pair.number]) for pair in PAIRS), _repeated(seed), _half(seed), _twenty(seed)),
        tables=(
            Table(
                "Seven checks, each on both sides of its limit",
                header,
                tuple(_line(pair, found[pair.number]) for pair in PAIRS),
            ),
        ),
        note="Each check judges by what the scenario shows, so its limit moves with load, draft and lengths; the "
        "chapter's 0.5 and 20 tokens are right for some services and wrong for others. Plain decoding meets other "
        "batch shapes from run to run as well: batching alone costs the same tokens.",
    )


def _finding(pair: Pair, side: tuple[str, Served], seed: int) -> Finding:
    return side[1].findings(seed)[pair.number]


def _flips(pair: Pair, found: tuple[Finding, Finding]) -> Claim:
    before, beyond = found
    evidence = {
        "1": ("saturated_ngram",),
        "2": ("low_acceptance_14b",),
        "5": ("pp_refused",),
        "6": ("vocabulary_refused",),
    }
    return Claim(
        f"{pair.number} {pair.dont}: silent just before its limit, stop just beyond",
        1.0,
        1.0,
        found=(
            Quantity(f"silent: {pair.before[0]} (1 = yes)", float(before.level == "pass"), "assumed"),
            Quantity(f"stop: {pair.beyond[0]} (1 = yes)", float(beyond.level == "stop"), "assumed"),
        ),
        beside=tuple(published(name) for name in evidence.get(pair.number, ())),
    )


def _repeated(seed: int) -> Claim:
    """The same requests once more: kernels are chosen by the tokens of a step, and with them the order of sums."""
    scenario = service(DENSE, seed, workload={"requests": 150}).scenario
    on, off = (reproducibility(scenario, arm=arm, at="10") for arm in ("on", "off"))
    return Claim(
        "speculation breaks token-for-token reproducibility: requests meet other batch shapes",
        0.9,
        None,
        found=tuple(
            Quantity(f"share of requests, {change.name}", change.requests_fraction, "assumed") for change in on.changes
        ),
        beside=tuple(
            Quantity(f"the same in plain decoding, {change.name}", change.requests_fraction, "calibrated")
            for change in off.changes
        ),
    )


def _half(seed: int) -> Claim:
    """The break-even of one service at three loads."""
    found: list[Quantity] = []
    for concurrency in (4, 64, 256):
        number = Served(concurrency=concurrency, requests=300).findings(seed)["2"].number
        length = float(number.split("break-even ")[1].split(" ")[0])
        name = f"break-even alpha, 8B with EAGLE-3, {concurrency} in flight"
        found.append(Quantity(name, float(alpha_from_length(length, 3)), "calibrated"))
    return Claim("the limit is an acceptance of 0.5", 0.5, 0.5, tolerance_fraction=0.2, found=tuple(found))


def _twenty(seed: int) -> Claim:
    """Whole requests of 19 tokens: a draft model after a long prompt, and a head after a short one."""
    found: list[Quantity] = []
    for name, made in {
        "1B draft, 2,000 tokens in": Served(output_tokens=19, **_SHORT),
        "EAGLE-3 head, 300 tokens in": Served(output_tokens=19),
    }.items():
        number = made.findings(seed)["7"].number
        found.append(
            Quantity(f"S(latency) of 19 tokens, {name}", float(number.split("request) ")[1].split(" ")[0]), "assumed")
        )
    return Claim("outputs under 20 tokens do not gain", None, 1.0, found=tuple(found))


def _line(pair: Pair, found: tuple[Finding, Finding]) -> tuple[str, ...]:
    before, beyond = found
    return (
        f"{pair.number} {pair.dont}",
        pair.before[0],
        before.level,
        before.number,
        pair.beyond[0],
        beyond.level,
        beyond.number,
    )
