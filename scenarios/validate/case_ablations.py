"""Bands that do not hold, with one term changed: how large that term would have to be, and what it is."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from scenarios.build import build_service
from scenarios.validate.cases import CheckResult, run_check
from scenarios.validate.checks import Check, scenario_of


@dataclass(frozen=True, slots=True)
class Change:
    """One change to the runs of some arms. `options`: as in `checks.csv`; `host`: seconds of the engine's host times;
    `acceptance`: another acceptance; `arms_alike`: nothing but speculation differs between the arms.
    """

    case: str
    arms: tuple[str, ...]
    term: str
    text: str
    options: str = ""
    acceptance: str = ""
    arms_alike: bool = False
    host: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class Ablation:
    """A change with the checks it was made to, before and after."""

    change: Change
    before: tuple[CheckResult, ...]
    after: tuple[CheckResult, ...]


CHANGES = (
    Change(
        "C03",
        ("e3-k2", "e3-k3", "e3-k4", "e3-k5", "e3-k6", "e3-k7"),
        "draft",
        "the host time of a draft pass at the upper end of its declared range, 0.71 ms instead of 0.36 (the profiled "
        "round it is from had K = 2 instead of 3, which is not said); passes of the larger EAGLE-1 head took less",
        host={"draft_pass_s": 7.1e-4},
    ),
    Change(
        "C04",
        ("e1-k4", "e1-k7"),
        "draft",
        "a launch at 2e-5 s, one from Python, instead of the declared 6.1e-5: the head ran outside graphs",
        host={"launch_s": 2e-5},
    ),
    Change(
        "C09",
        ("tp2", "tp4"),
        "host",
        "sending the inputs of a forward to several GPUs at the upper end of its declared range, 5 ms instead of 2",
        host={"sharded_pass_s": 5e-3},
    ),
    Change(
        "C17",
        ("p-eagle-b1",),
        "acceptance",
        "alpha 0.622, published for gpt-oss-120b with another head on another dataset, instead of that of the 20B",
        acceptance="alpha 0.622",
    ),
    Change(
        "C26",
        ("next-80b", "27b-k2", "27b-k3"),
        "host",
        "a launch at 3.5e-5 s, between one from Python (2e-5) and the declared 6.1e-5: one arm then fits; each further "
        "draft costs the 27B more than a whole plain step, which no kernel or launch does",
        host={"launch_s": 3.5e-5},
    ),
    Change(
        "C28",
        ("k0-c2",),
        "host",
        "the tax of loaded speculation at the upper end of its declared range, 1 ms instead of 0.3",
        host={"idle_speculation_s": 1e-3},
    ),
    Change(
        "C30",
        ("batch-1", "batch-2"),
        "run",
        "answers as long with drafts as without: the loss published is that of answers that ended early, in a batch "
        "that waits for its longest",
        arms_alike=True,
    ),
)


def ablation_of(checks: Sequence[Check], change: Change) -> Ablation:
    """The checks of a change's arms, as they are and changed."""
    by_name = {check.name: check for check in checks}
    asked = [by_name[name] for arm in change.arms if (name := f"{change.case} {arm}") in by_name]
    before = tuple(run_check(check) for check in asked)
    return Ablation(change, before, tuple(changed(check, change) for check in asked))


def changed(check: Check, change: Change) -> CheckResult:
    """A check run with a change."""
    cells = {
        **check.cells,
        "options": "; ".join(filter(None, (check.cells["options"], change.options))),
        "on_options": "" if change.arms_alike else check.cells["on_options"],
        "acceptance": change.acceptance or check.cells["acceptance"],
    }
    if not change.host:
        return run_check(replace(check, cells=cells))
    calibration = build_service(scenario_of(check)).deployment.calibration
    host = calibration.host.model_copy(update=change.host)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibration.json"
        path.write_text(calibration.model_copy(update={"host": host}).model_dump_json(), encoding="utf-8")
        option = f'hardware.calibration="{path.as_posix()}"'
        cells["options"] = "; ".join(filter(None, (cells["options"], option)))
        return run_check(replace(check, cells=cells))
