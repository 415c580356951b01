"""Rebuild everything that was derived and compare it, byte for byte, with what is shipped.

- every file of roofline/catalog/calibrations from the kernel tables of aiconfigurator-core, into an empty folder
- with --cost-curves and --speedups also prints the host constants that those published tables give

Usage: python docs/derivations/check_provenance.py [--package UNPACKED_WHEEL] [--workers N]
           [--cost-curves CSV --speedups CSV]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from calibrate.kernel_tables.shipping import Job, all_jobs, calibration_text, default_path, import_jobs
from roofline.calibration import Calibration, load_calibration
from roofline.catalog.shipped import SHIPPED
from roofline.errors import SpecdecError


def unsourced(path: Path) -> list[str]:
    """What a shipped file does not say about its inputs."""
    shipped = load_calibration(path)
    inputs = [note for note in shipped.notes if note.startswith("inputs: ") and "sha256" in note]
    wrong = [] if shipped.sources else ["no sources"]
    if not inputs:
        wrong.append("no input tables")
    if not shipped.rows_sha256:
        wrong.append("no hash of the rows")
    return [f"{path.name}: {one}" for one in wrong]


def rebuild(package: Path | None, folder: Path, workers: int) -> list[str]:
    """Import every shipped system and engine into `folder`; sentences about what failed."""
    failed: list[str] = []
    names = {path.name for path in SHIPPED.glob("*.json")}
    wanted = tuple(job for job in all_jobs(package) if _file_name(job) in names)

    def report(job: Job, result: Calibration | SpecdecError) -> None:
        if isinstance(result, SpecdecError):
            failed.append(f"{job}: {result}")
            return
        path = default_path(result, folder)
        path.write_text(calibration_text(result), encoding="utf-8")
        same = (SHIPPED / path.name).read_bytes() == path.read_bytes()
        print(f"{path.name}: {'equal' if same else 'DIFFERS'}", flush=True)

    import_jobs(wanted, package, workers=workers, report=report)
    return failed


def _file_name(job: Job) -> str:
    from calibrate.kernel_tables.systems import SYSTEMS

    gpu = next(system.gpu for system in SYSTEMS if system.name == job[0])
    return f"{gpu}--{job[1]}.json"


def main() -> int:
    """0 where everything is equal and sourced."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--cost-curves", type=Path)
    parser.add_argument("--speedups", type=Path)
    arguments = parser.parse_args()
    shipped = sorted(SHIPPED.glob("*.json"))
    wrong = [text for path in shipped for text in unsourced(path)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wrong += rebuild(arguments.package, folder, arguments.workers)
        for path in shipped:
            again = folder / path.name
            if not again.exists():
                wrong.append(f"{path.name}: was not rebuilt")
            elif again.read_bytes() != path.read_bytes():
                wrong.append(f"{path.name}: differs from what its inputs give")
    if arguments.cost_curves and arguments.speedups:
        script = Path(__file__).with_name("derive_host_constants.py")
        subprocess.run([sys.executable, script, arguments.cost_curves, arguments.speedups], check=True)
    print("\n".join(wrong) or f"all {len(shipped)} shipped calibrations follow from their inputs, byte for byte")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
