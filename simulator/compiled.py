"""How the step loop is compiled: ahead of the run, cached on disk, without reference counting.

`_nrt=False` switches numba's runtime off; counting references to some fifty arrays at every call took nine tenths of
the time. It is safe because compiled functions here only read and write arrays that Python made and keeps.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """A function of its own, for what is rare or tiny."""
    return njit(cache=True, _nrt=False, error_model="numpy")(function)  # type: ignore[call-overload,return-value]


def inlined(function: Function) -> Function:
    """Inlined into its caller: handing the state over costs more than most functions of a step do."""
    decorator = njit(cache=True, _nrt=False, error_model="numpy", inline="always")  # type: ignore[call-overload]
    return decorator(function)  # pyright: ignore[reportUnknownVariableType]


def digest_of(*names: str) -> str:
    """Digest of files of this package that are compiled together.

    numba's cache watches only the file of the function it caches; as a closure variable the digest makes it
    recompile when any of them changes.
    """
    folder = Path(__file__).parent
    return hashlib.blake2b(b"".join((folder / name).read_bytes() for name in names), digest_size=8).hexdigest()
