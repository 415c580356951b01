"""What must be so before a measurement starts, and the record of what was so."""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ALLOCATOR_SETTINGS: dict[str, str] = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
"""glibc maps every buffer of 32 MiB and more anew and faults its pages on each call: verification of a large batch
took three times as long. The library reads these once, when the process starts."""
THREAD_SETTINGS: dict[str, str] = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def missing_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Allocator and thread settings that the process was not started with."""
    wanted = ALLOCATOR_SETTINGS | THREAD_SETTINGS
    return {name: value for name, value in wanted.items() if environment.get(name) != value}


def restart_with_settings() -> None:
    """Replace this process by itself under the settings; returns at once where they are already there."""
    missing = missing_settings(os.environ)
    if missing:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **missing})


def cpu_name() -> str:
    """Model name of the processor as the system prints it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """Instruction sets that change how matrices are multiplied."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return []
    flags = next((line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("flags")), "")
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx512_fp16", "amx_bf16", "amx_int8")
    return [flag for flag in wanted if flag in flags.split()]


def package_versions() -> dict[str, str]:
    """Versions of what the numbers depend on; absent packages are left out."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "scipy", "specdec-sim"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def host_id() -> str:
    """A short hash of the host's name: tells whether two calibrations share a machine without naming it."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:12]


def record() -> dict[str, object]:
    """The machine as it is now."""
    return {
        "cpu": cpu_name(),
        "cpu_features": cpu_features(),
        "logical_cpus": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "host_id": host_id(),
        "kernel": platform.release(),
        "versions": package_versions(),
        "settings": {name: os.environ.get(name, "") for name in ALLOCATOR_SETTINGS | THREAD_SETTINGS},
    }
