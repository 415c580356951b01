"""The seven don'ts, judged by evidence of the given scenario: both arms simulated at its load, no fixed threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from roofline.errors import DoesNotFit, InvalidInput, SpecdecError
from scenarios.build import Service, build_service
from scenarios.check import sources
from scenarios.check.checking import CheckReport
from scenarios.check.finding import Finding, Level, Topic
from scenarios.check.rules.measuring import alpha_of, batch_invariant
from scenarios.check.rules.schedules import batch_rows
from scenarios.check.setup import Setup
from scenarios.files import scenario_from_dict
from scenarios.loads import LoadPoint, load_points, own_load, workload_at
from scenarios.notation import SLO_METRICS
from scenarios.questions.break_even import simulate_arm, speculating_arm
from scenarios.questions.load_run import LoadOutcome, run_load
from scenarios.report import words
from simulator.compare import Interval, paired_speedup

_MISMATCH_RULES = ("vocabulary", "width of the head", "size of the draft", "basis of the hidden states", "draft window")
_RANK: dict[Level, int] = {"pass": 0, "warn": 1, "stop": 2}
BUSY, SHORT = "1 saturated throughput", "7 short outputs"
ACCEPTED, EXACT = "2 low acceptance", "3 same tokens needed"
MEMORY, STAGES, MISMATCH = "4 memory full", "5 pipeline parallel", "6 mismatched draft"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Both arms at the scenario's load, and the latency of whole requests.

    `memory_cost` is the speed-up of the speculating arm if its draft took no cache: 1 where memory is not short.
    """

    service: Service
    outcome: LoadOutcome
    request_speedup: Interval | None
    memory_cost: Interval | None
    mean_output_tokens: float


def with_limits(report: CheckReport, setup: Setup, table: Mapping[str, Any], *, origin: str) -> CheckReport:
    """The report with the seven checks put first.

    Raises
    ------
    InvalidInput
        The scenario is incomplete: no GPU, no workload, no speculation.
    """
    if not setup.speculates:
        raise InvalidInput(
            "--simulate compares two ways of serving, but nothing is drafted; configure speculation first"
        )
    scenario = scenario_from_dict(scenario_table_of(setup, table), origin=origin)
    seven: tuple[Finding, ...]
    try:
        _check_computed(setup, report)
        service = build_service(scenario)
        _check_holds_a_request(service)
    except DoesNotFit as error:
        seven = (_topic(MEMORY).stops("target and draft do not fit", str(error), "use ngram or suffix, or more memory"),
                 *_static(report))  # fmt: skip
    except SpecdecError as error:
        seven = (*_not_evaluated(str(error)), *_static(report))
    else:
        seven = seven_checks(report, setup, gather(service))
    return replace(report, findings=(*sorted(seven, key=lambda finding: finding.rule), *report.findings))


def _check_computed(setup: Setup, report: CheckReport) -> None:
    """Raise for what is not simulated, so that nothing else is simulated in its place."""
    if any(finding.rule == "pipeline parallelism" and finding.level == "stop" for finding in report.findings):
        raise InvalidInput(
            f"{setup.written.pipeline} pipeline stages with speculation do not run, so are not simulated"
        )
    if setup.written.top_k > 1:
        raise InvalidInput(f"a tree of top-k {setup.written.top_k} is not simulated here; give a chain (top-k 1)")
    if setup.written.engine == "llamacpp":
        raise InvalidInput("llama.cpp has no engine profile to simulate")


def _check_holds_a_request(service: Service) -> None:
    """Raise where the cache beside the draft is too small for every request of the scenario."""
    workload = workload_at(service.scenario, _point(service), trace=service.trace, seed=0)
    limits = speculating_arm(service).limits
    capacity = limits.kv_blocks * limits.block_tokens
    shortest = int((workload.prompt_tokens + workload.output_tokens).min()) + limits.lookahead_tokens
    if shortest > capacity:
        raise DoesNotFit(f"the shortest request needs {shortest:,} tokens of cache, {capacity:,} are left by the draft")


def _point(service: Service) -> LoadPoint:
    """The scenario's own load, or the last point of its sweep."""
    points = load_points(service.scenario, service.trace)
    own = own_load(service.scenario, service.trace)
    return LoadPoint(0, points[0].kind, own) if own is not None else points[-1]


def scenario_table_of(setup: Setup, table: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's table with what the configuration says, in place of the serve line."""
    written = setup.written
    engine = {
        "profile": written.engine,
        "gpu_memory_utilization_fraction": written.memory_fraction if written.engine != "trtllm" else None,
        "max_batched_tokens": written.max_batched_tokens,
        "max_sequences": written.max_sequences,
        "max_context_tokens": written.max_context_tokens,
        "chunked_prefill": written.chunked_prefill,
        "enforce_eager": written.eager or None,
    }
    speculation: dict[str, Any] = {
        "method": written.method or "none",
        "draft_tokens": written.draft_tokens,
        "draft_tokens_by_batch": batch_rows(written.speculative.get("num_speculative_tokens_per_batch_size")) or None,
        "draft": None if written.method == "mtp" else setup.draft.source if setup.draft else written.draft,
    }
    target = {"model": setup.target.source if setup.target else written.target, "quantization": written.quantization}
    hardware = {"tensor_parallel": written.tensor, "draft_tensor_parallel": written.draft_tensor}
    filling = {"target": target, "hardware": hardware, "engine": engine, "speculation": speculation}
    merged = {key: value for key, value in table.items() if key not in ("serve", "slo")}
    for section, values in filling.items():
        given = cast("Mapping[str, Any]", table.get(section) or {})
        known = {key: value for key, value in values.items() if value is not None}
        merged[section] = {**given, **known}
    merged["slo"] = [text for text in setup.measuring.slos if text.strip().startswith(SLO_METRICS)]
    return merged


def gather(service: Service) -> Evidence:
    """Simulate both arms at the scenario's own load, over its seeds."""
    scenario = service.scenario
    point = _point(service)
    outcome = run_load(service, point)
    workloads = [workload_at(scenario, point, trace=service.trace, seed=seed) for seed in range(scenario.run.seeds)]
    request_speedup = memory_cost = None
    if service.cases:
        models, first = service.middle_case.models, scenario.run.seed
        arm = speculating_arm(service)
        roomy = replace(arm, limits=arm.limits.model_copy(update={"kv_blocks": service.off.limits.kv_blocks}))
        off = [simulate_arm(service.off, load, seed=first + seed) for seed, load in enumerate(workloads)]
        on, free = (
            [simulate_arm(one, load, models=models, seed=first + seed) for seed, load in enumerate(workloads)]
            for one in (arm, roomy)
        )
        request_speedup = paired_speedup(off, on, metric="latency")
        memory_cost = paired_speedup(on, free, metric="latency")
    return Evidence(service, outcome, request_speedup, memory_cost, float(workloads[0].output_tokens.mean()))


def seven_checks(report: CheckReport, setup: Setup, evidence: Evidence) -> tuple[Finding, ...]:
    """One finding for each row of the do-not-use list."""
    return (
        _busy(evidence),
        _accepted(evidence),
        _exact(setup, evidence),
        _memory(evidence),
        *_static(report, evidence),
        _short(evidence),
    )


def _topic(rule: str) -> Topic:
    return Topic(rule, sources.SPECULATION_BOUND)


def _busy(evidence: Evidence) -> Finding:
    topic, outcome = _topic(BUSY), evidence.outcome
    case, load = outcome.middle, outcome.point.text
    if case is None:
        return _unknown(topic, evidence)
    number = (
        f"{load}, mean batch {case.on.mean_batch:.0f}: S(TPOT) {words.speedup(case.tpot_speedup)}, "
        f"S(throughput) {words.speedup(case.throughput_speedup)}"
    )
    fix = "serve this load without speculation, or with K by batch size (`specdec decide` prints the ranges)"
    if outcome.off.saturated and case.on.saturated:
        if case.throughput_speedup.high < 1:
            return topic.stops("the service is saturated, and speculation lowers its throughput", number, fix)
        if case.throughput_speedup.low > 1:
            return topic.passes("saturated, and speculation still carries more", number)
        return topic.warns("saturated, and speculation carries no more", number, fix)
    if case.on.saturated:
        return topic.stops("plain decoding keeps up with this load, speculation does not", number, fix)
    if outcome.off.saturated:
        return topic.passes("only speculation keeps up with this load", number)
    if case.tpot_speedup.low > 1 and case.throughput_speedup.high < 1:
        return topic.warns("tokens come sooner, but fewer of them: requests queue", number, fix)
    return _by_interval(topic, case.tpot_speedup, ("tokens come", "at this load"), number, fix)


def _accepted(evidence: Evidence) -> Finding:
    topic, outcome, service = _topic(ACCEPTED), evidence.outcome, evidence.service
    if outcome.middle is None:
        return _unknown(topic, evidence)
    k = service.draft_tokens
    length = service.middle_case.length(k)
    needed = outcome.break_even
    shown = f"AL {length:.2f} at K = {k} (alpha {alpha_of(length, k):.2f})"
    fix = "fewer drafts, a better draft for this work, or none"
    if needed.kind == "never":
        return topic.stops("no acceptance pays at this load", f"{shown}; K + 1 = {k + 1} would not do", fix)
    if needed.kind == "always":
        return topic.passes("any acceptance pays at this load", shown)
    if needed.kind == "unknown":
        return topic.warns("no break-even was found at this load", shown, "more requests, or longer outputs")
    number = f"{shown}, break-even {needed.length:.2f} (alpha {alpha_of(needed.length, k):.2f})"
    if length >= needed.length and outcome.middle.tpot_speedup.is_tie:
        return topic.warns("acceptance lies at the break-even", number, fix)
    if length >= needed.length:
        return topic.passes("acceptance lies above the break-even", number)
    if outcome.middle.tpot_speedup.is_tie:
        return topic.warns("acceptance lies at the break-even", number, fix)
    return topic.stops("acceptance lies below the break-even", number, fix)


def _exact(setup: Setup, evidence: Evidence) -> Finding:
    topic = Topic(EXACT, sources.SAMPLING_LAW)
    off, case = evidence.outcome.off.mean_batch, evidence.outcome.middle
    on = f"{case.on.mean_batch:.1f}" if case is not None else "another batch"
    number = f"rows of a step: plain {off:.1f} x 1, speculating {on} x {setup.written.verify_rows or 2}"
    if not setup.measuring.exact:
        return topic.passes("not asked for (--exact): the distribution is kept, the tokens are not", number)
    if batch_invariant(setup):
        return topic.warns(
            "batch-invariant kernels: greedy outputs may agree", number, "verify on your prompts; no sampling"
        )
    return topic.stops(
        "other rows round differently: the same tokens cannot be promised", number, "serve these requests plainly"
    )


def _memory(evidence: Evidence) -> Finding:
    topic, outcome = Topic(MEMORY, sources.VLLM_OOM), evidence.outcome
    account = speculating_arm(evidence.service).memory
    lost = f"{account.kv_tokens_lost:,} of {account.kv_tokens_without_draft:,} cache tokens go to the draft"
    case = outcome.middle
    cost, requests = evidence.memory_cost, evidence.request_speedup
    if case is None or cost is None or requests is None:
        return topic.passes("no acceptance, so only the account", lost)
    off, on = outcome.off, case.on
    number = f"{lost}; preemptions {off.preemptions:.0f} plain, {on.preemptions:.0f} speculating"
    fix = "ngram or suffix hold no weights and reserve no look-ahead; or more memory"
    if on.refused_fraction > off.refused_fraction:
        number += f"; refused {words.share_text(on.refused_fraction)} against {words.share_text(off.refused_fraction)}"
        return topic.stops("requests that fit without the draft are refused with it", number, fix)
    if cost.low > 1:
        number += f"; with that memory back, requests would be {words.speedup(cost)} times as fast"
        if requests.high < 1:
            return topic.stops("the cache is full, and the draft's share costs more than drafting gains", number, fix)
        return topic.warns("the cache is full: the draft's share of it costs part of the gain", number, fix)
    return topic.passes("the draft's memory costs this load nothing", number)


def _short(evidence: Evidence) -> Finding:
    topic, request_speedup = _topic(SHORT), evidence.request_speedup
    if request_speedup is None:
        return _unknown(topic, evidence)
    number = f"{evidence.mean_output_tokens:.0f} tokens out: S(latency of the request) {words.speedup(request_speedup)}"
    return _by_interval(
        topic, request_speedup, ("whole requests come", "at this length"), number, "serve these requests plainly"
    )


def _static(report: CheckReport, evidence: Evidence | None = None) -> tuple[Finding, Finding]:
    """Stages and mismatch: the worst of the rules, and for the draft also what its cost leaves at this load."""
    stages = [finding for finding in report.findings if finding.rule == "pipeline parallelism"]
    worst = max(stages, key=lambda finding: _RANK[finding.level], default=None)
    first = replace(worst, rule=STAGES) if worst is not None else _topic(STAGES).passes("one stage", "1 stage")
    found = [finding for finding in report.findings if finding.rule in _MISMATCH_RULES]
    bad = max(found, key=lambda finding: _RANK[finding.level], default=None)
    if bad is not None and bad.level != "pass":
        return first, replace(bad, rule=MISMATCH)
    topic = _topic(MISMATCH)
    if evidence is None:
        return first, topic.passes("no rule found a mismatch", f"{len(found)} rules applied")
    split = evidence.outcome.round
    number = f"R = {split.ratio:.2f} at batch {split.batch}, K + 1 = {split.draft_tokens + 1}"
    if split.ratio >= split.draft_tokens + 1:
        return first, topic.stops(
            "a round costs more than every draft accepted would yield: the draft is too dear for this target",
            number,
            "use a smaller draft, fewer drafts, or none",
        )
    return first, topic.passes("a round costs less than full acceptance yields", number)


def _by_interval(topic: Topic, speedup: Interval, words_: tuple[str, str], number: str, fix: str) -> Finding:
    what, where = words_
    if speedup.high < 1:
        return topic.stops(f"{what} later with speculation {where}", number, fix)
    if speedup.low > 1:
        return topic.passes(f"{what} sooner with speculation {where}", number)
    return topic.warns(f"{what} neither sooner nor later {where}", number, fix)


def _unknown(topic: Topic, evidence: Evidence) -> Finding:
    needed = evidence.outcome.break_even
    most = evidence.service.draft_tokens + 1
    words_ = {"never": f"above {most}", "always": "any", "unknown": "not found", "at": f"{needed.length:.2f}"}
    number = words_[needed.kind]
    text = f"acceptance length needed at {evidence.outcome.point.text}: {number}"
    if needed.kind == "never":
        return topic.stops("no acceptance pays at this load", text, "serve this load without speculation")
    return topic.warns("no acceptance is given", text, "measure it and give --acceptance-length L@K")


def _not_evaluated(reason: str) -> tuple[Finding, ...]:
    return tuple(
        _topic(rule).warns("cannot be evaluated", reason, "see the reason")
        for rule in (BUSY, ACCEPTED, EXACT, MEMORY, SHORT)
    )
