"""`specdec import`: benchmark files, metrics, logs and traces to a part of a scenario."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--run", metavar="N", type=click.IntRange(1), help="Which run of a file that holds several, from 1.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the scenario there, not to stdout.")
def command(files: tuple[Path, ...], run: int | None, out: Path | None) -> None:
    """Read what was measured and write the part of a scenario it amounts to.

    FILES are recognised by what stands in them. Several are taken to be of one service, two Prometheus dumps to be the
    ends of a window.
    """
    from scenarios.files import write_text_at_once
    from scenarios.imports.measured.combine import read_files
    from scenarios.imports.measured.fragment import beside, fragment, fragment_text, requests_csv
    from scenarios.report.import_text import import_lines

    whole, each = read_files(files, run=run)
    closed = whole.concurrency is not None and whole.rate_per_s is None
    requests = requests_csv(whole.requests) if out and whole.requests and not (whole.trace or closed) else None
    table, notes = fragment(whole, requests_file=beside(out).name if out and requests else None)
    text = fragment_text(table, (*whole.notes, *notes))
    if out is None:
        click.echo(text, nl=False)
    else:
        if requests:
            write_text_at_once(beside(out), requests)
        write_text_at_once(out, text)
    for line in import_lines(whole, each, notes):
        click.echo(line, err=out is None)
    if out is not None:
        click.echo(f"written to {out}{f' and {beside(out)}' if requests else ''}")
