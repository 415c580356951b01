"""The printed form of a dry run."""

from calibrate.dry_run import (
    KERNEL_S,
    SUSTAINED_BANDWIDTH_FRACTION,
    SUSTAINED_FLOPS_FRACTION,
    DryRun,
)
from calibrate.jobs import shape_of
from calibrate.run import RunPlan
from roofline.units import gib_from_bytes, ms_from_seconds


def dry_run_lines(plan: RunPlan, result: DryRun, *, gpu_name: str) -> list[str]:
    """Every job with shape, bytes, flops and time; then memory and budget."""
    lines = [
        f"dry run: preset {plan.preset.name}, {plan.dtype}, context {plan.context_tokens}, estimated for {gpu_name}; "
        "nothing is measured",
        f"{'job':46s} {'hidden x layers':>16s} {'rows':>6s} {'GiB moved':>10s} {'TFLOP':>8s} {'ms':>9s}",
    ]
    for entry in result.jobs:
        shape = shape_of(plan.preset, entry.job.model)
        lines.append(
            f"{entry.job.key:46s} {f'{shape.hidden} x {shape.layers}':>16s} {entry.job.rows:6d} "
            f"{gib_from_bytes(entry.work.moved_bytes):10.3f} {entry.work.flops / 1e12:8.3f} "
            f"{ms_from_seconds(entry.seconds):9.3f}"
        )
    lines.append("memory:")
    lines += [f"  {name:32s} {gib_from_bytes(size):8.2f} GiB" for name, size in result.memory_bytes.items()]
    total = sum(result.memory_bytes.values())
    lines.append(
        f"  {'together':32s} {gib_from_bytes(total):8.2f} GiB of {gib_from_bytes(result.usable_bytes):.1f} usable: "
        f"{'fits' if result.fits_memory else 'DOES NOT FIT'}"
    )
    lines.append(
        f"time: {len(result.jobs)} jobs, {result.start_s:.0f} s to build, warm up and capture, "
        f"{result.repetition_s:.2f} s a repetition, {result.repetitions} repetitions in {result.budget_s:.0f} s: "
        f"{'fits' if result.fits_budget else 'DOES NOT FIT'}"
    )
    lines.append(
        f"assumed: {SUSTAINED_BANDWIDTH_FRACTION:.0%} of the bandwidth, {SUSTAINED_FLOPS_FRACTION:.0%} of the peak, "
        f"{KERNEL_S * 1e6:.0f} us a kernel inside a graph"
    )
    return lines
