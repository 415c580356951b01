"""Questions, files, command line and figures: the validated border of the project.

>>> from scenarios import load_scenario
>>> load_scenario("scenarios/presets/llama8b_h100_chat.toml").hardware.gpu
'H100-SXM'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scenarios.build import Service, build_service
    from scenarios.files import load_scenario, preset_names, preset_path, scenario_from_dict
    from scenarios.questions.decide import Decision, decide
    from scenarios.schema import Scenario
    from scenarios.sweeps.sweeping import sweep

__all__ = [
    "Decision",
    "Scenario",
    "Service",
    "build_service",
    "decide",
    "load_scenario",
    "preset_names",
    "preset_path",
    "scenario_from_dict",
    "sweep",
]

_HOME = {
    "Decision": "scenarios.questions.decide",
    "decide": "scenarios.questions.decide",
    "Service": "scenarios.build",
    "build_service": "scenarios.build",
    "load_scenario": "scenarios.files",
    "preset_names": "scenarios.files",
    "preset_path": "scenarios.files",
    "scenario_from_dict": "scenarios.files",
    "Scenario": "scenarios.schema",
    "sweep": "scenarios.sweeps.sweeping",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: the command line starts without numpy and pydantic."""
    if name not in _HOME:
        raise AttributeError(f"module 'scenarios' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
