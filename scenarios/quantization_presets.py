"""Published loss of acceptance under quantised weights (`presets/quantization.toml`); always labelled assumed."""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline.errors import UnknownName
from scenarios.files import PRESET_FOLDER, read_toml


def quantization_names() -> tuple[str, ...]:
    """Pairs with a published loss."""
    return tuple(sorted(_presets()))


def quantization_factor(name: str) -> float:
    """Factor on the acceptance of the pair before quantisation.

    Raises
    ------
    UnknownName
        No such preset.
    """
    if name not in _presets():
        raise UnknownName(
            f"acceptance.quantization_preset must be one of {', '.join(quantization_names())}, got {name!r}; "
            "or give the loss as acceptance.factor"
        )
    return float(_presets()[name]["factor"])


@cache
def _presets() -> dict[str, Any]:
    return read_toml(PRESET_FOLDER / "quantization.toml", what="preset file")
