"""How the gain is measured: random tokens, chunk gaps, chunks counted as tokens, rates that mean several things."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.check import sources
from scenarios.check.finding import Finding, Topic
from scenarios.check.setup import Setup

_RANDOM = (
    r"--dataset-name[= ]+(random|random-ids|random-mm|prefix_repetition|generated-shared-prefix)\b",
    r"--dataset[= ]+random\b",
    r"--synthetic-input-tokens-mean",
    r"--(isl|input-sequence-length|prompt-input-tokens-mean)[= ]",
    r"token-(norm|unif)-dist",
    r"--(data|dataset)[= ]+\S*(prompt_tokens|output_tokens)",
    r"type: *(random|synthetic)",
    r"llama-(batched-)?bench\b",
    r"--mean-input-tokens",
)
_CHUNK_GAP = ("itl", "inter_token_latency", "inter_token", "inter_chunk_latency", "icl", "tbt", "time_between_tokens")
_CHUNK_COUNT = ("chunks_per_s", "peak_throughput", "peak_output_throughput", "streamed_tokens", "chunks", "sse_events",
                "streaming_iterations")  # fmt: skip
_RATE = ("acceptance_rate", "accept_rate", "draft_acceptance_rate", "spec_accept_rate", "system_efficiency",
         "mean_acceptance_rate")  # fmt: skip
_BY_TOKENS = ("aiperf", "genai-perf", "guidellm")
"""Their inter-token latency is (end - first token) / (tokens - 1) already: TPOT."""


@final
@dataclass(frozen=True, slots=True)
class RandomTokens:
    """Nothing can be predicted of random ids: the acceptance of the service is not the one measured."""

    topic: ClassVar[Topic] = Topic("benchmark data", sources.VLLM_RANDOM)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn for synthetic prompts, and add what ignoring the end of text does."""
        if not setup.speculates:
            return
        for line in setup.measuring.benchmarks:
            found = next((hit[0].strip() for pattern in _RANDOM if (hit := re.search(pattern, line))), None)
            if found is None and re.search(r"bench serve\b", line) and "--dataset" not in line:
                found = "no --dataset-name: random is the default"
            if found is None:
                yield self.topic.passes("prompts are not random ids", _short(line))
                continue
            loops = "; with ignore-eos the outputs may also loop, which overstates it" if "ignore" in line else ""
            yield self.topic.warns(
                f"random tokens understate the acceptance of real prompts{loops}",
                found,
                "use recorded prompts, or a dataset like sharegpt, spec_bench or your own log",
            )


@final
@dataclass(frozen=True, slots=True)
class ChunkGaps:
    """A round streams its tokens in one chunk: the gap between chunks is about AL x TPOT."""

    topic: ClassVar[Topic] = Topic("ITL as an objective", sources.SGLANG_CHUNKS)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn for objectives and figures on gaps."""
        if not setup.speculates:
            return
        judged = [*setup.measuring.slos, *setup.measuring.figures, *_objectives(setup.measuring.benchmarks)]
        for text in judged:
            name = figure_name(text)
            if name.removeprefix("median_").removeprefix("mean_").removeprefix("p99_") in _CHUNK_GAP:
                most = (setup.written.draft_tokens or 1) + 1
                yield self.topic.warns(
                    "the gap between streamed chunks is about AL x the time per token: it rises when speculation works",
                    f"{text}: up to {most}x the TPOT at K = {most - 1}",
                    "put the objective on tpot; divide a measured ITL by the acceptance length",
                )
            elif name in _CHUNK_COUNT:
                yield Topic("chunks counted as tokens", sources.SGLANG_CHUNKS).warns(
                    "a streamed chunk holds AL tokens: counting chunks understates tokens per second by that factor",
                    text,
                    "count tokens from the usage field (stream_options include_usage), or by the tokenizer",
                )


@final
@dataclass(frozen=True, slots=True)
class RateOrLength:
    """An acceptance rate is accepted / drafted: it falls with K on the same work and is not alpha."""

    topic: ClassVar[Topic] = Topic("acceptance rate", sources.VLLM_METRICS)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Convert it; warn that it is neither alpha nor comparable over K."""
        for text in setup.measuring.figures:
            if figure_name(text) in _RATE:
                yield self._converted(setup, text)
        counted = setup.before(0, 8) and setup.written.engine == "vllm" and setup.speculates
        if counted:
            yield self.topic.warns(
                "V0's acceptance rate also counts tokens after the first rejection; its system efficiency does not",
                "[1, 0, 1, 0] counts as 0.5, of 5 tokens 2 were emitted: 0.4",
                "use system efficiency x (K + 1) as the acceptance length, or measure on a current release",
            )

    def _converted(self, setup: Setup, text: str) -> Finding:
        k = setup.written.draft_tokens
        number, _, at = text.partition("=")[2].partition("@")
        if at:
            k = notation.human_tokens(at, field="--metric")
        if not number or not k:
            return self.topic.warns(
                "a rate says nothing without its K: it is accepted / drafted and falls with K on the same work",
                text,
                "give it as acceptance_rate=0.3@3, or use the acceptance length",
            )
        rate = notation.finite(number.rstrip("%"), field="--metric", example="acceptance_rate=0.3@3")
        rate /= 100 if number.endswith("%") else 1
        if not 0 <= rate <= 1:
            raise InvalidInput(f"--metric {text}: a rate lies in 0..1 (or 0..100 %), got {number}; correct it")
        efficiency = figure_name(text) == "system_efficiency"
        length = rate * (k + 1) if efficiency else 1 + k * rate
        return self.topic.warns(
            "an acceptance rate is not the probability that a draft is accepted",
            f"{number} at K = {k}: AL = {length:.2f}, alpha = {alpha_of(length, k):.2f}",
            f"give --acceptance-length {length:.2f}@{k}",
        )


@final
@dataclass(frozen=True, slots=True)
class ShortOutputs:
    """An output that fits one round leaves nothing to speed up but that round."""

    topic: ClassVar[Topic] = Topic("short outputs", sources.SPECULATION_BOUND)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Warn where the output is no longer than one round can be."""
        k, output = setup.written.draft_tokens, setup.load.output_tokens
        if not setup.speculates or k is None or output is None:
            return
        number = f"{output} tokens, up to {k + 1} a round"
        if output <= k + 1:
            yield self.topic.warns(
                "the whole output fits one round: TTFT is all a user sees, and drafting adds to it",
                number,
                "serve these requests without speculation; `--simulate` shows the latency of both",
            )
        else:
            yield self.topic.passes("outputs last several rounds; `--simulate` weighs them against TTFT", number)


@final
@dataclass(frozen=True, slots=True)
class TokenForToken:
    """Speculation keeps the distribution, not the tokens: other batch shapes round differently, other draws follow."""

    topic: ClassVar[Topic] = Topic("reproducibility", sources.SAMPLING_LAW)

    def findings(self, setup: Setup) -> Iterator[Finding]:
        """Stop where the service needs the same tokens."""
        if not setup.measuring.exact or not setup.speculates:
            return
        rows = setup.written.verify_rows or 2
        if batch_invariant(setup):
            yield self.topic.warns(
                "kernels are batch-invariant: greedy outputs can agree, sampled ones follow other draws",
                f"{rows} rows a sequence instead of 1",
                "verify greedy outputs with and without speculation on your prompts; serve sampled requests plainly",
            )
        else:
            yield self.topic.stops(
                "the same tokens are needed, but speculation is lossless in distribution only",
                f"{rows} rows a sequence instead of 1: other kernels, other rounding, other draws",
                "serve without speculation, or with batch-invariant kernels and greedy sampling",
            )


def batch_invariant(setup: Setup) -> bool:
    """Whether kernels were asked for whose rounding does not depend on the batch."""
    written = setup.written
    return written.environment.get("VLLM_BATCH_INVARIANT") == "1" or written.switch("enable-deterministic-inference")


def alpha_of(length: float, draft_tokens: int) -> float:
    """The i.i.d. acceptance of one draft that gives an acceptance length at K."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        reached = sum(middle**position for position in range(draft_tokens + 1))
        low, high = (middle, high) if reached < length else (low, middle)
    return high


def figure_name(text: str) -> str:
    """The metric of `itl_p95=30ms`, `inter-token-latency:30` or `ITL`."""
    name = re.split(r"[=:<\s]", text.strip(), maxsplit=1)[0].lower().replace("-", "_")
    return re.sub(r"(_p\d+(\.\d+)?|_ms|_s)+$", "", name)


def _objectives(lines: tuple[str, ...]) -> list[str]:
    """Objectives of benchmark lines whose inter-token latency is the gap between chunks."""
    found: list[str] = []
    for line in lines:
        if any(tool in line for tool in _BY_TOKENS):
            continue
        objectives = re.search(r"--goodput((?:[= ]+\"?[a-z_]+:[\d.]+\"?)+)", line)
        found += re.findall(r"[a-z_]+:[\d.]+", objectives[1]) if objectives else []
    return found


def _short(line: str) -> str:
    return line if len(line) <= 60 else f"{line[:57]}…"
