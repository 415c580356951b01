"""Compare whole forward passes: from fitted constants, and with matrix products as measured; and interpolation.

Prints, for each system: the difference of a forward pass of Llama-3.1-8B and 70B over 1 to 512 tokens between the
constants and the measured tables (median, largest), and what reading a table at a number of rows left out of it is
off by (median over shapes and rows).

Usage: python docs/derivations/check_forwards.py UNPACKED_WHEEL CALIBRATIONS SYSTEM...
"""

import argparse
from pathlib import Path

import numpy as np

from calibrate.kernel_tables.gemm import matrices
from calibrate.kernel_tables.grid import measured_matrices, not_falling
from calibrate.kernel_tables.package import Package, open_package
from calibrate.kernel_tables.reading import read_rows
from calibrate.kernel_tables.systems import MATRIX_FORMATS
from roofline.calibration import load_calibration
from roofline.catalog import gpu
from roofline.cost import trunk_s
from roofline.hf_config import load_model
from roofline.measured_matrices import row_place
from roofline.operators import Shard, logits_operators
from roofline.tables_cost import measured_logits_s, measured_trunk_s

MODELS = ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-70B-Instruct")
MOST_ROWS = 512


def left_out_errors(package: Package, system: str) -> np.ndarray:
    """Relative errors of reading the bf16 time at a measured row count from the other row counts of its shape."""
    table = package.table(system, "vllm", "gemm/gemm")
    assert table is not None
    products = matrices(read_rows(table, "gemm"), "bfloat16", MATRIX_FORMATS["bfloat16"]).products
    cache_bytes = gpu(package.system(system).gpu).l2_bytes or 0.0
    cold = 2.0 * products.columns * products.inner >= cache_bytes
    products = products.where(cold & (products.rows <= 2 * MOST_ROWS))
    errors: list[float] = []
    for shape in np.unique(np.stack([products.columns, products.inner]), axis=1).T:
        own = products.where((products.columns == shape[0]) & (products.inner == shape[1]))
        place, seconds = row_place(own.rows), own.seconds
        for index in range(1, len(place) - 1):
            if own.rows[index] <= MOST_ROWS:
                others = np.arange(len(place)) != index
                curve = not_falling(seconds[others])
                read_s = np.exp(np.interp(place[index], place[others], np.log(curve)))
                errors.append(abs(read_s / seconds[index] - 1.0))
    return np.array(errors)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("calibrations", type=Path)
    parser.add_argument("systems", nargs="+")
    arguments = parser.parse_args()
    package = open_package(arguments.package)
    for name in arguments.systems:
        system = package.system(name)
        measured = measured_matrices(package, name, "vllm")
        calibration = load_calibration(arguments.calibrations / f"{system.gpu}--vllm.json")
        bf16 = next(one for one in measured if one.weights == "bf16")
        errors = left_out_errors(package, name)
        print(f"{name}: one row count left out, median {np.median(errors):.1%}, p90 {np.quantile(errors, 0.9):.1%}")
        tokens = bf16.rows[bf16.rows <= MOST_ROWS].astype(np.int64)
        shard = Shard(gpu(system.gpu), calibration, graph_tokens=tuple(range(1, MOST_ROWS + 1)))
        for label in MODELS:
            model = load_model(label)
            fitted_s = trunk_s(model, tokens, shard)
            fitted_s = fitted_s + sum(operator.seconds for operator in logits_operators(model, tokens, shard))
            read_s = measured_trunk_s(model, tokens, shard=shard, measured=measured) + measured_logits_s(
                model, tokens, shard=shard, measured=measured
            )
            errors = fitted_s / read_s - 1.0
            worst = int(np.argmax(np.abs(errors)))
            print(
                f"  {label}: median {np.median(np.abs(errors)):.1%}, p90 {np.quantile(np.abs(errors), 0.9):.1%}, "
                f"largest {errors[worst]:+.1%} at {tokens[worst]} tokens"
            )


if __name__ == "__main__":
    main()
