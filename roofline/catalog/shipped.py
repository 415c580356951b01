"""Calibrations that ship with the catalogue: constants fitted to measured kernel tables, one file a GPU and engine."""

from functools import cache
from pathlib import Path

from roofline.calibration import Calibration, load_calibration
from roofline.catalog.loader import engine, gpu

SHIPPED = Path(__file__).parent / "calibrations"


def shipped_calibration(gpu_name: str, engine_name: str) -> Calibration | None:
    """The shipped calibration of exactly this GPU under exactly this engine; None where none ships.

    Names are those of the catalogue, upper and lower case alike; a neighbour is never taken instead.
    """
    path = shipped_path(gpu_name, engine_name)
    return _loaded(path) if path.is_file() else None


def shipped_path(gpu_name: str, engine_name: str) -> Path:
    """Where the calibration of a GPU under an engine lies, or would lie."""
    return SHIPPED / f"{gpu(gpu_name).name}--{engine(engine_name).name}.json"


def shipped_names() -> tuple[tuple[str, str], ...]:
    """(GPU, engine) of every shipped calibration."""
    found = (path.stem.split("--") for path in sorted(SHIPPED.glob("*.json")))
    return tuple((parts[0], parts[1]) for parts in found)


@cache
def _loaded(path: Path) -> Calibration:
    return load_calibration(path)
