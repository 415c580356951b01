"""Clocks and what surrounds a sample: what the scheduler, the memory system and the neighbours did meanwhile."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

TICKS_PER_S = 100.0
"""Unit of /proc/stat on Linux (USER_HZ)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed call.

    Attributes
    ----------
    busy_s
        CPU time of the measuring thread; on CUDA the device time between two events.
    wall_s
        Time on the wall.
    involuntary_switches, page_faults
        Of the whole process during the call.
    steal_s
        Time the hypervisor gave to others, all CPUs.
    """

    busy_s: float
    wall_s: float
    involuntary_switches: int
    page_faults: int
    steal_s: float


class Clock(Protocol):
    """Times one call."""

    def time(self, call: Callable[[], object]) -> Sample:
        """Run `call` once."""
        ...


def steal_s() -> float:
    """Seconds stolen since boot, summed over CPUs; 0 where the system does not tell."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text(encoding="ascii").splitlines()[0].split()
    return int(fields[8]) / TICKS_PER_S if len(fields) > 8 else 0.0


class CpuClock:
    """CPU time of this thread beside wall time.

    A thread's own CPU time does not count when another process has the core, which on a shared machine is most of
    the noise. It means nothing when the call runs on several threads.
    """

    def time(self, call: Callable[[], object]) -> Sample:
        """Run `call` once."""
        before, stolen = resource.getrusage(resource.RUSAGE_SELF), steal_s()
        wall, busy = time.perf_counter(), time.thread_time()
        call()
        busy, wall = time.thread_time() - busy, time.perf_counter() - wall
        after = resource.getrusage(resource.RUSAGE_SELF)
        return Sample(
            busy_s=busy,
            wall_s=wall,
            involuntary_switches=after.ru_nivcsw - before.ru_nivcsw,
            page_faults=after.ru_minflt - before.ru_minflt,
            steal_s=steal_s() - stolen,
        )
