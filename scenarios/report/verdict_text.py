"""The verdict in plain words: headline, intervals of load, why, margin, K, costs."""

from __future__ import annotations

import math

from scenarios.questions.decide import Decision
from scenarios.questions.load_run import LoadOutcome
from scenarios.questions.verdict import Crossing, Segment
from scenarios.report.words import load_text, memory_text, number, paragraph, share_text


def headline(decision: Decision) -> str:
    """One line: the verdict with its loads and K."""
    acceptance = decision.scenario.acceptance
    task = acceptance.task if acceptance is not None else None
    answer = _answer(decision)
    return answer if task is None else f"{answer}, if drafts are accepted as published for task {task!r} (p10 to p90)"


def _answer(decision: Decision) -> str:
    verdict = decision.verdict
    match verdict.headline:
        case "OFF":
            return _off(decision)
        case "SATURATED":
            first = decision.loads[0].point.text
            return f"SATURATED: no load from {first} on can be carried, with or without speculation"
        case "CANNOT SAY" | "INFEASIBLE":
            return _cannot_say(decision)
        case _:
            unsure = any(segment.word == "CANNOT SAY" for segment in verdict.segments)
            return f"{_on(decision)}; {_cannot_say(decision)}" if unsure else _on(decision)


def _on(decision: Decision) -> str:
    verdict, kind = decision.verdict, decision.loads[0].point.kind
    paying = [segment for segment in verdict.segments if segment.word == "ON"]
    k = _k_text(decision)
    match verdict.headline:
        case "ON":
            end = paying[0].ends
            if end is not None:
                return f"ON at every load that can be carried, up to {_at(end, kind)}, {k}"
            return f"ON at every load asked ({_sweep(decision)}), {k}"
        case "ON below" | "ON above":
            edge = paying[0].ends if verdict.headline == "ON below" else paying[0].begins
            return f"{verdict.headline} {_at(edge, kind)}, {k}"
        case _:
            ends = (decision.loads[0].point.value, decision.loads[-1].point.value)
            return f"ON {' and '.join(_between(segment, kind, ends) for segment in paying)}, {k}"


def _off(decision: Decision) -> str:
    segments, kind = decision.verdict.segments, decision.loads[0].point.kind
    answered = [segment for segment in segments if segment.word != "SATURATED"]
    reach = f"at every load asked ({_sweep(decision)})"
    if len(answered) < len(segments):
        reach = "at every load that can be carried"
        reach += "" if answered[-1].ends is None else f", up to {_at(answered[-1].ends, kind)}"
    ties = [segment for segment in answered if segment.word == "TIE"]
    tied = f", a tie {' and '.join(_place(segment, kind) for segment in ties)}" if ties else ""
    return f"OFF {reach}{tied}"


def _sweep(decision: Decision) -> str:
    return f"{decision.loads[0].point.text} to {decision.loads[-1].point.text}"


def _k_text(decision: Decision) -> str:
    by_batch = decision.scenario.speculation.draft_tokens_by_batch
    return "K by batch size" if by_batch else f"K = {decision.draft_tokens}"


def _cannot_say(decision: Decision) -> str:
    """Where nothing can be said, what would decide it, and what is known elsewhere."""
    segments, kind = decision.verdict.segments, decision.loads[0].point.kind
    unsure = [segment for segment in segments if segment.word == "CANNOT SAY"]
    if not unsure:
        reach = "at every load that is carried"
        return f"CANNOT SAY: with and without speculation are within each other's interval {reach}"
    places = " and ".join(place for segment in unsure if (place := _place(segment, kind)))
    others = [f"; {item.word} {_place(item, kind)}" for item in segments if item.word not in ("CANNOT SAY", "ON")]
    return f"CANNOT SAY{' ' * bool(places)}{places}{_what_decides(decision, unsure)}{''.join(others)}"


def _what_decides(decision: Decision, unsure: list[Segment]) -> str:
    """The acceptance lengths at which the answer flips at the loads in doubt."""
    inside = [
        load for load in decision.loads if any(segment.first <= load.point.value <= segment.last for segment in unsure)
    ]
    known = [load for load in inside if load.break_even.kind == "at"]
    without = "" if decision.cases else " without an acceptance length"
    k = decision.draft_tokens
    if all(math.isnan(load.off.tpot_s[0]) for load in inside):
        return ": outputs of one token have no time between tokens to compare"
    if not known:
        return f"{without}: no acceptance length was found at which both are equally good"
    ends = list(dict.fromkeys((known[0].point.index, known[-1].point.index)))
    shown = [(f"{load.break_even.length:.2f}", load.point.text) for load in known if load.point.index in ends]
    if decision.cases:
        needed = " to ".join(f"{length} at {where}" for length, where in shown)
        low, high = decision.cases[0].length(k), decision.cases[-1].length(k)
        assumed = f"published are {low:.2f} to {high:.2f}" if len(decision.cases) > 1 else f"assumed is {low:.2f}"
        return f": pays from an AL@{k} of {needed}, {assumed}"
    texts = [f"AL > {length} at {where}" for length, where in shown]
    return f"{without}: pays if {' and if '.join(texts)} (AL@{k}, bonus included)"


def _place(segment: Segment, kind: str) -> str:
    """Loads of a segment in words; empty where it is the whole sweep."""
    begins = load_text(segment.begins.value, kind) if segment.begins is not None else None
    ends = load_text(segment.ends.value, kind) if segment.ends is not None else None
    if begins and ends:
        return f"between {begins} and {ends}"
    return f"above {begins}" if begins else f"below {ends}" if ends else ""


def _at(crossing: Crossing | None, kind: str) -> str:
    if crossing is None:
        return "the end of the sweep"
    low, high = (f"{end:.3g}" if kind == "rate" else f"{end:.0f}" for end in (crossing.low, crossing.high))
    return f"{load_text(crossing.value, kind)} ({low} to {high})"


def _between(segment: Segment, kind: str, ends: tuple[float, float]) -> str:
    begins = segment.begins.value if segment.begins is not None else ends[0]
    stops = segment.ends.value if segment.ends is not None else ends[1]
    return f"between {load_text(begins, kind)} and {load_text(stops, kind)}"


def interval_lines(decision: Decision) -> list[str]:
    """One line per run of loads with one answer."""
    kind = decision.loads[0].point.kind
    lines: list[str] = []
    for segment in decision.verdict.segments:
        inside = [load for load in decision.loads if segment.first <= load.point.value <= segment.last]
        begins = load_text(segment.begins.value, kind) if segment.begins is not None else None
        ends = load_text(segment.ends.value, kind) if segment.ends is not None else None
        span = f"{begins} to {ends}" if begins and ends else f"above {begins}" if begins else None
        span = span or (f"below {ends}" if ends else "all loads")
        lines.append(f"  {span:<26}{segment.word:<12}{_reasons(inside)}")
    return lines


def _reasons(loads: list[LoadOutcome]) -> str:
    found = [(load, load.middle) for load in loads if load.middle is not None]
    if not found:
        return "no acceptance given"
    if all(case.word == "SATURATED" for _, case in found):
        span = _span([case.throughput_speedup.estimate for _, case in found])
        return f"neither arm keeps up; throughput with speculation is {span} times that without"
    known = [value for _, case in found if math.isfinite(value := case.tpot_speedup.estimate)]
    texts = [f"tokens come {_span(known)} times as fast"] if known else []
    for reason in dict.fromkeys(case.reason for _, case in found):
        where = [load.point.text for load, case in found if case.reason == reason]
        if "only" in reason or "both" in reason:
            places = where[0] if len(where) == 1 else f"{where[0]} to {where[-1]}"
            texts.append(f"{reason.split('; ')[-1]} at {places}")
        elif "interval" in reason or "one token" in reason:
            texts.append(reason)
    return "; ".join(texts)


def _span(values: list[float]) -> str:
    first, last = f"{values[0]:.2f}", f"{values[-1]:.2f}"
    return first if first == last else f"{first} to {last}"


def reference_load(decision: Decision) -> LoadOutcome:
    """The load to explain: the last that pays, else the first."""
    paying = [load for load in decision.loads if load.middle is not None and load.middle.word == "ON"]
    return paying[-1] if paying else decision.loads[0]


def why_lines(decision: Decision) -> list[str]:
    """R against AL at a low and at the decisive load, the margin, the crossover."""
    loads = list(dict.fromkeys([decision.loads[0].point.index, reference_load(decision).point.index]))
    lines: list[str] = []
    for index in loads:
        load = decision.loads[index]
        split = load.round
        gained = f" and yields {load.middle.on.acceptance_length:.2f} tokens (AL)" if load.middle else ""
        lines += paragraph(
            "Why" if index == loads[0] else "",
            f"At {load.point.text} the batch is about {split.batch}; a round with K = {split.draft_tokens} "
            "takes "
            f"R = {split.ratio:.2f} plain steps (verify {split.verify:.2f} + draft {split.draft:.2f} + host "
            f"{split.host:.2f}){gained}. It pays while AL > R.",
        )
    return lines + margin_lines(decision)


def margin_lines(decision: Decision) -> list[str]:
    """How far the acceptance length may fall before the answer flips, at the ends and at the decisive load."""
    loads = {load.point.index: load for load in (decision.loads[0], reference_load(decision))}
    carried = [load for load in decision.loads if load.middle is None or load.middle.word != "SATURATED"]
    loads.update({load.point.index: load for load in carried[-1:]})
    texts: list[str] = []
    unsaid: list[str] = []
    for load in (loads[index] for index in sorted(loads)):
        match load.break_even.kind:
            case "at":
                texts.append(f"{load.break_even.length:.2f} at {load.point.text}")
            case "never":
                texts.append(f"above {decision.longest_length:g} (never) at {load.point.text}")
            case "always":
                texts.append(f"1 (always) at {load.point.text}")
            case "unknown":
                unsaid.append(load.point.text)
    sentences: list[str] = []
    if texts:
        middle = decision.cases[len(decision.cases) // 2] if decision.cases else None
        assumed = "" if middle is None else f"; assumed is {middle.length(decision.draft_tokens):.2f}"
        at = f"at an AL@{decision.draft_tokens} of {', '.join(texts)}"
        sentences.append(f"Speculation breaks even with plain decoding {at}{assumed}.")
    if unsaid:
        sentences.append(f"We cannot say at which AL it breaks even at {', '.join(unsaid)}.")
    return paragraph("Margin", " ".join(sentences))


def advice_lines(decision: Decision) -> list[str]:
    """K by batch size, in words and as engine JSON."""
    advice = decision.advice
    if advice is None:
        return []
    parts = [
        f"batch {item.first}{f'-{item.last}' if item.last > item.first else ''}: "
        + (f"K = {item.draft_tokens}" if item.draft_tokens else "off")
        + (f" ({item.speedup:.2f}x)" if item.draft_tokens else "")
        for item in advice.ranges
    ]
    lines = paragraph("Best K", f"{'; '.join(parts)} (at a context of {decision.context_tokens:,} tokens).")
    if decision.scenario.speculation.tree is None:
        lines.append(f"{'':<12}{advice.engine_json()}")
    lines += shape_lines(decision)
    shown = {load.point.index: load for load in (decision.loads[0], reference_load(decision))}
    gains = [
        f"{load.advised.tpot_speedup.estimate:.2f} at {load.point.text} (as given: "
        f"{load.middle.tpot_speedup.estimate:.2f})"
        for load in shown.values()
        if load.advised is not None
        and load.middle is not None
        and math.isfinite(load.advised.tpot_speedup.estimate + load.middle.tpot_speedup.estimate)
    ]
    if not gains:
        return lines
    return lines + paragraph("", f"Simulated with these, S(TPOT) is {', '.join(gains)}.")


def shape_lines(decision: Decision) -> list[str]:
    """Chain and trees of the same drafter at the lowest and the decisive load, and the best as SGLang starts it."""
    if not decision.shapes:
        return []
    batches = dict.fromkeys(max(1, load.round.batch) for load in (decision.loads[0], reference_load(decision)))
    texts: list[str] = []
    for batch in batches:
        found = [(shape, shape.advice.at(batch)) for shape in decision.shapes]
        each = [
            f"{shape.name} {best.speedup:.2f}x with {best.draft_tokens}" if best.draft_tokens else f"{shape.name} off"
            for shape, best in found
        ]
        texts.append(f"at a batch of {batch} {', '.join(each)}")
    lines = paragraph("Shapes", f"Drafts that pay best {'; '.join(texts)} (closed form).")
    shape, best = max(
        ((shape, shape.advice.at(min(batches))) for shape in decision.shapes), key=lambda pair: pair[1].speedup
    )
    if shape.width > 1 and best.draft_tokens:
        lines.append(
            f"{'':<12}--speculative-num-steps {shape.depth} --speculative-eagle-topk {shape.width} "
            f"--speculative-num-draft-tokens {best.draft_tokens + 1}"
        )
    return lines


def cost_lines(decision: Decision) -> list[str]:
    """Memory and cache that speculation takes, the draft's window, the objectives."""
    memory = decision.memory
    lost = memory.kv_tokens_lost
    tensor = decision.scenario.hardware.tensor_parallel
    if memory.draft_weights_bytes == 0:
        return paragraph("Costs", "No draft model is loaded: no memory, no KV cache.") + _limits_lines(decision)
    lines = paragraph(
        "Costs",
        f"The draft holds {memory_text(memory.draft_weights_bytes)} of weights per GPU ({tensor} "
        f"GPU{'s' * (tensor > 1)}) and "
        f"{number(memory.draft_kv_bytes_per_token)} bytes of cache per token; the KV cache shrinks by "
        f"{lost:,} tokens "
        f"({share_text(lost / max(1, memory.kv_tokens_without_draft))}) to {memory.kv_tokens:,}.",
    )
    return lines + _limits_lines(decision)


def _limits_lines(decision: Decision) -> list[str]:
    lines: list[str] = []
    if decision.window is not None:
        lines += paragraph(
            "Window",
            f"The draft sees {decision.window.window_tokens:,} tokens, and "
            f"{share_text(decision.window.requests_beyond_fraction)} of the requests grow longer: beyond the "
            "window its "
            "drafts count as rejected and are still paid for.",
        )
    refused_fraction = max(load.off.refused_fraction for load in decision.loads)
    if decision.cases:
        refused_fraction = max(case.on.refused_fraction for load in decision.loads for case in load.cases)
    if refused_fraction > 0:
        lines += paragraph(
            "Refused",
            f"{share_text(refused_fraction)} of the requests are longer than the engine takes "
            "(max-model-len, "
            "KV cache) and "
            "are refused; they count against goodput.",
        )
    return lines + slo_lines(decision)


def slo_lines(decision: Decision) -> list[str]:
    """The highest load at which each arm meets the objectives."""
    if not decision.scenario.slo:
        return []
    plain = [load.point.text for load in decision.loads if load.off.meets_slo]
    texts = [f"plain decoding {'up to ' + plain[-1] if plain else 'at no load asked'}"]
    if decision.cases:
        speculating = [load.point.text for load in decision.loads if load.middle and load.middle.on.meets_slo]
        texts.append(f"speculation {'up to ' + speculating[-1] if speculating else 'at no load asked'}")
    return paragraph(
        "SLO", f"{', '.join(decision.scenario.slo)} met by {', by '.join(texts)} (of the loads simulated)."
    )
