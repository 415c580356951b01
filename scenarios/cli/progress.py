"""Progress bars with the time left, on stderr, for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0


def _say_nothing(done: int, total: int) -> None:
    """Progress nobody watches."""


@contextmanager
def load_progress(*, quiet: bool = False, what: str = "simulating loads") -> Generator[Callable[[int, int], None]]:
    """A `progress(done, total)` that starts to draw after a second, and only on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield _say_nothing
        return
    bar = _bar(transient=True)
    task = bar.add_task(what, total=None)
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


@contextmanager
def work_progress() -> Generator[Callable[[str, int, int], None]]:
    """A `told(what, done, total)` for pieces of work in turn; without a terminal, a line when each begins.

    What stands in brackets at the end of `what` is a reading that changes all the time, and no other piece of work.
    """
    if not sys.stderr.isatty():
        said: set[str] = set()

        def say(what: str, done: int, total: int) -> None:
            piece = what.split(" (")[0]
            if piece not in said:
                click.echo(f"{piece} ...", err=True)
            said.add(piece)

        yield say
        return
    with _bar(transient=False) as bar:
        task, before = bar.add_task("", total=None), 0

        def show(what: str, done: int, total: int) -> None:
            nonlocal before
            if done < before:  # the next count begins, and the time left with it
                bar.reset(task)
            before = done
            bar.update(task, description=what, completed=done, total=total)

        yield show


def _bar(*, transient: bool) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=transient,
    )
