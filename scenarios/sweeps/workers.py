"""Who computes the chunks: this process, a pool of processes, a Dask cluster, or any `concurrent.futures.Executor`."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Generator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from roofline.errors import InvalidInput
from scenarios.questions.pool import leave_interrupts

CONNECT_S = 10.0


class Workers(Protocol):
    """Opens an executor, and again after it was lost."""

    def open(self) -> AbstractContextManager[tuple[Executor, int]]:
        """An executor, and how many chunks it computes at a time."""
        ...


class _Inline(Executor):
    """Computes when asked, in this process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(frozen=True, slots=True)
class InProcess:
    """No other process: for debugging, and for callers that are workers themselves."""

    @contextmanager
    def open(self) -> Generator[tuple[Executor, int]]:
        """An executor that computes when asked."""
        yield _Inline(), 1


@dataclass(frozen=True, slots=True)
class Processes:
    """A pool of fresh processes on this machine."""

    workers: int

    @contextmanager
    def open(self) -> Generator[tuple[Executor, int]]:
        """A pool; leaving it cancels what has not begun."""
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin_worker)
        try:
            yield pool, self.workers
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_worker() -> None:
    """A parent that was killed takes its workers along."""
    leave_interrupts()
    threading.Thread(target=_end_with_parent, daemon=True, name="end_with_parent").start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """Workers of a Dask scheduler, through Dask's own client (extra `dask`)."""

    address: str
    connect_s: float = CONNECT_S

    @contextmanager
    def open(self) -> Generator[tuple[Executor, int]]:
        """The client's executor.

        Raises
        ------
        InvalidInput
            Dask is not installed, nobody answers at the address, or no worker is connected to it.
        """
        try:
            distributed = import_module("distributed")
        except ImportError:
            raise InvalidInput(
                "--scheduler needs Dask, which is not installed; install specdec-sim[dask], or leave --scheduler out"
            ) from None
        try:
            client: Any = distributed.Client(self.address, timeout=self.connect_s, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"--scheduler {self.address}: nobody answers there ({error}); what is finished is kept: start the "
                "scheduler (`dask scheduler`) or leave --scheduler out, and run the same sweep again"
            ) from error
        try:
            yield client.get_executor(pure=False), self._threads(client)
        finally:
            client.close(timeout=self.connect_s)

    def _threads(self, client: Any) -> int:
        try:
            client.wait_for_workers(1, timeout=self.connect_s)
        except TimeoutError:
            raise InvalidInput(
                f"--scheduler {self.address}: no worker is connected to it; what is finished is kept: start one "
                f"(`dask worker {self.address}`) and run the same sweep again"
            ) from None
        return sum(client.nthreads().values())


@dataclass(frozen=True, slots=True)
class Own:
    """An executor of the caller's, who opens and closes it; `slots` chunks are handed to it at a time."""

    executor: Executor
    slots: int = 8

    @contextmanager
    def open(self) -> Generator[tuple[Executor, int]]:
        """The caller's executor as it is."""
        yield self.executor, self.slots
