"""Fragments of a scenario: the tables of a measured acceptance, written by one command and taken by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast, get_args

from roofline.errors import InvalidInput
from scenarios.drafting import MATCHING_METHODS, Method
from scenarios.files import read_toml
from scenarios.imports.configuration import read_command, read_file
from scenarios.questions.replay import measured_acceptance, measured_by_position
from simulator.matchers import RoundCounts

_FRACTIONS = ("proposal_fraction", "proposal_fractions")
_WRITERS = "give one that acceptance lab or replay has written"


def acceptance_fragment(method: str, counts: RoundCounts, *, measured_on: str) -> dict[str, Any]:
    """The tables `speculation` and `acceptance` of counted rounds.

    Raises
    ------
    InvalidInput
        Nothing was ever proposed.
    """
    speculation: dict[str, Any] = {"method": method, "draft_tokens": counts.draft_tokens}
    if method == "suffix":
        fractions, shares = measured_by_position(counts)
        speculation["proposal_fractions"] = list(fractions)
    else:
        shares, fraction = measured_acceptance(counts)
        if method in MATCHING_METHODS:
            speculation["proposal_fraction"] = fraction
    return {"speculation": speculation, "acceptance": {"per_position": list(shares), "measured_on": measured_on}}


def put_fragment(table: dict[str, Any], path: str, *, served_file: str | None = None) -> None:
    """Lay the acceptance of a fragment over a scenario's table, and its drafts where nothing names a method.

    Acceptance of a matcher holds for that matcher; acceptance of a head or a draft model for any of those. What is
    served is told by `served_file` (of `check --file`), the table's serve line, or its own method.

    Raises
    ------
    InvalidInput
        The file holds no measured acceptance, was measured with a proposer of another kind, or nothing drafts.
    """
    measured, acceptance = _read_fragment(path)
    own = cast("dict[str, Any]", table.get("speculation") or {})
    served, found = _served_method(table, served_file), measured["method"]
    asked = served or own.get("method", found)
    if asked == "none":
        raise InvalidInput(
            f"--acceptance: {path} was measured with {found}, but speculation.method is 'none'; give --method {found}, "
            "or leave --acceptance out"
        )
    # A method that nobody knows is for `check` to report.
    if asked not in (found, "unknown") and (asked in MATCHING_METHODS or found in MATCHING_METHODS):
        change = f"serve with {found}" if served else f"--method {found}"
        raise InvalidInput(
            f"--acceptance: {path} was measured with {found}, which says nothing of {asked}; give a fragment of "
            f"{asked}, or {change}"
        )
    fractions = {key: measured[key] for key in _FRACTIONS if key in measured}
    kept = {key: value for key, value in own.items() if key not in _FRACTIONS}
    table["speculation"] = {**kept, **fractions} if served or "method" in own else {**measured, **kept}
    table["acceptance"] = acceptance


def _read_fragment(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables `speculation` and `acceptance` of a file that says what was measured, and on what."""
    file = Path(path)
    if not file.is_file():
        raise InvalidInput(f"--acceptance: {path} is not a file; {_WRITERS}")
    content = read_toml(file, what="fragment")
    speculation, acceptance = content.get("speculation"), content.get("acceptance")
    if not isinstance(speculation, dict) or not isinstance(acceptance, dict):
        raise InvalidInput(f"--acceptance: {path} has no tables [speculation] and [acceptance]; {_WRITERS}")
    measured, accepted = cast("dict[str, Any]", speculation), cast("dict[str, Any]", acceptance)
    if not accepted.get("measured_on"):
        raise InvalidInput(f"--acceptance: {path} has no acceptance.measured_on; {_WRITERS}")
    methods = [method for method in get_args(Method) if method != "none"]
    if measured.get("method") not in methods:
        raise InvalidInput(
            f"--acceptance: speculation.method in {path} must be what drafted ({', '.join(methods)}), got "
            f"{measured.get('method') or 'nothing'}; {_WRITERS}"
        )
    return measured, accepted


def _served_method(table: dict[str, Any], served_file: str | None) -> str | None:
    """The proposer of the configuration that is served; None where there is none or it leaves drafts open."""
    if served_file is not None:
        return read_file(served_file)[0].method
    line = table.get("serve")
    return read_command(line).method if isinstance(line, str) else None
