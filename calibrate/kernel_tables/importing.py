"""From the tables of one system and engine to a `Calibration`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import date

from calibrate.kernel_tables.attention import fit_decoding, fit_prompts, launches
from calibrate.kernel_tables.attention import residuals as attention_residuals
from calibrate.kernel_tables.bands import Peaks
from calibrate.kernel_tables.collective import fit_all_reduce
from calibrate.kernel_tables.experts import expert_launches, fit_experts
from calibrate.kernel_tables.gemm import fit_matrices, launch_bound, matrices
from calibrate.kernel_tables.latent import LatentTable, fit_latent, latent_launches, latent_residuals
from calibrate.kernel_tables.package import Package, TableFile
from calibrate.kernel_tables.reading import Rows, read_rows, sha256
from calibrate.kernel_tables.recurrent import fit_recurrence
from calibrate.kernel_tables.systems import (
    CACHE_FORMATS,
    EXPERT_FORMATS,
    KERNEL_SOURCE,
    MATRIX_FORMATS,
    TableFormat,
    TableSystem,
)
from roofline.calibration import (
    STAND_INS,
    Calibration,
    CollectiveFit,
    Domain,
    Machine,
    OperatorClass,
    OperatorFit,
    Residual,
    Verdict,
)
from roofline.catalog import engine as engine_profile
from roofline.catalog import gpu as catalogue_gpu
from roofline.efficiency import catalogue_calibration
from roofline.specs import Gpu, Source

CREATED = date(2026, 11, 29)
"""Day this import was last changed; not the day it runs, so that a rebuilt file is the same file."""
PACKAGE_SOURCE = Source(
    title="aiconfigurator-core 0.12.0: measured kernel times of serving engines (Apache-2.0)",
    url="https://github.com/ai-dynamo/aiconfigurator",
    retrieved=CREATED,
)
ACCEPTED_GEMM = (0.08, 0.25)
"""Median and 90th percentile a dense fit may miss on shapes left out before the verdict says so."""
FEWEST_LAUNCHES = 50
"""Of attention over one cache format, for constants."""
DOMAIN = Domain(tokens=(1, 16384), batch=(1, 2048), context_tokens=(0, 131072))


@dataclass(slots=True)
class _Findings:
    operators: list[OperatorFit] = field(default_factory=list)
    collectives: list[CollectiveFit] = field(default_factory=list)
    residuals: list[Residual] = field(default_factory=list)
    files: list[TableFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, fits: list[OperatorFit], residuals: list[Residual]) -> None:
        self.operators += fits
        self.residuals += residuals


def import_tables(package: Package, system: str, engine: str) -> Calibration:
    """Constants of a system under an engine: measured where there is a table, the catalogue's elsewhere (noted).

    Raises
    ------
    UnknownName
        No such system or engine; the message lists what exists.
    InvalidInput
        A table with other columns than the known ones.
    """
    own = package.system(system)
    package.check_engine(own.name, engine)
    gpu = catalogue_gpu(own.gpu)
    found = _Findings()
    _add_matrices(found, package, own, gpu, engine)
    _add_attention(found, package, own, gpu, engine)
    _add_latent(found, package, own, gpu, engine)
    _add_experts(found, package, own, gpu, engine)
    _add_others(found, package, own, gpu, engine)
    return _calibration(found, own, gpu, engine)


_KINDS = {
    "context_attention": "attention",
    "generation_attention": "attention",
    **dict.fromkeys(("context_mla", "generation_mla", "mla_context_module", "mla_generation_module"), "mla"),
}
"""Tables that have the columns of another kind."""


def _read(found: _Findings, package: Package, system: TableSystem, engine: str, name: str) -> Rows | None:
    table = package.table(system.name, engine, name)
    if table is None:
        return None
    found.files.append(table)
    kind = name.split("/")[1]
    return read_rows(table, _KINDS.get(kind, kind))


def _peaks(gpu: Gpu, system: TableSystem, fmt: TableFormat) -> Peaks | None:
    rates = {str(name): rate for name, rate in gpu.peak_flops_per_s.items()}
    if fmt.math not in rates:
        return None
    return Peaks(gpu.hbm_bytes_per_s, rates[fmt.math], system.processors)


def _cache_bytes(gpu: Gpu) -> float:
    return gpu.l2_bytes or 0.0


def _add_matrices(found: _Findings, package: Package, system: TableSystem, gpu: Gpu, engine: str) -> None:
    rows = _read(found, package, system, engine, "gemm/gemm")
    assert rows is not None, "an engine is one that has this table"
    launched = launch_bound(rows)
    found.notes += [
        f"{dtype} products were launched one by one when measured: {shortest_s * 1e6:.0f} us at least, which is host "
        f"time; constants of {STAND_INS.get(MATRIX_FORMATS[dtype].weights, 'the catalogue')} stand in"
        for dtype, shortest_s in launched.items()
    ]
    for dtype in sorted(set(rows["gemm_dtype"].tolist()) & set(MATRIX_FORMATS) - set(launched)):
        fmt = MATRIX_FORMATS[dtype]
        peaks = _peaks(gpu, system, fmt)
        if peaks is not None:
            table = matrices(rows, dtype, fmt)
            fit, errors = fit_matrices(table, peaks, weights=fmt.weights, cache_bytes=_cache_bytes(gpu))
            found.add([fit], errors)


def _add_attention(found: _Findings, package: Package, system: TableSystem, gpu: Gpu, engine: str) -> None:
    prompts = _read(found, package, system, engine, "attention/context_attention")
    steps = _read(found, package, system, engine, "attention/generation_attention")
    if prompts is None or steps is None:
        return
    peaks = _peaks(gpu, system, MATRIX_FORMATS["bfloat16"])
    assert peaks is not None, "every GPU of the tables has bf16"
    for dtype, (weights, bytes_per_element) in CACHE_FORMATS.items():
        filled = launches(prompts, dtype, bytes_per_element, prompt=True)
        decoded = launches(steps, dtype, bytes_per_element, prompt=False).cold(_cache_bytes(gpu))
        if min(len(filled.seconds), len(decoded.seconds)) < FEWEST_LAUNCHES:
            continue
        prefill = fit_prompts(filled, peaks, weights)
        decode = fit_decoding(decoded, peaks, weights=weights, flops_per_s=prefill.flops_per_s)
        found.add([decode, prefill], attention_residuals(decoded, decode) + attention_residuals(filled, prefill))


def _add_latent(found: _Findings, package: Package, system: TableSystem, gpu: Gpu, engine: str) -> None:
    """By kernel where an engine was measured so, else by the whole part of the layer."""
    peaks = _peaks(gpu, system, MATRIX_FORMATS["bfloat16"])
    kinds: tuple[tuple[OperatorClass, str, str], ...] = (
        ("mla_decode", "mla/generation_mla", "mla/mla_generation_module"),
        ("mla_prefill", "mla/context_mla", "mla/mla_context_module"),
    )
    for operator, kernel, whole in kinds:
        rows, matrices_fit = _read(found, package, system, engine, kernel), None
        if rows is None:
            rows = _read(found, package, system, engine, whole)
            matrices_fit = next(fit for fit in found.operators if (fit.operator, fit.weights) == ("gemm", "bf16"))
        if rows is None or peaks is None:
            continue
        for dtype, (weights, bytes_per_element) in CACHE_FORMATS.items():
            prompt = operator == "mla_prefill"
            table = latent_launches(LatentTable(rows, matrices_fit), dtype, bytes_per_element, prompt=prompt)
            table = table if prompt else table.cold(_cache_bytes(gpu))
            if len(table.seconds) >= FEWEST_LAUNCHES:
                fit = fit_latent(table, peaks, operator=operator, weights=weights)
                found.add([fit], latent_residuals(table, fit))


def _add_experts(found: _Findings, package: Package, system: TableSystem, gpu: Gpu, engine: str) -> None:
    rows = _read(found, package, system, engine, "moe/moe")
    if rows is None:
        return
    for dtype, fmt in EXPERT_FORMATS.items():
        peaks, table = _peaks(gpu, system, fmt), expert_launches(rows, dtype, fmt)
        if peaks is None or table is None:
            continue
        fitted = fit_experts(table, peaks, weights=fmt.weights, cache_bytes=_cache_bytes(gpu))
        if fitted is not None:
            found.add([fitted[0]], fitted[1])


def _add_others(found: _Findings, package: Package, system: TableSystem, gpu: Gpu, engine: str) -> None:
    rows = _read(found, package, system, engine, "comm/custom_allreduce")
    if rows is not None:
        fits, errors = fit_all_reduce(rows)
        found.collectives += fits
        found.residuals += errors
    rows = _read(found, package, system, engine, "linear_attention/gdn")
    peaks = _peaks(gpu, system, MATRIX_FORMATS["bfloat16"])
    if rows is not None and peaks is not None:
        fit, errors = fit_recurrence(rows, peaks, cache_bytes=_cache_bytes(gpu))
        found.add([fit], errors)


def _calibration(found: _Findings, system: TableSystem, gpu: Gpu, engine: str) -> Calibration:
    """Measured constants first; what no table has comes from the catalogue, with a note that names it."""
    catalogue = catalogue_calibration(gpu, engine_profile(engine))
    measured = {(fit.operator, fit.weights) for fit in found.operators}
    filled = [
        fit
        for fit in catalogue.operators
        if (fit.operator, fit.weights) not in measured and fit.operator != "lm_head" and fit.weights != "fp16"
    ]
    groups = {fit.gpus for fit in found.collectives}
    reduced = [fit for fit in catalogue.collectives if fit.gpus not in groups]
    versions = {file.label.split("/")[1]: file.engine_version for file in found.files}
    return Calibration(
        name=f"{gpu.name} {engine} {versions['gemm']}, from kernel tables",
        label="calibrated",
        machine=Machine(device=gpu.name, engine=engine, versions={"aiconfigurator-core": "0.12.0", **versions}),
        created=CREATED,
        rows_sha256=hashlib.sha256("".join(sha256(file) for file in found.files).encode()).hexdigest(),
        sources=(PACKAGE_SOURCE, gpu.source, system.source, KERNEL_SOURCE, *_host_sources(engine)),
        operators=tuple(found.operators + filled),
        collectives=tuple(sorted(found.collectives + reduced, key=lambda fit: fit.gpus)),
        sampler=catalogue.sampler,
        host=catalogue.host,
        domain=DOMAIN,
        residuals=tuple(found.residuals),
        verdict=_verdict(found.operators, found.residuals),
        notes=_notes(found, filled, reduced),
    )


def _host_sources(engine: str) -> tuple[Source, ...]:
    profile = engine_profile(engine)
    found = [constant.source for constant in profile.host.declared().values()]
    return tuple(dict.fromkeys(found))


def _notes(found: _Findings, filled: list[OperatorFit], reduced: list[CollectiveFit]) -> tuple[str, ...]:
    formats = sorted({f"{fit.weights} {fit.operator}" for fit in filled if fit.operator != "elementwise"})
    notes = [f"inputs: {file.label}, sha256 {sha256(file)}" for file in found.files]
    notes.append("host and sampler: roofline/catalog/engines.toml; elementwise kernels: roofline/catalog/kernels.toml")
    notes += found.notes
    if formats:
        notes.append(f"catalogue efficiencies, in no table: {', '.join(formats)}")
    if reduced:
        notes.append(f"catalogue all-reduce, in no table: over {', '.join(str(fit.gpus) for fit in reduced)} GPUs")
    notes.append(
        "attention of a verification is in no table: the cache is read once at the decoding kernel's bandwidth, "
        "its arithmetic runs at the prompt kernel's rate, over whole tiles where the kernel has them"
    )
    return tuple(notes)


def _verdict(operators: list[OperatorFit], residuals: list[Residual]) -> Verdict:
    """Reasons against dense constants, by the weight format they are of."""
    by_weights: dict[str, tuple[str, ...]] = {}
    for weights in (fit.weights for fit in operators if fit.operator == "gemm"):
        reasons = tuple(
            f"{one.group}: median {one.median_abs_error_fraction:.1%}, p90 {one.p90_abs_error_fraction:.1%} "
            "when left out"
            for one in residuals
            if one.held_out
            and one.group.startswith(f"gemm {weights},")
            and (one.median_abs_error_fraction > ACCEPTED_GEMM[0] or one.p90_abs_error_fraction > ACCEPTED_GEMM[1])
        )
        if reasons:
            by_weights[weights] = reasons
    return Verdict(stable=True, by_weights=by_weights)
