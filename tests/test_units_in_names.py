"""Units are part of a name: seconds, bytes, tokens, flops and `_per_s`; shares are fractions."""

import ast
from collections.abc import Iterator

import pytest

from tests.source_tree import SourceFile, assert_none, package_files

# Conversions live here, and readers of foreign files meet foreign names.
MAY_NAME_FOREIGN_UNITS = (
    "roofline/units.py",
    "scenarios/imports/",
    "scenarios/notation.py",
    "calibrate/tables.py",
)

FOREIGN_UNITS = {
    *(
        "ms",
        "us",
        "ns",
        "msec",
        "usec",
        "millis",
        "milliseconds",
        "microseconds",
        "minutes",
        "hours",
        "sec",
        "secs",
    ),
    *("kb", "mb", "gb", "tb", "kib", "mib", "gib", "tib", "gbps", "gbs", "kbytes", "gigabytes", "gibibytes"),
    *("gflops", "tflops", "teraflops", "pflops", "percent", "pct", "perc", "percentage"),
}
# A name that ends in one of these measures something and does not say in what.
QUANTITIES = {
    *("latency", "latencies", "duration", "durations", "elapsed", "delay", "delays", "timeout", "makespan"),
    *("bandwidth", "bandwidths", "throughput", "throughputs", "goodput", "ttft", "tpot", "itl", "e2el"),
    *("arrival_rate", "request_rate", "service_rate", "utilisation", "utilization"),
}
STATISTICS = {"mean", "median", "min", "max", "std", "total", "p50", "p90", "p95", "p99", "low", "high"}
# "path:name" -> why it carries no unit.
UNITLESS: dict[str, str] = {
    "simulator/saturation.py:bandwidth": "of a kernel, in samples: the statistical term",
}


def _names(file: SourceFile) -> Iterator[tuple[str, int]]:
    """(name, line) of every variable, field, parameter and attribute the file makes."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield (node.id if isinstance(node, ast.Name) else node.attr), node.lineno
        elif isinstance(node, ast.FunctionDef) and _returns_a_number(node):
            yield node.name, node.lineno


def _returns_a_number(node: ast.FunctionDef) -> bool:
    """Functions that return text or objects carry their units inside."""
    return node.returns is not None and ast.unparse(node.returns) in ("float", "int", "FloatArray", "IntArray")


def _complaint(name: str) -> str | None:
    words = name.strip("_").lower().split("_")
    foreign = FOREIGN_UNITS & set(words)
    if foreign:
        return f"is in {', '.join(sorted(foreign))}; use seconds, bytes, flops or a fraction"
    while len(words) > 1 and words[-1] in STATISTICS:
        words = words[:-1]
    if words[-1] in QUANTITIES or "_".join(words[-2:]) in QUANTITIES:
        return "does not say its unit"
    return None


def test_names_carry_base_units():
    found = []
    for file in package_files():
        if file.path.startswith(MAY_NAME_FOREIGN_UNITS):
            continue
        for name, line in _names(file):
            complaint = _complaint(name)
            if complaint and f"{file.path}:{name}" not in UNITLESS:
                found.append(f"{file.path}:{line} {name} {complaint}")
    assert_none(found)


@pytest.mark.parametrize(
    "name",
    [
        "latency",
        "ttft_p95",
        "step_ms",
        "memory_gib",
        "MEMORY_GB",
        "hit_percent",
        "link_bandwidth",
        "request_rate",
        "gb",
    ],
)
def test_a_name_without_its_unit_is_found(name):
    assert _complaint(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "latency_s",
        "ttft_p95_s",
        "step_s",
        "memory_bytes",
        "hit_fraction",
        "link_bytes_per_s",
        "request_rate_per_s",
        "K",
    ],
)
def test_a_name_with_its_unit_passes(name):
    assert _complaint(name) is None


def test_exempt_names_exist():
    present = {f"{file.path}:{name}" for file in package_files() for name, _ in _names(file)}
    assert set(UNITLESS) - present == set()
