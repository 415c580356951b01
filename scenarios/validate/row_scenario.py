"""A published row as a scenario: the deployment and load it was measured with, its open fields as alternatives."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from roofline.catalog import gpu
from roofline.counts import weight_bytes
from roofline.errors import InvalidInput
from roofline.hf_config import load_model
from roofline.hf_gguf import gguf_format
from roofline.hf_typical import TYPICAL
from roofline.specs import Model
from scenarios.schema import HEAD_METHODS, MATCHING_METHODS
from scenarios.validate.given_acceptance import acceptance_length_of
from scenarios.validate.naming import Machine, Named, engine_of, head_of, machine_of, method_of, model_of, plain_text
from scenarios.validate.priors import Range, chosen, lengths_of, quantiles
from scenarios.validate.rows import Row
from scenarios.validate.shapes import Shape, shape_of

Load = Literal["batch", "concurrency", "rate"]
Measure = Literal["decode", "throughput", "latency"]
GROUPS = (1, 2, 4, 8, 16)
GGUF_FORMATS = ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq3_xxs", "iq2_xxs")
SERVED_FORMATS = ("fp8", "nvfp4")
"""Formats tried where none is published, widest first."""
USUAL_GPUS = {
    "paper": ("A100-SXM-80GB", "RTX-3090"),
    "llama.cpp": ("RTX-4090", "RTX-3090", "RTX-5090"),
    "vllm": ("H100-SXM", "A100-SXM-80GB", "H200-SXM"),
}
"""GPUs that published rows of an engine are usually from, the commonest first; for rows that name none."""
MEMORY_SHARE_FRACTION = 0.85
"""Largest share of the GPUs' memory that the weights of a deployment of unstated size take."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One way a row may have been measured.

    `deployment`: tables target, hardware, engine and speculation of a scenario. `length`: AL.
    """

    deployment: dict[str, Any]
    shape: Shape
    length: float
    load: Load
    load_value: float
    input_tokens: int
    output_tokens: int
    measure: Measure

    @property
    def key(self) -> str:
        """What cost tables depend on, as text."""
        return json.dumps(self.deployment, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Setups:
    """The middle of every open field first, then the draws (none where nothing is open).

    `assumed`: what was filled in. `tags`: families the row counts for.
    """

    variants: tuple[Setup, ...]
    assumed: tuple[str, ...]
    engine: str
    gpu: str
    model: str
    tags: dict[str, str]


def setups_of(row: Row) -> Setups:
    """Everything a prediction needs of a row.

    Raises
    ------
    SpecdecError
        The row cannot be computed; the message is the reason.
    """
    _refuse_other_quantities(row)
    engine, method = engine_of(row.engine, dated=row.dated), method_of(row.method)
    target = model_of(row.target_model)
    machines = machines_of(row, engine.name)
    shape = shape_of(row, method=method.name, engine=engine.name)
    length = acceptance_length_of(row, shape, method=method.name, model=target.name)
    choices = [
        choice
        for name in ([method.name, method.other] if method.other else [method.name])
        for machine in machines
        for choice in _choices(row, machine, engine, target, method=name, shape=shape)
    ]
    if not choices:
        raise InvalidInput(f"{row.target_model} fits no group of up to {max(GROUPS)} {machines[0].gpu}")
    prompt, answer = _lengths(row)
    fields = {"length": length.length, "input": prompt, "output": answer}
    varied = len(choices) > 1 or any(one.low < one.high for one in fields.values())
    base = _Base([choice.deployment for choice in choices], shape, _load(row), _measure(row, engine.name))
    draws = _draws(row.id, base, fields)
    first = choices[0]
    head = first.deployment["speculation"].get("draft") == TYPICAL
    assumed = (
        machines[0].note, engine.note, target.note, shape.assumed, length.assumed, first.note,
        "a head of the usual shape" if head else "", *_length_notes(row), method.other and f"or {method.other}",
    )  # fmt: skip
    return Setups(
        variants=draws if varied else draws[:1],
        assumed=tuple(note for note in assumed if note),
        engine=engine.name,
        gpu=machines[0].gpu,
        model=target.name,
        tags=_tags(row, engine.name, method.name, _loaded(target.name, first.quantization), shape),
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """One deployment a row may have had, and what was assumed for it."""

    deployment: dict[str, Any]
    quantization: str | None
    note: str


@dataclass(frozen=True, slots=True)
class _Base:
    deployments: list[dict[str, Any]]
    shape: Shape
    load: tuple[Load, float]
    measure: Measure


def _choices(row: Row, machine: Machine, engine: Named, target: Named, *, method: str, shape: Shape) -> list[_Choice]:
    """The deployments of a row on one kind of GPU, the likeliest first; none where no group holds the weights."""
    quantization, kv = _formats(row, target)
    quantization, format_note = _fitting(row, machine, target.name, quantization)
    counts, count_note = _group(row, machine, _loaded(target.name, quantization))
    note = "; ".join(text for text in (count_note, format_note) if text)
    served = {"model": target.name, "quantization": quantization, "kv_cache_dtype": kv}
    tables = {
        "target": served,
        "engine": _engine_table(row, engine),
        "speculation": _speculation(row, served, method=method, shape=shape),
    }
    return [
        _Choice({**tables, "hardware": {"gpu": machine.gpu, "tensor_parallel": count}}, quantization, note)
        for count in counts
    ]


def _draws(row_id: str, base: _Base, fields: dict[str, Range]) -> tuple[Setup, ...]:
    at = {name: quantiles(row_id, name) for name in (*fields, "deployment")}
    setups: list[Setup] = []
    for number in range(len(at["deployment"])):
        values = {name: one.at(at[name][number]) for name, one in fields.items()}
        setups.append(
            Setup(
                deployment=chosen(base.deployments, at["deployment"][number]),
                shape=base.shape,
                length=values["length"],
                load=base.load[0],
                load_value=base.load[1],
                input_tokens=max(1, round(values["input"])),
                output_tokens=max(2, round(values["output"])),
                measure=base.measure,
            )
        )
    return tuple(setups)


def _refuse_other_quantities(row: Row) -> None:
    """What is no speed-up at equal load."""
    if row.speedup is None:
        raise InvalidInput("no speed-up is given")
    if "interactivity" in row.load_type or "iso_interactivity" in row.metric:
        raise InvalidInput("compares frontiers at equal tokens/s per user, not both arms at one load")
    if row.simulable == "no":
        raise InvalidInput(f"marked as not comparable{f': {row.notes}' if row.notes else ''}"[:160])
    if row.load_value is None:
        raise InvalidInput("load_value is not given or no number")


def _load(row: Row) -> tuple[Load, float]:
    value = row.load_value or 1.0
    kind = row.load_type.lower().strip()
    if kind.startswith(("qps", "rate", "rps", "request")):
        return "rate", value
    if kind.startswith(("conc", "users", "streams")):
        return "concurrency", max(1.0, round(value))
    if kind.startswith("batch") or not kind:
        return "batch", max(1.0, round(value))
    raise InvalidInput(f"load_type {row.load_type!r} is not batch_size, concurrency or qps")


def _measure(row: Row, engine: str) -> Measure:
    metric = row.metric.lower()
    if any(word in metric for word in ("tpot", "itl", "decode", "per_user", "per_stream", "per_seq", "peak_output")):
        return "decode"
    if "latency" in metric and ("mean" in metric or "wall" in metric or row.load_type == "qps"):
        return "latency"
    if engine == "llama.cpp" and metric == "tokens_per_s":
        return "decode"
    if engine in ("paper", "gpt-fast") or metric.startswith(("speedup_latency", "speedup_tps")):
        return "decode"
    return "latency" if metric.startswith("e2e") else "throughput"


def _lengths(row: Row) -> tuple[Range, Range]:
    prompt, answer = lengths_of(row.dataset)
    if row.input_tokens is not None:
        prompt = Range(row.input_tokens.low, row.input_tokens.value, row.input_tokens.high)
    if row.output_tokens is not None:
        most = row.output_tokens.high
        if _bounded(row):
            answer = Range(min(answer.low, most), min(answer.middle, most), min(answer.high, most))
        else:
            answer = Range(row.output_tokens.low, row.output_tokens.value, most)
    return prompt, answer


def _bounded(row: Row) -> bool:
    return row.output_tokens is not None and row.output_limit


def _length_notes(row: Row) -> tuple[str, ...]:
    missing = [name for name, given in (("input", row.input_tokens), ("output", row.output_tokens)) if given is None]
    return (f"{' and '.join(missing)} lengths usual for the dataset",) if missing else ()


def _formats(row: Row, target: Named) -> tuple[str | None, str | None]:
    """(`target.quantization`, `target.kv_cache_dtype`) of what the table says about number formats."""
    said = row.target_dtype.lower()
    kv = "fp8" if "kv fp8" in said or "kv8" in said else None
    weights = said.replace("kv fp8", "").split("->")[-1]
    found = _weights(weights) or _weights(plain_text(row.target_model)) or target.dtype or None
    own = any(name in target.name.lower() for name in ("gpt-oss", "deepseek-v3", "kimi"))
    return (None if own and found in ("mxfp4", "fp8") else found), kv


def _fitting(row: Row, machine: Machine, target: str, quantization: str | None) -> tuple[str | None, str]:
    """The format, or where none is published and the weights do not fit, the widest usual one in which they do."""
    gpus = row.tensor_parallel or row.gpus or machine.count
    if quantization is not None or gpus is None:
        return quantization, ""
    room_bytes = gpus * gpu(machine.gpu).memory_bytes * MEMORY_SHARE_FRACTION
    if weight_bytes(_loaded(target, None)) <= room_bytes:
        return None, ""
    formats = GGUF_FORMATS if "llama" in row.engine.lower() else SERVED_FORMATS
    for name in formats:
        if weight_bytes(_loaded(target, name)) <= room_bytes:
            return name, f"{name} weights: wider ones do not fit"
    return None, ""


def _weights(text: str) -> str | None:
    if gguf_format(text) is not None:
        return text.strip()
    words = {"nvfp4": "nvfp4", "mxfp4": "mxfp4", "fp4": "nvfp4", "fp8": "fp8", "w8a8": "int8", "awq": "awq",
             "gptq": "gptq", "int4": "int4", "4bit": "int4", "4-bit": "int4", "w4a16": "int4", "8bit": "fp8",
             "int8": "int8", "bf16": "bf16", "fp16": "bf16", "float16": "bf16", "f16": "bf16"}  # fmt: skip
    return next((name for word, name in words.items() if word in text), None)


def machines_of(row: Row, engine: str) -> tuple[Machine, ...]:
    """The GPU of a row; where it names none, those its notes name, else those that are usual for the engine."""
    if row.hardware.strip():
        return (machine_of(row.hardware),)
    named: list[Machine] = []
    for word in re.findall(r"(?:RTX ?)?\b(?:[ABHL]\d{2,3}S?|GB\d{3}|[345]0[6-9]0)\b", row.notes):
        try:
            named.append(machine_of(word))
        except InvalidInput:
            continue
    kinds = [machine.gpu for machine in named] or list(USUAL_GPUS.get(engine, USUAL_GPUS["vllm"]))
    note = f"hardware not given: {' or '.join(dict.fromkeys(kinds))}"
    return tuple(Machine(kind, None, note) for kind in dict.fromkeys(kinds))


def _group(row: Row, machine: Machine, model: Model) -> tuple[tuple[int, ...], str]:
    """Tensor-parallel sizes the row may have: what it says, else those that hold the weights, the fewest first."""
    if row.tensor_parallel is not None:
        return (row.tensor_parallel,), ""
    given = row.gpus or machine.count
    if given is not None:
        if given > max(GROUPS):
            raise InvalidInput(f"{given} GPUs are more than one replica's tensor parallel group")
        return (given,), "" if given == 1 else f"tensor parallel over the {given} GPUs"
    memory_bytes = gpu(machine.gpu).memory_bytes * MEMORY_SHARE_FRACTION
    holding = [count for count in GROUPS if weight_bytes(model) / count <= memory_bytes]
    return tuple(holding[:2]), f"{' or '.join(str(count) for count in holding[:2])} GPUs, not published"


def _engine_table(row: Row, engine: Named) -> dict[str, Any]:
    """Engines with few slots by default were given as many as the row needs."""
    few = engine.name in ("llama.cpp", "paper", "gpt-fast")
    return {"profile": engine.name, "max_sequences": max(4, round(row.load_value or 1)) if few else None}


def _speculation(row: Row, served: dict[str, Any], *, method: str, shape: Shape) -> dict[str, Any]:
    speculation: dict[str, Any] = {"method": method, "draft_tokens": shape.draft_tokens}
    mapped = re.search(r"(\d+)\s*%\s*vocab", row.method.lower())
    if mapped:
        vocabulary = _loaded(served["model"], served["quantization"]).vocab_size
        speculation["draft_vocabulary_tokens"] = max(1, round(vocabulary * int(mapped[1]) / 100))
    if shape.tree:
        speculation["tree"] = {"nodes": shape.draft_tokens, "depth": shape.depth, "beam": shape.beam}
        if method == "medusa":
            speculation["tree"] = {"widths": _medusa_widths(shape)}
            del speculation["draft_tokens"]
    if method in MATCHING_METHODS:
        speculation["proposal_fraction"] = _proposal_fraction(row, shape)
    elif method in HEAD_METHODS and method != "mtp":
        speculation["draft"] = head_of(method, served["model"]) or TYPICAL
    elif method in ("draft_model", "pard"):
        speculation["draft"] = _draft_name(row).name
        draft_format = _weights(row.draft_model.lower())
        if draft_format is not None:
            speculation["draft_quantization"] = draft_format
    return speculation


def _proposal_fraction(row: Row, shape: Shape) -> float:
    """Share of rounds with drafts: AL - 1 drafts are accepted a round, a known share of those that were made."""
    if row.acceptance_length is None or row.acceptance_alpha is None or row.acceptance_alpha.value <= 0:
        return 1.0
    made = (row.acceptance_length - 1.0) / row.acceptance_alpha.value
    return round(min(1.0, max(made / shape.draft_tokens, 1e-4)), 6)


def _medusa_widths(shape: Shape) -> tuple[int, ...]:
    """Widths of a full tree about as large as the published 63 nodes of 4 heads."""
    return (3, 3, 2, 2) if shape.depth >= 4 else (3,) * max(1, shape.depth)


def _draft_name(row: Row) -> Named:
    if row.draft_model:
        return model_of(row.draft_model, what="draft_model")
    size = row.draft_params_b
    family = "Qwen/Qwen3-0.6B" if "qwen" in row.target_model.lower() else "meta-llama/Llama-3.2-1B-Instruct"
    if "vicuna" in row.target_model.lower() or "llama 2" in plain_text(row.target_model):
        family = "double7/vicuna-68m"
    if size is not None and size > 2:
        raise InvalidInput("draft_model is not given")
    return Named(family, note=f"draft taken as {family}")


@cache
def _loaded(name: str, quantization: str | None) -> Model:
    return load_model(name, quantization=quantization)


def _tags(row: Row, engine: str, method: str, model: Model, shape: Shape) -> dict[str, str]:
    kinds = {"paper": "paper frameworks", "gpt-fast": "paper frameworks", "llama.cpp": "llama.cpp"}
    experts = any(layer.experts is not None for layer in model.layers)
    bits = model.precision.experts.bits_per_weight if experts else model.precision.ffn.bits_per_weight
    return {
        "engine class": kinds.get(engine, "serving engines"),
        "engine": engine,
        "method": f"{method} tree" if shape.tree else method,
        "model kind": "MoE" if experts else "dense",
        "load type": _load(row)[0],
        "weights": "16-bit" if bits >= 16 else "8-bit" if bits >= 7.5 else "under 8-bit",
    }
