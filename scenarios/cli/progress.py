"""A progress bar with the time left, on stderr, for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

QUIET_S = 1.0


def _say_nothing(done: int, total: int) -> None:
    """Progress nobody watches."""


@contextmanager
def load_progress(*, quiet: bool = False, what: str = "simulating loads") -> Generator[Callable[[int, int], None]]:
    """A `progress(done, total)` that starts to draw after a second, and only on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield _say_nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("loads", total=None)
    began_s = time.monotonic()
    started = False

    def told(done: int, total: int) -> None:
        nonlocal started
        bar.update(task, completed=done, total=total)
        if not started and time.monotonic() - began_s > QUIET_S and done < total:
            bar.start()
            started = True

    try:
        yield told
    finally:
        if started:
            bar.stop()
