"""What a rule reports: a level, a number, a fix, and the engine source or document it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from scenarios.check.setup import Setup

Level = Literal["pass", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class Reference:
    """The engine's source, a document or a public report."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked thing. `number` is the arithmetic behind it, `fix` what to write instead ("" for a pass)."""

    level: Level
    rule: str
    text: str
    number: str
    fix: str
    source: Reference


class Rule(Protocol):
    """Says nothing where it does not apply."""

    def findings(self, setup: Setup) -> Iterable[Finding]:
        """What it has to say about this configuration."""
        ...


@dataclass(frozen=True, slots=True)
class Topic:
    """A rule's name with its source: makes its findings."""

    rule: str
    source: Reference

    def passes(self, text: str, number: str) -> Finding:
        """In order."""
        return Finding("pass", self.rule, text, number, "", self.source)

    def warns(self, text: str, number: str, fix: str) -> Finding:
        """It runs, and loses something or misleads."""
        return Finding("warn", self.rule, text, number, fix, self.source)

    def stops(self, text: str, number: str, fix: str) -> Finding:
        """The engine refuses it, or it cannot pay."""
        return Finding("stop", self.rule, text, number, fix, self.source)
