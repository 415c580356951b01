"""Multi-head latent attention of a table: every head reads one compressed cache, so its arithmetic can be the limit.

Kernels take the rows of a sequence and its heads together, so a verification of K + 1 rows with h heads a GPU is a
decode step with (K + 1) h heads, and tables go up to 128. Some engines were measured by kernel, others only by the
whole part of the layer: its matrices are then priced by the constants of the same machine and what is left is the
kernel with everything small around it (norms, rotary embedding, writing the cache).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrate.kernel_tables.attention import FEWEST_PROMPT_TOKENS, Launches, solve
from calibrate.kernel_tables.bands import Peaks
from calibrate.kernel_tables.held_out import held_out_mask, residual, significant
from calibrate.kernel_tables.reading import Rows, chosen
from roofline.calibration import OperatorClass, OperatorFit, Residual
from roofline.hf_layers import Latent
from roofline.operators import matrix_s

FloatArray = NDArray[np.float64]
ACTIVATION_BYTES = 2.0


def layer(heads: int) -> Latent:
    """The layer that was measured: DeepSeek-V3's, with the heads of one GPU."""
    return Latent(hidden=7168, heads=heads, query_rank=1536, latent=512, nope=128, rope=64, value=128, inputs=7168)


@dataclass(frozen=True, slots=True)
class LatentTable:
    """Rows of a kernel, or of the whole part of the layer where `matrices` prices what is not the kernel."""

    rows: Rows
    matrices: OperatorFit | None = None


def latent_launches(table: LatentTable, dtype: str, bytes_per_element: float, *, prompt: bool) -> Launches:
    """Launches over one cache format; the matrices of a whole layer are 16-bit."""
    rows = table.rows
    keep = (rows["kv_cache_dtype"] == dtype) & (rows["mla_dtype"] == "bfloat16")
    if "gemm_type" in rows:
        keep &= rows["gemm_type"] == "bfloat16"
    own = chosen(rows, keep)
    heads, sequences = own["num_heads"].astype(np.int64), own["batch_size"].astype(float)
    context = (own["isl"] if prompt else own["step"] + own["isl"]).astype(float)
    shapes = {int(one): layer(int(one)).attention() for one in np.unique(heads)}
    per_pair = {one: spec.prefill_flops_per_pair if prompt else spec.flops_per_pair for one, spec in shapes.items()}
    pairs = sequences * (context * (context + 1) / 2 if prompt else context)
    cached = np.array([shapes[int(one)].kv_elements_per_token for one in heads], dtype=float)
    found = Launches(
        sequences=sequences,
        cached_heads=np.ones_like(sequences),
        group=heads.astype(float),
        context_tokens=context,
        cache_bytes=sequences * context * cached * bytes_per_element,
        flops=pairs * np.array([per_pair[int(one)] for one in heads], dtype=float),
        seconds=own["seconds"],
        held_out=held_out_mask(heads, sequences, context),
        kernel=own["kernel_source"].astype(str),
        other_s=_matrices_s(table.matrices, heads, sequences * (context if prompt else 1.0)),
    )
    return found.where(context >= FEWEST_PROMPT_TOKENS) if prompt else found


def _matrices_s(fit: OperatorFit | None, heads: NDArray[np.int64], tokens: FloatArray) -> FloatArray:
    total_s = np.zeros(len(tokens))
    if fit is None:
        return total_s
    for one in np.unique(heads):
        own = heads == one
        rows = tokens[own]
        for linear in layer(int(one)).linears():
            weights = float(linear.inputs * linear.outputs)
            moved_bytes = ACTIVATION_BYTES * (weights + rows * (linear.inputs + linear.outputs))
            shape = (float(linear.inputs), float(linear.outputs))
            total_s[own] += matrix_s(fit, moved_bytes, 2.0 * rows * weights, rows=rows, shape=shape)
    return total_s


def fit_latent(table: Launches, peaks: Peaks, *, operator: OperatorClass, weights: str) -> OperatorFit:
    """Launch, bandwidth, arithmetic, exponent, and in decoding time per sequence, all from the same rows."""

    def fit(constants: FloatArray) -> OperatorFit:
        overhead_s, bytes_share, flops_share, p_norm, sequence_s = np.exp(constants)
        return OperatorFit(
            operator=operator,
            weights=weights,
            overhead_s=significant(float(overhead_s)),
            bytes_per_s=significant(float(bytes_share) * peaks.bytes_per_s),
            flops_per_s=significant(float(flops_share) * peaks.flops_per_s),
            p_norm=max(1.0, significant(float(p_norm))),
            per_sequence_s=significant(float(sequence_s)) if operator == "mla_decode" else 0.0,
        )

    start = np.log([1e-5, 0.8, 0.5, 2.0, 1e-8])
    bounds = (np.log([1e-7, 0.05, 0.005, 1.0001, 1e-11]), np.log([1e-3, 1.0, 1.0, 16.0, 1e-5]))
    return fit(solve(table.where(~table.held_out), fit, start=start, bounds=bounds))


def latent_residuals(table: Launches, fit: OperatorFit) -> list[Residual]:
    """Errors on launches left out, matrices included where the whole part of the layer was measured."""
    name = "decoding" if fit.operator == "mla_decode" else "prompts"
    checked = table.where(table.held_out)
    return [residual(f"latent attention {name} {fit.weights}", checked.predicted_s(fit), checked.seconds)]
