"""Derive roofline/catalog/kernels.toml from measured kernel tables.

Reads the tables of the package `aiconfigurator-core` (Apache-2.0): times of single kernels (matrix products,
mixture-of-experts, attention, all-reduce) of serving engines on data-centre GPUs; no end-to-end run, nothing
about speculation. For each GPU, engine and number format it fits

    t = overhead_s + (m**p + c**p)**(1/p),
    m = bytes / (bandwidth_fraction * peak_bytes_per_s), c = flops / (compute_fraction * peak_flops_per_s)

in log space with soft-L1 loss, and prints for each architecture and kernel family the median over GPUs and
engines with the smallest and largest fit as range. Fractions are at most 1: no kernel is faster than the peaks.

Usage (pyarrow, pandas and scipy needed; none is a dependency of the project):

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl -d aic
    python docs/derivations/derive_kernel_constants.py aic/aiconfigurator_core/systems
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from scipy.optimize import least_squares

ARCHITECTURES = {
    "Ampere sm80": ("a100_sxm",),
    "Ada sm89": ("l40s",),
    "Hopper sm90": ("h100_sxm", "h200_sxm"),
    "Blackwell sm10": ("b200_sxm", "b300_sxm", "gb200"),
    "Blackwell sm120": ("rtx_pro_6000_server",),
}
# family -> {dtype of the table: (bytes per weight, bytes per activation, which peak)}
MATRIX_FAMILIES = {
    "16": {"bfloat16": (2.0, 2.0, "bfloat16_tc_flops")},
    "8": {
        "fp8": (1.0, 1.0, "fp8_tc_flops"),
        "fp8_block": (1.0, 1.0, "fp8_tc_flops"),
        "sq": (1.0, 1.0, "int8_tc_flops"),
    },
    "4": {"nvfp4": (0.5625, 0.5625, "fp4_tc_flops"), "w4a8_mxfp4_mxfp8": (0.53, 1.0, "fp8_tc_flops")},
    "dequantised": {
        "int4_wo": (0.53, 2.0, "bfloat16_tc_flops"),
        "int8_wo": (1.0, 2.0, "bfloat16_tc_flops"),
        "w4a16_mxfp4": (0.53, 2.0, "bfloat16_tc_flops"),
    },
}
# One query row per sequence hides the arithmetic: between half-filled tiles and the library's prefill kernels.
UNSEEN_IN_DECODE = {
    "compute_fraction": "{ value = 0.4, low = 0.2, high = 0.65 }",
    "p_norm": "{ value = 2.0, low = 1.0, high = 8.0 }",
}
START = (5e-6, 0.8, 0.6, 2.0)
LOWER, UPPER = (1e-7, 0.05, 0.02, 1.0), (1e-4, 1.0, 1.0, 16.0)


def fit(hbm_bytes: np.ndarray, flops: np.ndarray, seconds: np.ndarray, peaks: tuple[float, float]) -> np.ndarray:
    """(overhead_s, bandwidth fraction, compute fraction, p) of one table."""

    def predicted(log_constants: np.ndarray) -> np.ndarray:
        overhead, bandwidth, compute, p = np.exp(log_constants)
        memory_s, compute_s = hbm_bytes / (peaks[0] * bandwidth), flops / (peaks[1] * compute)
        larger = np.maximum(memory_s, compute_s)
        return overhead + larger * (1 + (np.minimum(memory_s, compute_s) / larger) ** p) ** (1 / p)

    result = least_squares(
        lambda constants: np.log(predicted(constants) / seconds),
        np.log(START),
        loss="soft_l1",
        f_scale=0.05,
        bounds=(np.log(LOWER), np.log(UPPER)),
    )
    return np.exp(result.x)


def newest(systems: Path, gpu: str, family: str, table: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """(engine, rows) of each engine's newest version of a table."""
    for engine in sorted((systems / "data" / gpu / family).glob("*")):
        files = sorted(engine.glob(f"*/{table}_perf.parquet"), key=lambda path: _version(path.parent.name))
        if files:
            yield engine.name, pd.read_parquet(files[-1])


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.replace("rc", ".").replace("post", ".").split(".") if part.isdigit())


def peaks_of(systems: Path, gpu: str, key: str) -> tuple[float, float] | None:
    """Peak bytes/s and flops/s of a GPU for a rate of its system file; None where it has none."""
    spec = yaml.safe_load((systems / f"{gpu}.yaml").read_text())["gpu"]
    return (float(spec["mem_bw"]), float(spec[key])) if key in spec else None


def gemm_fits(systems: Path, gpu: str, family: str) -> list[np.ndarray]:
    """Matrix products of LLM shapes: both sides 1024 to 16384, weights above 16 MB, up to 8192 rows."""
    fits = []
    for _, table in newest(systems, gpu, "gemm", "gemm"):
        for dtype, (weight, activation, key) in MATRIX_FAMILIES[family].items():
            peaks = peaks_of(systems, gpu, key)
            rows = table[table.gemm_dtype == dtype].groupby(["m", "n", "k"], as_index=False).latency.min()
            sides = rows[["n", "k"]].to_numpy()
            rows = rows[(sides.min(1) >= 1024) & (sides.max(1) <= 16384) & (rows.m <= 8192)]
            rows = rows[rows.n * rows.k * weight > 16e6]
            if len(rows) > 100 and peaks:
                moved = rows.n * rows.k * weight + rows.m * rows.k * activation + rows.m * rows.n * 2
                flops = 2.0 * rows.m * rows.n * rows.k
                fits.append(fit(moved.to_numpy(), flops.to_numpy(), rows.latency.to_numpy() * 1e-3, peaks))
    return fits


def moe_fits(systems: Path, gpu: str, family: str) -> list[np.ndarray]:
    """Routed experts, balanced routing: T tokens touch E (1 - (1 - k/E)^T) experts."""
    keys = ["num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size"]
    fits = []
    for _, table in newest(systems, gpu, "moe", "moe"):
        for dtype, (weight, _activation, key) in MATRIX_FAMILIES[family].items():
            peaks = peaks_of(systems, gpu, key)
            rows = table[(table.moe_dtype == dtype) & (table.moe_ep_size == 1) & (table.num_tokens <= 8192)]
            rows = rows[rows.distribution.isin(["balanced", "uniform"])].groupby(keys, as_index=False).latency.min()
            width = rows.inter_size / rows.moe_tp_size
            rows, width = rows[width >= 256], width[width >= 256]
            if len(rows) > 60 and peaks:
                each = 3 * rows.hidden_size * width
                touched = rows.num_experts * (1 - (1 - rows.topk / rows.num_experts) ** rows.num_tokens)
                routed = rows.num_tokens * rows.topk
                moved = touched * each * weight + routed * (2 * rows.hidden_size + 3 * width) * 2
                flops = 2.0 * routed * each
                fits.append(fit(moved.to_numpy(), flops.to_numpy(), rows.latency.to_numpy() * 1e-3, peaks))
    return fits


def _attention_rows(table: pd.DataFrame) -> pd.DataFrame:
    rows = (
        table[(table.head_dim == 128) & table.kv_cache_dtype.isin(["bfloat16", "float16"])]
        if "head_dim" in table
        else table
    )
    rows = rows[rows.window_size == 0] if "window_size" in rows else rows
    kv_heads = np.where(rows.num_key_value_heads > 0, rows.num_key_value_heads, rows.num_heads)
    return rows.assign(kv_heads=kv_heads)


def decode_fits(systems: Path, gpu: str) -> list[np.ndarray]:
    """Decode attention, 4 to 16 query heads per cached head: bandwidth and fixed time; arithmetic is hidden."""
    fits = []
    for _, table in newest(systems, gpu, "attention", "generation_attention"):
        rows = _attention_rows(table)
        group = rows.num_heads / rows.kv_heads
        rows = rows[(group >= 4) & (group <= 16)]
        moved = (rows.batch_size * (rows.step + rows.isl) * rows.kv_heads * 2 * 128 * 2).to_numpy(float)
        keep = moved > 4e6
        seconds = rows.latency.to_numpy()[keep] * 1e-3
        peaks = peaks_of(systems, gpu, "bfloat16_tc_flops")
        if keep.sum() > 60 and peaks:
            fits.append(fit(moved[keep], np.full(keep.sum(), 1.0), seconds, peaks))
    return fits


def prefill_fits(systems: Path, gpu: str) -> list[np.ndarray]:
    """Causal self-attention of whole prompts."""
    fits = []
    for _, table in newest(systems, gpu, "attention", "context_attention"):
        rows = _attention_rows(table)
        flops = (2.0 * rows.batch_size * rows.isl * (rows.isl + 1) * rows.num_heads * 128).to_numpy()
        moved = (rows.batch_size * rows.isl * 2 * (rows.kv_heads + rows.num_heads) * 128 * 2).to_numpy(float)
        keep = flops > 2e9
        peaks = peaks_of(systems, gpu, "bfloat16_tc_flops")
        if peaks:
            fits.append(fit(moved[keep], flops[keep], rows.latency.to_numpy()[keep] * 1e-3, peaks))
    return fits


def all_reduce_rows(systems: Path, gpu: str) -> Iterator[tuple[int, float, float]]:
    """(GPUs, latency up to 32 KiB, bus bandwidth between 1 and 64 MB over the link rate), in graphs.

    `message_size` counts elements of two bytes (calibrate/kernel_tables/collective.py says how that is known).
    """
    node = yaml.safe_load((systems / f"{gpu}.yaml").read_text())["node"]
    for _, table in newest(systems, gpu, "comm", "custom_allreduce"):
        rows = table[~table.kernel_source.str.contains("eager")]
        for gpus, group in rows.groupby("num_gpus"):
            best = group.groupby("message_size", as_index=False).latency.min()
            message_bytes = 2.0 * best.message_size
            small = best[message_bytes <= 32768].latency.median() * 1e-3
            large = best[(message_bytes >= 1e6) & (message_bytes <= 64e6)]
            moved = 2 * (gpus - 1) / gpus * 2.0 * large.message_size
            bandwidth = np.median(moved / (large.latency * 1e-3 - small).clip(lower=1e-7)) / float(
                node["intra_node_bw"]
            )
            yield int(gpus), small, bandwidth


def _triple(values: np.ndarray, *, digits: int = 3) -> str:
    low, middle, high = (f"{value:.{digits}g}" for value in (values.min(), np.median(values), values.max()))
    return f"{{ value = {float(middle)!r}, low = {float(low)!r}, high = {float(high)!r} }}"


def _print_family(architecture: str, family: str, fits: list[np.ndarray]) -> None:
    if not fits:
        return
    columns = np.array(fits)
    print(f'\n[[kernel]]\narchitecture = "{architecture}"\nfamily = "{family}"\nfits = {len(fits)}')
    names = ("overhead_s", "bandwidth_fraction", "compute_fraction", "p_norm")
    for name, values in zip(names, columns.T, strict=True):
        if family == "attention_decode" and name in UNSEEN_IN_DECODE:
            print(f"{name} = {UNSEEN_IN_DECODE[name]}")
        else:
            print(f"{name} = {_triple(values)}")
    if family == "attention_decode":
        print(f"assumed = {sorted(UNSEEN_IN_DECODE)}".replace("'", '"'))


def _print_collective(architecture: str, gpus: int, columns: np.ndarray) -> None:
    print(f'\n[[collective]]\narchitecture = "{architecture}"\ngpus = {gpus}\nfits = {columns.shape[1]}')
    print(f"latency_s = {_triple(columns[1])}")
    print(f"link_fraction = {_triple(np.minimum(columns[2], 1.0))}")


def main() -> None:
    """Print the rows of kernels.toml."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", type=Path, help="aiconfigurator_core/systems of an unpacked wheel")
    systems = parser.parse_args().systems
    for architecture, gpus in ARCHITECTURES.items():
        for family in MATRIX_FAMILIES:
            _print_family(
                architecture,
                f"gemm_{family}",
                [one for gpu in gpus for one in gemm_fits(systems, gpu, family)],
            )
            _print_family(
                architecture, f"moe_{family}", [one for gpu in gpus for one in moe_fits(systems, gpu, family)]
            )
        _print_family(architecture, "attention_decode", [one for gpu in gpus for one in decode_fits(systems, gpu)])
        _print_family(architecture, "attention_prefill", [one for gpu in gpus for one in prefill_fits(systems, gpu)])
        for gpus_in_group in (2, 4, 8):
            found = [row for gpu in gpus for row in all_reduce_rows(systems, gpu) if row[0] == gpus_in_group]
            if found:
                _print_collective(architecture, gpus_in_group, np.array(found).T)


if __name__ == "__main__":
    main()
