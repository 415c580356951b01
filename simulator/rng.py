"""All randomness. Named numpy streams for arrays, a counter-based hash for the compiled loop.

Both depend on their arguments alone, so a new consumer shifts nobody, and two scenarios with one seed share
arrivals and luck whatever their batches, K or number of workers.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from simulator.compiled import compiled

LUCK_BITS = 53
ALWAYS = 1 << LUCK_BITS
"""Threshold above every luck: the event always happens."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(64 - LUCK_BITS)


@compiled
def luck(key: np.uint64, position: int) -> np.uint64:
    """Uniform integer in [0, 2**53) of (key, position): the splitmix64 finaliser over a counter.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    mixed = key + _GOLDEN * np.uint64(position)
    mixed = (mixed ^ (mixed >> _S30)) * _MIX_A
    mixed = (mixed ^ (mixed >> _S27)) * _MIX_B
    return (mixed ^ (mixed >> _S31)) >> _S11


def threshold(probability: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Integer thresholds: an event of that probability happens iff its luck is below."""
    return np.round(np.asarray(probability, dtype=np.float64) * ALWAYS).astype(np.uint64)


def luck_keys(seed: int, purpose: str, requests: int) -> NDArray[np.uint64]:
    """One key per request, `(requests,)`, a function of (seed, purpose, request index) alone."""
    base = np.uint64(_digest(seed, purpose))
    index = np.arange(1, requests + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = base + index * _GOLDEN
        mixed = (mixed ^ (mixed >> _S30)) * _MIX_A
        mixed = (mixed ^ (mixed >> _S27)) * _MIX_B
        return mixed ^ (mixed >> _S31)


def luck_values(keys: NDArray[np.uint64], position: int = 0) -> NDArray[np.uint64]:
    """`luck` of many keys at one position, as an array."""
    with np.errstate(over="ignore"):
        mixed = keys + _GOLDEN * np.uint64(position)
        mixed = (mixed ^ (mixed >> _S30)) * _MIX_A
        mixed = (mixed ^ (mixed >> _S27)) * _MIX_B
        return (mixed ^ (mixed >> _S31)) >> _S11


class Streams:
    """Named numpy generators of one seed: `streams.get("arrivals", class_id)`."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def get(self, purpose: str, index: int = 0) -> np.random.Generator:
        """A fresh generator that depends on (seed, purpose, index) alone."""
        return np.random.Generator(np.random.PCG64(_digest(self._seed, f"{purpose}/{index}")))


def _digest(seed: int, purpose: str) -> int:
    text = f"{seed}:{purpose}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
