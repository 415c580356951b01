"""Routed experts of a table: bytes of the experts that got a token, flops of the tokens each got.

`balanced` rows give every expert its share, so min(experts, rows) are touched; where a table has only skewed rows
the uniform expectation stands in. Experts cut over GPUs are rows with `moe_tp_size` > 1; with `moe_ep_size` > 1 a
GPU holds whole experts and takes its share of the routed rows (checked, not fitted).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.bands import Peaks, Products, banded_fit, fit_bands
from calibrate.kernel_tables.gemm import predicted_s
from calibrate.kernel_tables.held_out import held_out_mask, residual
from calibrate.kernel_tables.reading import Rows, chosen, fastest
from calibrate.kernel_tables.systems import TableFormat
from roofline.calibration import OperatorFit, Residual

BAND_STARTS = (1, 9, 33, 129, 513, 1025, 3073)
REPORTED_TOKENS = ((1, 16), (17, 128), (129, 1024), (1025, 8192))
MAX_TOKENS = 8192
FEWEST_LAUNCHES = 40
"""In a range of tokens, for a fit; a format without that many at the fewest tokens is not calibrated."""
ACTIVATION_BYTES = 2.0
SHAPE = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
MATRICES = 3.0
"""Gate, up and down."""


@dataclass(frozen=True, slots=True)
class ExpertLaunches:
    """Launches of one number format: as products by tokens, the weights they read, whether experts are whole."""

    products: Products
    weight_bytes: NDArray[np.float64]
    whole_experts: NDArray[np.bool_]
    held_out: NDArray[np.bool_]


def expert_launches(rows: Rows, dtype: str, fmt: TableFormat) -> ExpertLaunches | None:
    """Launches of a format, None where there are none."""
    own = chosen(rows, (rows["moe_dtype"] == dtype) & (rows["num_tokens"] <= MAX_TOKENS))
    balanced = own["distribution"] == "balanced"
    spread = bool(balanced.any())
    own = chosen(own, balanced if spread else own["distribution"] == "power_law_1.01")
    if not len(own["seconds"]):
        return None
    own, seconds = fastest(own, SHAPE)
    tokens, hidden = own["num_tokens"].astype(float), own["hidden_size"].astype(float)
    width, groups = own["inter_size"] / own["moe_tp_size"], own["moe_ep_size"].astype(float)
    routed = tokens * own["topk"] / groups
    local = own["num_experts"] / groups
    uniform = local * (1.0 - (1.0 - own["topk"] / own["num_experts"]) ** tokens)
    touched = np.minimum(local, routed) if spread else uniform
    each = MATRICES * hidden * width
    weight_bytes = touched * each * fmt.bytes_per_weight
    products = Products(
        rows=tokens,
        columns=2.0 * width,
        inner=hidden,
        hbm_bytes=weight_bytes + routed * (2 * hidden + 3 * width) * ACTIVATION_BYTES,
        flops=2.0 * routed * each,
        seconds=seconds,
    )
    shape = (own["hidden_size"], own["inter_size"], own["num_experts"], own["topk"], own["moe_tp_size"])
    return ExpertLaunches(products, weight_bytes, groups > 1, held_out_mask(*shape))


def fit_experts(
    table: ExpertLaunches, peaks: Peaks, *, weights: str, cache_bytes: float
) -> tuple[OperatorFit, list[Residual]] | None:
    """Constants from cold launches of cut experts that are not held out, and their errors; None for too few rows."""
    seen = ~table.held_out & ~table.whole_experts & (table.weight_bytes >= cache_bytes)
    bands, steps = fit_bands(table.products.where(seen), peaks, starts=BAND_STARTS, fewest=FEWEST_LAUNCHES)
    if not bands or bands[0].rows > 1:
        return None
    fit = banded_fit("moe_gemm", weights, bands=bands, steps=steps, processors=peaks.processors)
    return fit, _residuals(table, fit, cache_bytes)


def _residuals(table: ExpertLaunches, fit: OperatorFit, cache_bytes: float) -> list[Residual]:
    cold = table.weight_bytes >= cache_bytes
    kinds = (
        ("experts cut", cold & table.held_out & ~table.whole_experts),
        ("experts whole", cold & table.whole_experts),
    )
    found: list[Residual] = []
    for name, mask in kinds:
        for first, last in REPORTED_TOKENS:
            inside: NDArray[Any] = (table.products.rows >= first) & (table.products.rows <= last)
            products = table.products.where(mask & inside)
            if len(products.rows):
                group = f"{name} {fit.weights}, {first} to {last} tokens"
                found.append(residual(group, predicted_s(products, fit), products.seconds))
    return found
