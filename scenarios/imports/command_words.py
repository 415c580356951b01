"""A command line as words: environment, launcher, flags by long name; engine readers give it meaning."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from roofline.errors import InvalidInput

Flags = dict[str, str | None]
"""Value by canonical long name without dashes; `None` is a bare switch."""


@dataclass(slots=True)
class CommandWords:
    """What stands on a line after its launcher. `dotted` holds `--group.key value`, by group."""

    environment: dict[str, str] = field(default_factory=dict[str, str])
    positional: list[str] = field(default_factory=list[str])
    flags: Flags = field(default_factory=dict[str, str | None])
    dotted: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def words_of(text: str) -> frozenset[str]:
    """A set of names written as words."""
    return frozenset(text.split())


def shell_words(command: str, *, what: str = "command") -> list[str]:
    """Words as the shell sees them: line continuations joined, comments dropped."""
    text = re.sub(r"\\\s*\r?\n", " ", command)
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InvalidInput(f"{what} cannot be split into words ({error}); close the quotes") from error


def take_environment(words: list[str]) -> dict[str, str]:
    """Assignments before the launcher (`export`, `env` and `docker -e` prefixes are not read); removed from `words`."""
    found: dict[str, str] = {}
    while words and (words[0] in ("export", "env", "exec", "nohup") or re.match(r"[A-Za-z_]\w*=", words[0])):
        name, equals, value = words.pop(0).partition("=")
        if equals:
            found[name] = value
    return found


def sort_words(words: list[str], *, aliases: Mapping[str, str], switches: Set[str]) -> CommandWords:
    """Flags and positional words. A flag that is no known switch takes the next word unless that is a flag too.

    Several values (`--cudagraph-capture-sizes 1 2 4`) are joined with commas where all of them are numbers.
    """
    result = CommandWords()
    todo = list(words)
    while todo:
        word = todo.pop(0)
        if word in ("|", "&", "&&", ";", "||") or word.startswith((">", "2>")):
            break
        if not _is_flag(word):
            result.positional.append(word)
            continue
        head, equals, value = word.lstrip("-").partition("=")
        group, dot, key = head.partition(".")
        name = canonical(group, aliases)
        text = value if equals else None
        takes_value = name not in switches and not name.startswith("no-")
        if text is None and (takes_value or (todo and todo[0].lower() in ("true", "false"))):
            text = _values(todo)
        if dot:
            result.dotted.setdefault(name, {})[key.replace("-", "_")] = text or "true"
        else:
            result.flags[name] = text
    return result


def canonical(name: str, aliases: Mapping[str, str]) -> str:
    """A flag's long name with dashes."""
    plain = name.replace("_", "-")
    return aliases.get(plain, plain)


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word != "-" and not re.fullmatch(r"-\d+(\.\d+)?", word)


def _values(todo: list[str]) -> str | None:
    if not todo or _is_flag(todo[0]):
        return None
    values = [todo.pop(0)]
    while todo and re.fullmatch(r"\d+", todo[0]) and re.fullmatch(r"\d+", values[0]):
        values.append(todo.pop(0))
    return ",".join(values)
