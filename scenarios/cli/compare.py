"""`specdec compare`: two scenarios, or one with a field changed, and the term that makes the difference."""

from __future__ import annotations

from typing import Any

import click

from roofline.errors import InvalidInput
from scenarios import notation


@click.command()
@click.argument("first")
@click.argument("second", required=False)
@click.option("--with", "changes", multiple=True, metavar="FIELD=VALUE", help="B is A (or SECOND) with this; repeat.")
@click.option("--arms", metavar="A,B", help="on or off for each, e.g. off,on; default: on where acceptance is given.")
@click.option("--at", metavar="LOAD", help="The load: 4 (req/s or in flight) or 2x; default 1x.")
@click.option("--seeds", metavar="N", help="Paired repetitions behind every interval; default: those of FIRST.")
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON, nothing else.")
def command(first: str, second: str | None, **options: Any) -> None:
    """Explain the difference between the scenarios FIRST (A) and SECOND (B)."""
    from scenarios.files import read_scenario_table, scenario_from_dict
    from scenarios.questions.compare import compare
    from scenarios.report.compare_text import compare_json, compare_lines
    from scenarios.sweeps.sweeping import base_table

    if second is None and not options["changes"] and options["arms"] is None:
        raise InvalidInput("compare needs two scenarios, or one and what is changed: give SECOND or --with FIELD=VALUE")
    names = (first, second or first)
    tables = [read_scenario_table(name) for name in names]
    if options["seeds"] is not None:
        tables[0]["run"] = {
            **tables[0].get("run", {}),
            "seeds": notation.whole(options["seeds"], field="--seeds", example="5"),
        }
    a, b = (scenario_from_dict(table, origin=f"scenario {name}") for table, name in zip(tables, names, strict=True))
    if options["changes"]:
        b = scenario_from_dict(_changed(base_table(b), options["changes"]), origin="B")
    found = compare(a, b, arms=_arms(options["arms"]), at=options["at"])
    click.echo(
        compare_json(found) if options["as_json"] else "\n".join(compare_lines(found)), nl=not options["as_json"]
    )


def _changed(table: dict[str, Any], changes: tuple[str, ...]) -> dict[str, Any]:
    from scenarios.sweeps.axes import parse_axis
    from scenarios.sweeps.fields import with_fields

    values: dict[str, Any] = {}
    for text in changes:
        axis = parse_axis(text)
        if len(axis.rows) != 1:
            raise InvalidInput(f"--with {text} must set one value; `specdec sweep --axis {text}` goes through several")
        values[axis.fields[0]] = axis.rows[0][0]
    named = ", ".join(f"{field} = {value}" for field, value in values.items())
    return {**with_fields(table, values), "name": f"{table.get('name', 'A')} with {named}"}


def _arms(text: str | None) -> Any:
    if text is None:
        return (None, None)
    arms = tuple(part.strip() for part in text.split(","))
    if len(arms) != 2 or any(arm not in ("on", "off") for arm in arms):
        raise InvalidInput(f"--arms must be two of on and off, got {text!r}; write it like off,on")
    return arms
