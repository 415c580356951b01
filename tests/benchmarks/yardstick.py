"""Fixed work to compare other work with: says how fast this machine is right now. Never change what it does."""

import time

import numpy as np
from numba import njit

COMPILED_ROUNDS = 40_000_000
PYTHON_ROUNDS = 1_500_000


@njit
def _hash_and_look_up(table, rounds):
    """Integer hashing, a table look-up that depends on it, and a sum in floating point."""
    word = np.uint64(1)
    total = 0.0
    for _ in range(rounds):
        word ^= word << np.uint64(13)
        word ^= word >> np.uint64(7)
        word ^= word << np.uint64(17)
        total += table[word & np.uint64(4095)]
    return total


def compiled_s(repeats: int = 3) -> float:
    """Seconds of the compiled loop, the best of `repeats`."""
    table = np.linspace(0.0, 1.0, 4096)
    _hash_and_look_up(table, 1000)
    return min(_timed(lambda: _hash_and_look_up(table, COMPILED_ROUNDS)) for _ in range(repeats))


def python_s(repeats: int = 3) -> float:
    """Seconds of a loop in plain Python, the best of `repeats`."""

    def count() -> int:
        total = 0
        for number in range(PYTHON_ROUNDS):
            total += number & 7
        return total

    return min(_timed(count) for _ in range(repeats))


def _timed(work) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s
