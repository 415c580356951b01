"""`specdec plan`: how many GPUs, of which type, split how, with which decoding."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from roofline.errors import InvalidInput
from scenarios import notation
from scenarios.cli.options import asked_workers, scenario_options, scenario_table

if TYPE_CHECKING:
    from scenarios.plan import PlanOptions

EXIT_INFEASIBLE = 3
EXIT_SATURATED = 4


@click.command()
@click.argument("scenario", required=False)
@scenario_options
@click.option("--at", metavar="LOAD", help="The load: 44 (req/s) or 8x of the workload's own; default 1x.")
@click.option("--gpus", metavar="LIST", help="GPU types to compare: H100-SXM,B200-SXM; default: the scenario's.")
@click.option("--tps", metavar="LIST", help="Tensor parallel sizes to compare: 1,2,4,8.")
@click.option("--precisions", metavar="LIST", help="bf16 (as stored) and quantisations: bf16,fp8.")
@click.option("--modes", metavar="LIST", help="Of off,static,schedule,dynamic; default: all that mean something.")
@click.option("--router", metavar="NAME", help="least_outstanding (default), round_robin or prefix_aware.")
@click.option("--own-caches", is_flag=True, help="A prefix cache per replica; needs a trace with block names.")
@click.option("--max-gpus", metavar="N", help="GPUs one deployment may use.")
@click.option("--max-seeds", metavar="N", help="Most paired repetitions behind a decision; default 4.")
@click.option("--price", multiple=True, metavar="GPU=MONEY", help="Usage-based, a GPU and hour, your currency.")
@click.option("--reserved-price", multiple=True, metavar="GPU=MONEY", help="Reserved, a GPU and hour.")
@click.option("--start-delay", metavar="S", help="Seconds until a new replica serves: plans an autoscaler, too.")
@click.option("--cool-down", metavar="S", help="Seconds before replicas are stopped; default 300.")
@click.option("--verify", is_flag=True, help="Simulate the answer, and one replica fewer, again with other seeds.")
@click.option("--out", metavar="DIR", help="Write plan.json, plan.csv and pareto.png there.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON, nothing else.")
@click.option("--workers", metavar="N", help="Processes; default: all cores. The result does not depend on it.")
def command(scenario: str | None, **options: Any) -> int:
    """Say how many GPUs SCENARIO needs at a load, and compare deployments."""
    from scenarios.cli.progress import load_progress
    from scenarios.files import check_can_write, scenario_from_dict

    if options["verify"] and options["as_json"]:
        raise InvalidInput("--verify prints text and --json prints JSON alone; keep one")
    if options["out"]:
        check_can_write(Path(options["out"]))
    compared = plan_options(options)
    if compared.gpus and not options["gpu"]:
        options["gpu"] = compared.gpus[0]
    table, origin = scenario_table(scenario, options)
    workers = asked_workers(options["workers"])
    with load_progress(quiet=options["as_json"], what="planning deployments") as progress:
        from scenarios.plan import plan

        question = scenario_from_dict(table, origin=origin)
        answer = plan(question, compared, workers=workers, progress=progress)
    if options["as_json"]:
        from scenarios.report.plan_files import plan_json

        sys.stdout.write(plan_json(answer))
    else:
        head, _, rest = answer.report().partition("\n")
        click.echo(click.style(head, bold=True))
        click.echo(rest)
    if options["verify"] and answer.best is not None:
        from scenarios.plan.verify import verified
        from scenarios.report.plan_text import verification_lines

        click.echo("\n".join(verification_lines(*verified(answer))))
    if options["out"]:
        from scenarios.report.plan_files import write_plan

        write_plan(answer, Path(options["out"]))
        click.echo(f"\nwritten to {options['out']}: plan.json, plan.csv, pareto.png", err=options["as_json"])
    if answer.best is not None:
        return 0
    return EXIT_SATURATED if any(row.status == "SATURATED" for row in answer.rows) else EXIT_INFEASIBLE


def plan_options(options: dict[str, Any]) -> PlanOptions:
    """The comparison as the command line describes it."""
    from scenarios.plan import PlanOptions

    chosen: dict[str, Any] = {"at": options["at"], "prices": _prices(options), "own_caches": options["own_caches"]}
    if options["router"]:
        chosen["router"] = options["router"]
    for option, field in (("gpus", "gpus"), ("precisions", "precisions"), ("modes", "modes")):
        if options[option]:
            chosen[field] = _names(options[option], f"--{option}")
    if options["tps"]:
        chosen["tensor_parallel"] = tuple(
            notation.whole(part, field="--tps", example="1,2,4") for part in _names(options["tps"], "--tps")
        )
    for option in ("max_gpus", "max_seeds"):
        if options[option]:
            chosen[option] = notation.whole(options[option], field=f"--{option.replace('_', '-')}", example="4")
    for option, field in (("start_delay", "start_delay_s"), ("cool_down", "cool_down_s")):
        if options[option] is not None:
            flag = f"--{option.replace('_', '-')}"
            chosen[field] = notation.finite(options[option], field=flag, example="120")
    return PlanOptions(**chosen)


def _names(text: str, flag: str) -> tuple[str, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts) or len(set(parts)) != len(parts):
        raise InvalidInput(f"{flag} must list different names between commas, got {text!r}; name each once")
    return tuple(parts)


def _prices(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    from scenarios.plan import Price

    found: dict[str, dict[str, float]] = {}
    for option, field in (("price", "per_gpu_hour"), ("reserved_price", "reserved_per_gpu_hour")):
        for text in options[option]:
            name, separator, amount = text.partition("=")
            flag = f"--{option.replace('_', '-')}"
            if not (separator and name):
                raise InvalidInput(f"{flag} must read GPU=MONEY, got {text!r}; write it like H100-SXM=2.5")
            found.setdefault(name, {})[field] = notation.finite(amount, field=flag, example="H100-SXM=2.5")
    return tuple((name, Price(**values)) for name, values in found.items())
