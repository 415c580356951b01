"""Typed reading of one Hugging Face `config.json`: each complaint names the field, the value that came, and
the fix.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from roofline.errors import InvalidInput

Config = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Fields:
    """The text part of a config, with the class defaults of its `model_type` under it.

    `config` is what the file says; `defaults` is what transformers assumes where the file is silent.
    """

    config: Config
    name: str
    defaults: Config

    def value(self, *keys: str) -> object:
        """First of `keys` the file holds, else the class default, else None; `null` counts as silent only
        without a default.
        """
        for source in (self.config, self.defaults):
            for key in keys:
                if key in source:
                    return source[key]
        return None

    def size(self, *keys: str) -> int:
        """A positive integer the model cannot be counted without."""
        found = self.value(*keys)
        if found is None:
            raise InvalidInput(
                f"{self.name}: `{keys[0]}` is missing; take config.json as published by the model's authors, complete"
            )
        return self._positive(keys[0], found)

    def size_or(self, default: int, *keys: str) -> int:
        """A positive integer, `default` where the file is silent or says null."""
        found = self.value(*keys)
        return default if found is None else self._positive(keys[0], found)

    def size_or_none(self, *keys: str) -> int | None:
        """A positive integer or None where the file is silent or says null."""
        found = self.value(*keys)
        return None if found is None else self._positive(keys[0], found)

    def count(self, *keys: str) -> int:
        """An integer of at least zero, 0 where the file is silent."""
        found = self.value(*keys)
        if found is None or found == 0:
            return 0
        return self._positive(keys[0], found)

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean, `default` where the file is silent or says null."""
        found = self.value(key)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise InvalidInput(f"{self.name}: `{key}` must be true or false, got {found!r}; correct config.json")
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty where the file is silent."""
        return tuple(str(item) for item in self._list(key))

    def numbers(self, key: str) -> tuple[int, ...]:
        """A list of integers of at least zero, empty where the file is silent."""
        items = self._list(key)
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or item < 0:
                raise InvalidInput(
                    f"{self.name}: `{key}` must list integers of at least 0, got {item!r}; correct config.json"
                )
        return tuple(cast("list[int]", items))

    def section(self, key: str) -> Config:
        """A nested object, empty where the file is silent."""
        found = self.value(key)
        if found is None:
            return {}
        return object_of(found, f"{self.name}: `{key}`")

    def _list(self, key: str) -> list[object]:
        found = self.value(key)
        if found is None:
            return []
        if not isinstance(found, list):
            raise InvalidInput(f"{self.name}: `{key}` must be a list, got {found!r}; correct config.json")
        return cast("list[object]", found)

    def _positive(self, key: str, found: object) -> int:
        if isinstance(found, bool) or not isinstance(found, int):
            raise InvalidInput(f"{self.name}: `{key}` must be a whole number, got {found!r}; correct config.json")
        if found < 1:
            raise InvalidInput(f"{self.name}: `{key}` must be at least 1, got {found}; correct config.json")
        return found


def object_of(found: object, what: str) -> Config:
    """`found` as a JSON object, or `InvalidInput`."""
    if not isinstance(found, Mapping):
        raise InvalidInput(f"{what} must be a JSON object, got {type(found).__name__}; pass a whole config.json")
    return cast("Config", found)
