"""Attention of a table: prompts, decoding, and what follows for verification, which no table measures.

Decoding reads each sequence's cache once for its one row: `overhead_s + per_sequence_s * sequences * cached heads`
and the cache's bytes over a bandwidth. Prompts give the rate of the arithmetic. A verification of K + 1 rows does
both: the cache once at the decoding kernel's bandwidth, its pairs at the prompt kernel's rate, joined like any
operator. With one row the arithmetic then hides behind the bytes, as in the decoding rows it is checked on. Kernels
for ragged batches (a verification, or decoding beside a prompt) compute whole tiles of rows: `row_tile`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from calibrate.kernel_tables.bands import Peaks
from calibrate.kernel_tables.held_out import held_out_mask, residual, significant
from calibrate.kernel_tables.reading import Rows, chosen
from calibrate.kernel_tables.systems import ROW_TILES
from roofline.calibration import OperatorFit, Residual
from roofline.operators import joined_s

FloatArray = NDArray[np.float64]
HEAD_ELEMENTS = 128
FEWEST_CONTEXT_TOKENS = 64
FEWEST_PROMPT_TOKENS = 512
"""Shorter prompts take some ten microseconds of launch whatever they compute."""
LARGEST_GROUP = 16
LAUNCH_BOUND_BYTES = 2e6
SPREAD = 0.1
REPORTED_GROUP = 4


@dataclass(frozen=True, slots=True)
class Launches:
    """Attention launches of one cache format, arrays of one length; bytes of cache read, flops of causal pairs."""

    sequences: FloatArray
    cached_heads: FloatArray
    group: FloatArray
    context_tokens: FloatArray
    cache_bytes: FloatArray
    flops: FloatArray
    seconds: FloatArray
    held_out: NDArray[np.bool_]
    kernel: NDArray[np.str_]
    other_s: FloatArray
    """What was measured with the kernel and is priced apart."""

    def where(self, mask: NDArray[Any]) -> Launches:
        """Those where `mask` holds."""
        return Launches(*(getattr(self, name)[mask] for name in self.__slots__))

    def cold(self, last_level_bytes: float) -> Launches:
        """Those whose cache does not fit the last-level cache, where a repeated launch would find it, or is tiny."""
        return self.where((self.cache_bytes >= last_level_bytes) | (self.cache_bytes <= LAUNCH_BOUND_BYTES))

    def predicted_s(self, fit: OperatorFit) -> FloatArray:
        """Seconds by the constants, as `roofline.attention` uses them."""
        joined = joined_s(self.cache_bytes / fit.bytes_per_s, self.flops / fit.flops_per_s, fit.p_norm)
        return self.other_s + fit.overhead_s + fit.per_sequence_s * self.sequences * self.cached_heads + joined


def launches(rows: Rows, dtype: str, bytes_per_element: float, *, prompt: bool) -> Launches:
    """Full-context launches of 128-element heads, up to 16 query heads per cached head."""
    keep = (rows["kv_cache_dtype"] == dtype) & (rows["head_dim"] == HEAD_ELEMENTS)
    if "window_size" in rows:
        keep &= rows["window_size"] == 0
    keep &= rows["attn_dtype"] != "fp8"
    own = chosen(rows, keep)
    heads = own["num_heads"].astype(float)
    cached = np.where(own["num_key_value_heads"] > 0, own["num_key_value_heads"], heads).astype(float)
    sequences = own["batch_size"].astype(float)
    context = (own["isl"] if prompt else own["step"] + own["isl"]).astype(float)
    pairs = context * (context + 1) / 2 if prompt else context
    found = Launches(
        sequences=sequences,
        cached_heads=cached,
        group=heads / cached,
        context_tokens=context,
        cache_bytes=sequences * context * cached * 2 * HEAD_ELEMENTS * bytes_per_element,
        flops=4.0 * sequences * pairs * heads * HEAD_ELEMENTS,
        seconds=own["seconds"],
        held_out=held_out_mask(heads, cached, sequences, context),
        kernel=own["kernel_source"].astype(str),
        other_s=np.zeros(len(own["seconds"])),
    )
    fewest = FEWEST_PROMPT_TOKENS if prompt else FEWEST_CONTEXT_TOKENS
    return found.where((context >= fewest) & (found.group <= LARGEST_GROUP))


def fit_prompts(table: Launches, peaks: Peaks, weights: str) -> OperatorFit:
    """Constants of prompts: launch, arithmetic; the bandwidth of reading keys again is the memory's."""

    def fit(constants: FloatArray) -> OperatorFit:
        return OperatorFit(
            operator="attention_prefill",
            weights=weights,
            overhead_s=significant(float(np.exp(constants[0]))),
            bytes_per_s=peaks.bytes_per_s,
            flops_per_s=significant(float(np.exp(constants[1])) * peaks.flops_per_s),
            p_norm=significant(float(np.exp(constants[2]))),
            per_sequence_s=0.0,
        )

    start = np.log([1e-5, 0.5, 2.0])
    bounds = (np.log([1e-6, 0.01, 1.0001]), np.log([1e-4, 1.0, 16.0]))
    return fit(solve(table.where(~table.held_out), fit, start=start, bounds=bounds))


def fit_decoding(table: Launches, peaks: Peaks, *, weights: str, flops_per_s: float) -> OperatorFit:
    """Constants of decoding, with the arithmetic of the prompt kernel."""
    kernels, launched = np.unique(table.kernel, return_counts=True)
    row_tile, packs_group = ROW_TILES.get(str(kernels[np.argmax(launched)]), (1, False))

    def fit(constants: FloatArray) -> OperatorFit:
        return OperatorFit(
            operator="attention_decode",
            weights=weights,
            overhead_s=significant(float(np.exp(constants[0]))),
            bytes_per_s=significant(float(np.exp(constants[1])) * peaks.bytes_per_s),
            flops_per_s=flops_per_s,
            p_norm=significant(float(np.exp(constants[2]))),
            per_sequence_s=significant(float(np.exp(constants[3]))),
            row_tile=row_tile,
            packs_group=packs_group,
        )

    start = np.log([8e-6, 0.8, 2.0, 1e-8])
    bounds = (np.log([1e-6, 0.05, 1.0001, 1e-11]), np.log([1e-4, 1.0, 16.0, 1e-5]))
    return fit(solve(table.where(~table.held_out), fit, start=start, bounds=bounds))


def residuals(table: Launches, fit: OperatorFit) -> list[Residual]:
    """Errors on launches left out: grouped queries, and one query head per cached head apart."""
    name = "decoding" if fit.operator == "attention_decode" else "prompts"
    found: list[Residual] = []
    for label, mask in (
        (f"{REPORTED_GROUP} to {LARGEST_GROUP} query heads a cached head", table.group >= REPORTED_GROUP),
        (f"fewer than {REPORTED_GROUP} query heads a cached head", table.group < REPORTED_GROUP),
    ):
        checked = table.where(mask & table.held_out)
        if len(checked.seconds):
            group = f"attention {name} {fit.weights}, {label}"
            found.append(residual(group, checked.predicted_s(fit), checked.seconds))
    return found


def solve(
    table: Launches,
    fit: Callable[[FloatArray], OperatorFit],
    *,
    start: FloatArray,
    bounds: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Constants (logarithms) that fit the table best: small relative errors count squared, large ones linearly."""

    def errors(constants: FloatArray) -> FloatArray:
        return np.log(table.predicted_s(fit(constants)) / table.seconds)

    # Constants are rounded inside: a step of the numerical derivative must be larger than the rounding.
    found = least_squares(errors, start, bounds=bounds, loss="soft_l1", f_scale=SPREAD, diff_step=1e-2)
    return np.asarray(found.x, float)
