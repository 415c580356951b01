"""One CUDA graph per job, and the clock that goes with it."""

import time
from collections.abc import Callable

import torch

from calibrate.timing import Sample

WARM_UP_CALLS = 3


class CapturedCall:
    """A call recorded once as a CUDA graph; calling it replays the recording on the same tensors."""

    def __init__(self, call: Callable[[], object], generator: torch.Generator, pool: object) -> None:
        """Warm up on a side stream, then record. The generator advances at every replay.

        Parameters
        ----------
        pool
            Memory pool shared by graphs that are never replayed at once and whose results nobody keeps.
        """
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_CALLS):
                call()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        self._graph.register_generator_state(generator)
        with torch.cuda.graph(self._graph, pool=pool):  # type: ignore[arg-type] # an opaque handle
            call()

    def __call__(self) -> None:
        """Replay."""
        self._graph.replay()


class CudaClock:
    """Device time between two events beside wall time until the device is idle."""

    def time(self, call: Callable[[], object]) -> Sample:
        """Run `call` once."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        wall = time.perf_counter()
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        wall = time.perf_counter() - wall
        return Sample(start.elapsed_time(end) / 1e3, wall, 0, 0, 0.0)
