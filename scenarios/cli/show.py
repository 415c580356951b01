"""`specdec show`: one entry of the catalogue, or one preset."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--method", metavar="NAME", help="Read the model as a draft head of this method (eagle, eagle3).")
@click.option("--target", metavar="NAME", help="The target whose tables the head shares.")
def command(name: str, as_json: bool, method: str | None, target: str | None) -> None:
    """Show a GPU, a model, an engine or a preset by NAME, with numbers and sources."""
    from scenarios.cli.listing import names
    from scenarios.files import preset_names, preset_path

    if name in preset_names():
        click.echo(preset_path(name).read_text(encoding="utf-8"), nl=False)
        return
    asked = name.lower().replace("/", "--")
    if asked in {known.lower() for known in names("gpus")}:
        _show_gpu(name, as_json=as_json)
    elif asked in {known.lower() for known in names("engines")}:
        _show_engine(name)
    else:
        _show_model(name, method=method, target=target, as_json=as_json)


def _show_gpu(name: str, *, as_json: bool) -> None:
    from roofline.catalog import gpu
    from roofline.units import BYTES_PER_GB, FLOPS_PER_TFLOP, gib_from_bytes

    row = gpu(name)
    if as_json:
        click.echo(row.model_dump_json(indent=2))
        return
    click.echo(f"{row.name}: {row.vendor} {row.architecture}")
    click.echo(
        f"  memory     {gib_from_bytes(row.memory_bytes):.1f} GiB at {row.hbm_bytes_per_s / BYTES_PER_GB:,.0f} GB/s"
    )
    for dtype, flops_per_s in row.peak_flops_per_s.items():
        click.echo(f"  {dtype:<10} {flops_per_s / FLOPS_PER_TFLOP:,.1f} TFLOP/s dense")
    click.echo(f"  link       {row.link}, {row.link_bytes_per_s / BYTES_PER_GB:,.0f} GB/s in one direction")
    if row.notes:
        click.echo(f"  notes      {row.notes}")
    click.echo(f"  source     {row.source.title}, {row.source.url}, retrieved {row.source.retrieved}")


def _show_engine(name: str) -> None:
    from roofline.catalog import engine

    click.echo(json.dumps(engine(name).model_dump(mode="json"), indent=2))


def _show_model(name: str, *, method: str | None, target: str | None, as_json: bool) -> None:
    from roofline import counts
    from roofline.hf_config import load_model
    from roofline.units import gib_from_bytes

    base = load_model(target) if target else None
    model = load_model(name, role="head", method=method, target=base) if method else load_model(name)
    if as_json:
        click.echo(model.model_dump_json(indent=2))
        return
    click.echo(f"{model.name}: {model.model_type}, {model.role}")
    click.echo(
        f"  parameters {counts.parameters(model) / 1e9:.3f} B, {counts.active_parameters(model) / 1e9:.3f} B active"
    )
    click.echo(f"  weights    {gib_from_bytes(counts.weight_bytes(model)):.1f} GiB")
    click.echo(f"  KV cache   {counts.kv_bytes_per_token(model):,.0f} bytes per token")
    click.echo(f"  context    {model.max_context_tokens or 'unlimited'} tokens")
    for note in model.notes:
        click.echo(f"  note       {note}")
    if model.source is not None:
        click.echo(f"  source     {model.source.title}, {model.source.url}, retrieved {model.source.retrieved}")
