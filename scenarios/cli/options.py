"""Options that describe a scenario on the command line, and how they lie over a scenario file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from roofline.errors import InvalidInput
from scenarios import notation

Command = TypeVar("Command", bound=Callable[..., Any])

_METHODS = "eagle3, eagle, mtp, medusa, draft_model, pard, p_eagle, dflash, dspark, ngram, suffix."
_SETUP_OPTIONS = (
    click.option("--serve", metavar="LINE", help="The whole `vllm serve …` line, quoted."),
    click.option("--model", metavar="NAME|FILE", help="Target: catalogue name or config.json."),
    click.option("--gpu", metavar="NAME|FILE", help="GPU: catalogue name or TOML file."),
    click.option("--tp", metavar="N", help="Tensor parallel size."),
    click.option("--method", metavar="NAME", help=_METHODS),
    click.option("--draft-config", metavar="NAME|FILE", help="Draft head or model: catalogue name or config.json."),
    click.option("--draft-tokens", "-k", metavar="K", help="Draft tokens per round."),
    click.option("--proposal-fraction", metavar="P", help="n-gram, suffix: share of rounds in which a match is found."),
    click.option("--proposal-fractions", metavar="LIST", help="suffix: share of rounds with at least 1, 2, … drafts."),
    click.option("--engine", metavar="NAME", help="Engine profile: vllm, sglang, trtllm, …"),
    click.option("--calibration", metavar="FILE", help="File, or `catalogue`; default: the shipped one."),
    click.option("--clip", is_flag=True, help="Accept use outside the calibration's measured domain."),
)  # fmt: skip
_OPTIONS = (
    *_SETUP_OPTIONS,
    click.option("--trace", metavar="FILE", help="Requests to replay: Azure CSV or Mooncake JSONL."),
    click.option("--rate", metavar="R", help="Poisson arrivals per second; the sweep is 0.25x to 4x."),
    click.option("--burstiness", metavar="B", help="Gamma arrivals; 1 is Poisson, smaller is burstier."),
    click.option("--concurrency", metavar="N", help="Closed loop: requests in flight."),
    click.option("--input-tokens", metavar="N", help="Prompt length."),
    click.option("--output-tokens", metavar="N", help="Output length."),
    click.option("--requests", metavar="N", help="Requests per load and seed."),
    click.option("--loads", metavar="LIST", help="The sweep: 1,2,4 (req/s or in flight) or 0.5x,1x,2x."),
    click.option("--acceptance-length", metavar="L@K", help="Tokens per round, bonus included, at K: 2.4@3."),
    click.option("--alpha", metavar="A", help="Acceptance of one draft, the same at every position."),
    click.option("--per-position", metavar="LIST", help="Unconditional acceptance by position: 0.77,0.62,0.40."),
    click.option("--task", metavar="NAME", help="Published acceptance of a task, with its spread (assumed)."),
    click.option("--acceptance", metavar="FILE", help="Measured: a fragment of acceptance lab or acceptance replay."),
    click.option("--slo", multiple=True, metavar="M_pQ=TIME", help="Objective, repeatable: tpot_p95=40ms."),
    click.option("--seeds", metavar="N", help="Paired repetitions behind every interval."),
    click.option("--seed", metavar="N", help="First seed."),
)  # fmt: skip


def scenario_options(command: Command) -> Command:
    """All options that describe a scenario."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def setup_options(command: Command) -> Command:
    """Those that describe what is served and on what, without its requests."""
    for option in reversed(_SETUP_OPTIONS):
        command = option(command)
    return command


def scenario_table(file: str | None, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The scenario file with the options laid over it, and what to call it in errors.

    An option replaces what the file says; an acceptance, a method or a workload given here replaces the file's
    acceptance, drafts or workload as a whole.
    """
    table: dict[str, Any] = {"schema_version": 1, "name": "command line"}
    if file:
        from scenarios.files import read_scenario_table

        table = read_scenario_table(file)
    given = {name: value for name, value in options.items() if value not in (None, (), False)}
    if "method" in given:
        kept = cast("dict[str, Any]", table.get("speculation") or {}).get("draft_tokens")
        table["speculation"] = {} if kept is None else {"draft_tokens": kept}
    for option, (section, key, read) in _PLACES.items():
        if option in given:
            _put(table, section, key, read(option, given[option]))
    if given.get("clip"):
        _put(table, "hardware", "outside_domain", "clip")
    if "serve" in given:
        table["serve"] = given["serve"]
    if "slo" in given:
        table["slo"] = list(given["slo"])
    _put_acceptance(table, given)
    _put_workload(table, given)
    if "loads" in given:
        table["loads"] = _loads(given["loads"], closed=_kind(table) == "closed")
    return table, f"scenario {file}" if file else "command line"


def asked_workers(text: str | None) -> int:
    """`--workers`, or a process for every core this one may use."""
    from scenarios.questions.pool import available_workers

    if text is None:
        return available_workers()
    return notation.whole(text, field="--workers", example="4, or leave it out for all cores")


def _kind(table: dict[str, Any]) -> object:
    return cast("dict[str, Any]", table.get("workload") or {}).get("kind")


def _put(table: dict[str, Any], section: str, key: str, value: Any) -> None:
    table[section] = {**cast("dict[str, Any]", table.get(section) or {}), key: value}


def _flag(option: str) -> str:
    return f"--{option.replace('_', '-')}"


def _text(option: str, text: str) -> str:
    return text


def _whole(option: str, text: str) -> int:
    value = notation.finite(text, field=_flag(option), example="3")
    if value != int(value):
        raise InvalidInput(f"{_flag(option)} must be a whole number, got {text!r}; write it like 3")
    return int(value)


def _number(option: str, text: str) -> float:
    return notation.finite(text, field=_flag(option), example="4.0")


def _shares(option: str, text: str) -> list[float]:
    return list(notation.number_list(text, field=_flag(option), example="0.6,0.4,0.2"))


_PLACES: dict[str, tuple[str, str, Callable[[str, str], Any]]] = {
    "model": ("target", "model", _text),
    "gpu": ("hardware", "gpu", _text),
    "tp": ("hardware", "tensor_parallel", _whole),
    "calibration": ("hardware", "calibration", _text),
    "engine": ("engine", "profile", _text),
    "method": ("speculation", "method", _text),
    "draft_config": ("speculation", "draft", _text),
    "draft_tokens": ("speculation", "draft_tokens", _whole),
    "proposal_fraction": ("speculation", "proposal_fraction", _number),
    "proposal_fractions": ("speculation", "proposal_fractions", _shares),
    "seed": ("run", "seed", _whole),
    "seeds": ("run", "seeds", _whole),
}


def _put_acceptance(table: dict[str, Any], given: dict[str, Any]) -> None:
    ways = [way for way in ("acceptance_length", "alpha", "per_position", "task", "acceptance") if way in given]
    if len(ways) > 1:
        raise InvalidInput(f"acceptance is given twice, by {' and '.join(_flag(way) for way in ways)}; keep one")
    for option in ("proposal_fraction", "proposal_fractions"):
        if "acceptance" in given and option in given:
            raise InvalidInput(f"proposals are given twice, by {_flag(option)} and --acceptance; keep one")
    for way in ways:
        value = given[way]
        match way:
            case "acceptance_length":
                table["acceptance"] = {"length": value}
            case "alpha":
                table["acceptance"] = {"alpha": _number(way, value)}
            case "per_position":
                shares = notation.number_list(value, field="--per-position", example="0.77,0.62,0.40")
                table["acceptance"] = {"per_position": list(shares)}
            case "acceptance":
                from scenarios.fragments import put_fragment

                put_fragment(table, value, served_file=given.get("file"))
            case _:
                table["acceptance"] = {"task": value}


def _put_workload(table: dict[str, Any], given: dict[str, Any]) -> None:
    if "trace" in given:
        table["workload"] = {"kind": "trace", "path": given["trace"]}
        table.pop("loads", None)
        if "requests" in given:
            table["workload"]["max_requests"] = _whole("requests", given["requests"])
        for option in ("rate", "burstiness", "concurrency", "input_tokens", "output_tokens"):
            if option in given:
                raise InvalidInput(f"{_flag(option)} means nothing beside --trace; keep one of the two")
        return
    fields = {
        "rate": ("rate_per_s", _number),
        "burstiness": ("burstiness", _number),
        "concurrency": ("concurrency", _whole),
        "input_tokens": ("input_tokens", _whole),
        "output_tokens": ("output_tokens", _whole),
        "requests": ("requests", _whole),
    }
    values = {key: read(option, given[option]) for option, (key, read) in fields.items() if option in given}
    if not values:
        return
    before = cast("dict[str, Any]", table.get("workload") or {})
    if before.get("kind") == "trace" and set(values) == {"requests"}:
        table["workload"] = {**before, "max_requests": values["requests"]}
        return
    keep = before if before.get("kind") in ("poisson", "gamma", "closed", "sessions") else {}
    kind = _kind_after(str(keep.get("kind", "poisson")), values)
    if "rate_per_s" in values or "concurrency" in values or (kind == "closed") != (before.get("kind") == "closed"):
        table.pop("loads", None)
    if kind == "closed" or keep.get("kind") == "closed":
        other_kind = _OPEN_ONLY if kind == "closed" else ("concurrency",)
        keep = {key: value for key, value in keep.items() if key not in other_kind or keep["kind"] == kind}
    table["workload"] = {**keep, "kind": kind, **values}


_OPEN_ONLY = ("rate_per_s", "burstiness", "swing")


def _kind_after(before: str, values: dict[str, Any]) -> str:
    """The kind of a workload whose options lie over one of kind `before`."""
    open_loop = [name for name in ("rate_per_s", "burstiness") if name in values]
    if before == "sessions" and ("concurrency" in values or "burstiness" in values):
        option = "--concurrency" if "concurrency" in values else "--burstiness"
        raise InvalidInput(f"{option} means nothing for sessions, which start as a Poisson process; use --rate")
    if "concurrency" in values:
        if open_loop:
            option = "--rate" if "rate_per_s" in open_loop else "--burstiness"
            raise InvalidInput(f"{option} means nothing beside --concurrency, a closed loop; keep one of the two")
        return "closed"
    if "burstiness" in values:
        return "gamma"
    return "poisson" if before == "closed" and open_loop else before


def _loads(text: str, *, closed: bool) -> dict[str, Any]:
    parts = [part.strip() for part in text.split(",")]
    if all(part.endswith("x") for part in parts):
        factors = ",".join(part.removesuffix("x") for part in parts)
        return {"factors": list(notation.number_list(factors, field="--loads", example="0.5x,1x,2x"))}
    values = notation.number_list(text, field="--loads", example="1,2,4")
    return {"concurrencies" if closed else "rates_per_s": list(values)}
