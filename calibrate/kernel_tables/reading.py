"""Rows of one table as arrays. A column too many or too few is named and refused: it may change the meaning."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.package import INSTALL
from roofline.errors import InvalidInput
from roofline.units import SECONDS_PER_MS

if TYPE_CHECKING:
    from calibrate.kernel_tables.package import TableFile

Rows = dict[str, NDArray[Any]]
_ALWAYS = ("framework", "version", "device", "op_name", "kernel_source", "latency")
COLUMNS: dict[str, tuple[str, ...]] = {
    "gemm": (*_ALWAYS, "gemm_dtype", "m", "n", "k"),
    "attention": (
        *_ALWAYS, "batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "beam_width", "attn_dtype",
        "kv_cache_dtype", "step",
    ),
    "compressed_attention": (
        *_ALWAYS, "model", "architecture", "mla_dtype", "kv_cache_dtype", "gemm_type", "num_heads", "batch_size", "isl",
        "tp_size", "step", "compress_ratio",
    ),
    "hyper_connections": (
        *_ALWAYS, "architecture", "num_tokens", "num_sites", "hc_mult", "hidden_size", "sinkhorn_iters",
    ),
    "mla": (
        *_ALWAYS, "mla_dtype", "kv_cache_dtype", "num_heads", "batch_size", "isl", "tp_size", "step",
    ),
    "moe": (
        *_ALWAYS, "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
        "moe_ep_size", "distribution",
    ),
    "custom_allreduce": (*_ALWAYS, "allreduce_dtype", "num_gpus", "message_size"),
    "gdn": (
        *_ALWAYS, "phase", "batch_size", "seq_len", "num_tokens", "d_model", "d_conv", "num_k_heads", "head_k_dim",
        "num_v_heads", "head_v_dim", "model_name",
    ),
}  # fmt: skip
OPTIONAL = {
    "attention": ("window_size", "power", "power_limit"),
    "mla": ("model", "architecture", "gemm_type"),
    "moe": ("power", "power_limit"),
    "custom_allreduce": ("backend", "implementation"),
}


def read_rows(file: TableFile, kind: str) -> Rows:
    """Columns of a table, with `seconds` in place of `latency` (milliseconds).

    Raises
    ------
    InvalidInput
        pyarrow is absent, or the columns are not those known for this kind of table.
    """
    try:
        import pyarrow.parquet as parquet  # pyright: ignore[reportMissingImports] # optional extra
    except ImportError as error:
        raise InvalidInput(f"reading kernel tables needs pyarrow; install: {INSTALL}") from error
    read_table: Any = parquet.read_table
    table: Any = read_table(file.path, partitioning=None)
    _check_columns(file, kind, tuple(table.column_names))
    rows: Rows = {name: table.column(name).to_numpy() for name in table.column_names}
    rows["seconds"] = np.asarray(rows.pop("latency"), float) * SECONDS_PER_MS
    return chosen(rows, rows["seconds"] > 0)


def chosen(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """The rows where `mask` holds."""
    return {name: values[mask] for name, values in rows.items()}


def fastest(rows: Rows, names: tuple[str, ...]) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.float64]]:
    """Every shape once, as columns of these names, with the seconds of the fastest kernel measured for it.

    An engine picks that kernel too.
    """
    shapes = np.stack([rows[name] for name in names], axis=1).astype(np.int64)
    unique, index = np.unique(shapes, axis=0, return_inverse=True)
    seconds = np.full(len(unique), np.inf)
    np.minimum.at(seconds, index.ravel(), rows["seconds"])
    return {name: unique[:, column] for column, name in enumerate(names)}, seconds


def sha256(file: TableFile) -> str:
    """Hash of the file as shipped in the package."""
    return hashlib.sha256(file.path.read_bytes()).hexdigest()


def _check_columns(file: TableFile, kind: str, names: tuple[str, ...]) -> None:
    missing = sorted(set(COLUMNS[kind]) - set(names))
    unknown = sorted(set(names) - set(COLUMNS[kind]) - set(OPTIONAL.get(kind, ())))
    if missing or unknown:
        raise InvalidInput(
            f"table {file.label}: columns missing {missing}, unknown {unknown}; its meaning may have changed: "
            f"use the known release ({INSTALL})"
        )
