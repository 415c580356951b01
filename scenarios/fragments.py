"""Fragments of a scenario: the tables of a measured acceptance, written by one command and taken by another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from roofline.errors import InvalidInput
from scenarios.files import read_toml
from scenarios.questions.replay import measured_acceptance, measured_by_position
from simulator.matchers import RoundCounts

_MATCHERS = ("ngram", "suffix")
_SHARES = ("proposal_fraction", "proposal_fractions")


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
        if method in _MATCHERS:
            speculation["proposal_fraction"] = fraction
    return {"speculation": speculation, "acceptance": {"per_position": list(shares), "measured_on": measured_on}}


def put_fragment(table: dict[str, Any], path: str) -> None:
    """Lay the acceptance of a fragment over a scenario's table, and its drafts where the scenario names no method.

    Acceptance of a matcher holds for that matcher; acceptance of a head or a draft model for any of those.

    Raises
    ------
    InvalidInput
        The file cannot be read, holds no acceptance, or was measured with a proposer of another kind.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInput(f"--acceptance: {path} is not a file; give one that acceptance lab or replay has written")
    content = read_toml(file, what="fragment")
    acceptance, measured = content.get("acceptance"), content.get("speculation")
    if not isinstance(acceptance, dict) or not isinstance(measured, dict):
        raise InvalidInput(f"--acceptance: {path} has no tables [speculation] and [acceptance]; give a fragment")
    measured = cast("dict[str, Any]", measured)
    own = cast("dict[str, Any]", table.get("speculation") or {})
    asked, found = own.get("method", measured.get("method")), measured.get("method")
    if asked != found and (asked in _MATCHERS or found in _MATCHERS):
        raise InvalidInput(
            f"--acceptance: {path} was measured with {found}, which says nothing of {asked}; give a fragment of "
            f"{asked}, or --method {found}"
        )
    shares = {key: measured[key] for key in _SHARES if key in measured}
    kept = {key: value for key, value in own.items() if key not in _SHARES}
    table["speculation"] = {**kept, **shares} if "method" in own else {**measured, **kept}
    table["acceptance"] = acceptance
