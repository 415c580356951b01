"""All unit conversions; everything else is in seconds, bytes, tokens, flops and `_per_s`."""

SECONDS_PER_MS = 1e-3
SECONDS_PER_US = 1e-6
SECONDS_PER_HOUR = 3600.0
BYTES_PER_GB = 1e9
BYTES_PER_GIB = float(1 << 30)
FLOPS_PER_TFLOP = 1e12
BITS_PER_BYTE = 8


def ms_from_seconds(seconds: float) -> float:
    """Milliseconds, for reports only."""
    return seconds / SECONDS_PER_MS


def bytes_from_gb(gigabytes: float) -> float:
    """Bytes of decimal gigabytes (data sheets of memory and links)."""
    return gigabytes * BYTES_PER_GB


def gib_from_bytes(count_bytes: float) -> float:
    """Binary gibibytes, for reports only."""
    return count_bytes / BYTES_PER_GIB
