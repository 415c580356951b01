"""Chunks to workers and rows back, a few at a time; chunks of workers that died are computed again."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait

from roofline.errors import InvalidInput
from scenarios.sweeps.cells import Chunk, Row
from scenarios.sweeps.workers import Workers

MOST_ATTEMPTS = 4
AHEAD = 2
"""Chunks handed out for every one that is computed, so that no worker waits for the next."""

Compute = Callable[[Chunk], list[Row]]


class _Lost(Exception):
    """The executor lost its workers, or we lost the executor."""


def computed(chunks: Iterator[Chunk], compute: Compute, workers: Workers) -> Generator[tuple[Chunk, list[Row]]]:
    """Every chunk with its rows, in the order in which they are finished.

    Chunks are drawn from the iterator as workers come free, so a long sweep is never held in memory.

    Raises
    ------
    InvalidInput
        The executor cannot be reached, or some chunk has lost its worker again and again.
    """
    hand = _Hand(chunks)
    while True:
        running: dict[Future[list[Row]], Chunk] = {}
        try:
            with workers.open() as (executor, slots):
                yield from _until_lost(
                    hand, running, submit=lambda chunk: executor.submit(compute, chunk), window=slots * AHEAD
                )
            return
        except _Lost as lost:
            hand.take_back(sorted(running.values(), key=lambda chunk: chunk.index), why=str(lost))


class _Hand:
    """The next chunk: first those to compute again, then new ones.

    A chunk that was lost twice may kill its workers: it goes alone, so that no other is blamed for it.
    """

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._again: deque[Chunk] = deque()
        self._lost: Counter[int] = Counter()

    def next(self, running: Collection[Chunk]) -> Chunk | None:
        """None where nothing is to be handed out now."""
        if any(self._lost[chunk.index] > 1 for chunk in running):
            return None
        if not self._again:
            return next(self._chunks, None)
        alone = self._lost[self._again[0].index] > 1
        return None if alone and running else self._again.popleft()

    def take_back(self, chunks: Sequence[Chunk], *, why: str) -> None:
        """Chunks whose workers died."""
        for chunk in chunks:
            self._lost[chunk.index] += 1
            if self._lost[chunk.index] >= MOST_ATTEMPTS:
                raise InvalidInput(_given_up(chunk, why))
            self._again.append(chunk)


def _until_lost(
    hand: _Hand,
    running: dict[Future[list[Row]], Chunk],
    *,
    submit: Callable[[Chunk], Future[list[Row]]],
    window: int,
) -> Generator[tuple[Chunk, list[Row]]]:
    """`running` is left holding what was lost."""
    while True:
        while len(running) < window and (chunk := hand.next(running.values())) is not None:
            _submit(chunk, running, submit)
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda one: running[one].index):
            rows = _rows(future)
            yield running.pop(future), rows


def _submit(
    chunk: Chunk, running: dict[Future[list[Row]], Chunk], submit: Callable[[Chunk], Future[list[Row]]]
) -> None:
    try:
        running[submit(chunk)] = chunk
    except (BrokenExecutor, OSError, RuntimeError) as error:
        failed: Future[list[Row]] = Future()
        running[failed] = chunk
        raise _Lost(str(error)) from error


def _rows(future: Future[list[Row]]) -> list[Row]:
    try:
        return future.result()
    except (BrokenExecutor, CancelledError, OSError) as error:
        raise _Lost(str(error) or type(error).__name__) from error
    except Exception as error:
        # Dask's name for a task whose workers died; its module may not be installed here.
        if type(error).__name__ in ("KilledWorker", "WorkerCrashedError"):
            raise _Lost(str(error)) from error
        raise


def _given_up(chunk: Chunk, why: str) -> str:
    last = chunk.first + len(chunk.tables) - 1
    return (
        f"the workers of scenarios {chunk.first} to {last} died {MOST_ATTEMPTS} times ({why[:120]}); what is finished "
        "is kept: give workers more memory, or use fewer with --workers, and run the same sweep again"
    )
