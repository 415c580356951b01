"""Finds the kernel tables: the installed package, or an unpacked wheel. Reads nothing of the package but data."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

from calibrate.kernel_tables.systems import SYSTEMS, TableSystem
from roofline.errors import InvalidInput, UnknownName

PACKAGE = "aiconfigurator_core"
VERSION = "0.12.0"
"""The one release whose tables were looked at; another may mean something else by the same column."""
INSTALL = f"pip install --no-deps aiconfigurator-core=={VERSION} && pip install pyarrow"


@dataclass(frozen=True, slots=True)
class TableFile:
    """One table of one engine on one system."""

    path: Path
    system: str
    engine: str
    engine_version: str

    @property
    def label(self) -> str:
        """Path inside the package."""
        return "/".join(self.path.parts[-5:])


@dataclass(frozen=True, slots=True)
class Package:
    """The folder `systems` of the package and its version."""

    systems: Path
    version: str

    def system(self, name: str) -> TableSystem:
        """A system with tables; upper and lower case alike, names of GPUs understood."""
        known = self.system_names()
        for system in SYSTEMS:
            if name.lower() in (system.name, system.gpu.lower()) and system.name in known:
                return system
        raise UnknownName(f"system {name!r} has no kernel tables (there are: {', '.join(known)}); use one of these")

    def system_names(self) -> tuple[str, ...]:
        """Systems with matrix tables that the catalogue knows a GPU for."""
        return tuple(one.name for one in SYSTEMS if (self.systems / "data" / one.name / "gemm").is_dir())

    def engine_names(self, system: str) -> tuple[str, ...]:
        """Engines measured on a system."""
        return tuple(sorted(path.name for path in (self.systems / "data" / system / "gemm").iterdir()))

    def check_engine(self, system: str, engine: str) -> None:
        """Refuse an engine that was not measured there."""
        known = self.engine_names(system)
        if engine not in known:
            raise UnknownName(f"system {system!r} has no tables of engine {engine!r} (it has {', '.join(known)})")

    def table(self, system: str, engine: str, name: str, *, version: str = "*") -> TableFile | None:
        """The table `family/name` of the newest engine version, or of `version`; None where there is none."""
        family, table = name.split("/")
        folder = self.systems / "data" / system / family / engine
        files = sorted(folder.glob(f"{version}/{table}_perf.parquet"), key=lambda path: _version_key(path.parent.name))
        return TableFile(files[-1], system, engine, files[-1].parent.name) if files else None


def open_package(path: Path | None = None) -> Package:
    """The tables of the installed package, or of the unpacked wheel at `path`.

    Raises
    ------
    InvalidInput
        The package is absent, or of another version than the one whose columns are known.
    """
    folder, version = _installed() if path is None else _unpacked(path)
    if version != VERSION:
        raise InvalidInput(
            f"aiconfigurator-core is version {version}, tables of {VERSION} are understood; install that: {INSTALL}"
        )
    return Package(systems=folder / "systems", version=version)


def _installed() -> tuple[Path, str]:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidInput(f"the package aiconfigurator-core is not installed; install its tables: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations))), importlib.metadata.version("aiconfigurator-core")


def _unpacked(path: Path) -> tuple[Path, str]:
    folder = path if (path / "systems").is_dir() else path / PACKAGE
    if not (folder / "systems" / "data").is_dir():
        raise InvalidInput(f"{path}: has no folder systems/data; give an unpacked wheel, or install: {INSTALL}")
    found = [re.fullmatch(rf"{PACKAGE}-(.+)\.dist-info", one.name) for one in folder.parent.iterdir()]
    versions = [match.group(1) for match in found if match]
    return folder, versions[0] if versions else "unknown"


def _version_key(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.split(r"[^0-9]+", text) if part)
