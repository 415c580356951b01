"""From the command line's table and options to a setup: what is written, models, GPU, load, measuring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios.check.setup import Measuring, ServedLoad, Setup, computed_models, facts
from scenarios.imports.configuration import read_command, read_file
from scenarios.imports.written import Written, version_of, whole

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "llamacpp": "llamacpp", "llama.cpp": "llamacpp"}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Options of `specdec check` beside the scenario's."""

    file: str | None = None
    engine_version: str | None = None
    benchmarks: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    against: str | None = None
    exact: bool = False


def read_setup(table: Mapping[str, Any], options: CheckOptions) -> Setup:
    """The setup of a scenario table with the options laid over it.

    Raises
    ------
    InvalidInput
        No configuration, two of them, or a value that does not read.
    """
    serve = table.get("serve")
    if serve and options.file:
        raise InvalidInput("--serve and --file both give a configuration; keep one of the two")
    benchmarks = options.benchmarks
    if options.file:
        written, found = read_file(options.file)
        benchmarks = (*benchmarks, *found)
    else:
        written = read_command(serve) if isinstance(serve, str) else _written_of(table)
    return _setup(_overlaid(written, table), table, options, benchmarks)


def _setup(written: Written, table: Mapping[str, Any], options: CheckOptions, benchmarks: tuple[str, ...]) -> Setup:
    target = facts(written.target, _entry(table, "target", "model"))
    draft = facts(written.draft, _entry(table, "speculation", "draft"))
    gpu_name = _entry(table, "hardware", "gpu")
    gpu = profile = None
    models: dict[str, Any] = {}
    if gpu_name:
        from roofline.catalog import gpu as catalogue_gpu
        from roofline.catalog import load_gpu_file

        is_file = gpu_name.endswith(".toml")
        gpu = load_gpu_file(Path(gpu_name)) if is_file else catalogue_gpu(gpu_name)
        if written.engine != "llamacpp":
            from roofline.catalog import engine as catalogue_engine

            profile = catalogue_engine(written.engine)
    if gpu is not None or written.method == "draft_model":
        models = dict(computed_models(written, target, draft))
    return Setup(
        written=written,
        version=version_of(options.engine_version) if options.engine_version else None,
        target=target,
        draft=draft,
        gpu=gpu,
        profile=profile,
        load=_load(table),
        measuring=Measuring(
            slos=tuple(str(text) for text in table.get("slo") or ()),
            figures=options.figures,
            benchmarks=benchmarks,
            exact=options.exact,
        ),
        against=read_command(options.against) if options.against else None,
        models=models,
    )


def _written_of(table: Mapping[str, Any]) -> Written:
    """What a scenario's own tables say, in the vocabulary of configurations."""
    target = _entry(table, "target", "model")
    if target is None:
        raise InvalidInput(
            'no configuration to check: give --serve "vllm serve …", --file config.yaml, or a scenario with a target'
        )
    name = _entry(table, "engine", "profile") or "vllm"
    if name not in ENGINES:
        raise InvalidInput(f"--engine must be one of {', '.join(sorted(ENGINES))}, got {name!r}; correct it")
    method = _entry(table, "speculation", "method")
    section = cast("Mapping[str, Any]", table.get("speculation") or {})
    engine = cast("Mapping[str, Any]", table.get("engine") or {})
    hardware = cast("Mapping[str, Any]", table.get("hardware") or {})
    k = whole(section.get("draft_tokens"), name="speculation.draft_tokens")
    ranges = section.get("draft_tokens_by_batch")
    return Written(
        engine=cast("Any", ENGINES[name]),
        speculative={"num_speculative_tokens_per_batch_size": [list(row) for row in ranges]} if ranges else {},
        target=target,
        quantization=_entry(table, "target", "quantization"),
        kv_cache_dtype=_entry(table, "target", "kv_cache_dtype"),
        draft=_entry(table, "speculation", "draft"),
        draft_quantization=_entry(table, "speculation", "draft_quantization"),
        method=None if method in (None, "none") else method,
        method_text=method,
        draft_tokens=k,
        verify_rows=None if k is None else k + 1,
        tensor=hardware.get("tensor_parallel") or 1,
        draft_tensor=hardware.get("draft_tensor_parallel"),
        max_sequences=engine.get("max_sequences"),
        max_batched_tokens=engine.get("max_batched_tokens"),
        max_context_tokens=engine.get("max_context_tokens"),
        memory_fraction=engine.get("gpu_memory_utilization_fraction"),
        chunked_prefill=engine.get("chunked_prefill"),
        eager=bool(engine.get("enforce_eager")),
        graph_unit="tokens" if name == "vllm" else "sequences",
    )


def _overlaid(written: Written, table: Mapping[str, Any]) -> Written:
    """Options that say more than the serve line: --tp, --method, -k."""
    hardware = cast("Mapping[str, Any]", table.get("hardware") or {})
    section = cast("Mapping[str, Any]", table.get("speculation") or {})
    changes: dict[str, Any] = {}
    if written.target is None and _entry(table, "target", "model"):
        changes["target"] = _entry(table, "target", "model")
    if hardware.get("tensor_parallel") and written.tensor == 1:
        changes["tensor"] = hardware["tensor_parallel"]
    if written.method is None and section.get("method") not in (None, "none"):
        changes |= {"method": section["method"], "method_text": section["method"]}
    if written.draft_tokens is None and section.get("draft_tokens"):
        changes |= {"draft_tokens": section["draft_tokens"], "verify_rows": section["draft_tokens"] + 1}
    return replace(written, **changes) if changes else written


def _load(table: Mapping[str, Any]) -> ServedLoad:
    workload = cast("Mapping[str, Any]", table.get("workload") or {})
    return ServedLoad(
        concurrency=workload.get("concurrency"),
        rate_per_s=workload.get("rate_per_s"),
        input_tokens=_length(workload.get("input_tokens")),
        output_tokens=_length(workload.get("output_tokens")),
    )


def _length(value: object) -> int | None:
    if isinstance(value, Mapping):
        mean = cast("Mapping[str, Any]", value).get("mean_tokens")
        return int(mean) if mean is not None else None
    return value if isinstance(value, int) else None


def _entry(table: Mapping[str, Any], section: str, key: str) -> str | None:
    value = cast("Mapping[str, Any]", table.get(section) or {}).get(key)
    return None if value is None else str(value)
