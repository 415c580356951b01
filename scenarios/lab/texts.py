"""Text for the lab: slices of files that every installation has, or the user's own files.

Nothing is read whole: passages start at seeded places of seeded files, so a file of a gigabyte costs no more than a
small one. Files are split into those a head may learn from and those it is measured on.
"""

from __future__ import annotations

import hashlib
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from roofline.errors import InvalidInput
from scenarios.files import TRACE_FOLDER
from simulator.rng import Streams

TASKS = ("code", "json", "prose", "chat", "agent")
SMALL_TEXTS = TRACE_FOLDER / "lab"
MIN_BYTES = 700
"""Smaller files hold no whole passage."""
MAX_FILES = 400
"""Files looked at per slice, first by name: a folder of a million files must not cost a listing of all."""


@dataclass(frozen=True, slots=True)
class TextSlice:
    """Files of one kind.

    Attributes
    ----------
    licence
        Whose text it is; nothing of it leaves this machine.
    """

    name: str
    task: str
    files: tuple[Path, ...]
    licence: str

    def for_training(self) -> tuple[Stretch, ...]:
        """What a head may learn from."""
        return tuple(stretch for stretch, is_test in self._split() if not is_test)

    def for_measuring(self) -> tuple[Stretch, ...]:
        """What acceptance is measured on: every third file, or the last third of a single one."""
        return tuple(stretch for stretch, is_test in self._split() if is_test)

    def _split(self) -> list[tuple[Stretch, bool]]:
        sizes = [file.stat().st_size for file in self.files]
        if len(self.files) == 1:
            cut = sizes[0] * 2 // 3
            return [(Stretch(self.files[0], 0, cut), False), (Stretch(self.files[0], cut, sizes[0]), True)]
        # By the hash of folder and name: files of one name in many folders have nothing else to tell them apart.
        by_hash = sorted(range(len(self.files)), key=lambda index: _hash("/".join(self.files[index].parts[-2:])))
        tests = set(by_hash[: max(1, len(by_hash) // 3)])
        return [(Stretch(file, 0, sizes[index]), index in tests) for index, file in enumerate(self.files)]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes `first` to `end` of a file."""

    file: Path
    first: int
    end: int

    def text(self, start: int, length_bytes: int) -> str:
        """Text from byte `start` on; cut characters at the edges are left out."""
        with self.file.open("rb") as stream:
            stream.seek(start)
            raw = stream.read(min(length_bytes, self.end - start))
        text = raw.decode("utf-8", errors="ignore")
        if len(text.encode("utf-8")) < 0.9 * len(raw) or "\0" in text:
            raise InvalidInput(
                f"{self.file} is not text in UTF-8 near byte {start}; convert it, or leave it out of --tasks"
            )
        return text


def chosen_slices(tasks: str | None) -> tuple[TextSlice, ...]:
    """Slices of the tasks named, of files named, or of all tasks.

    Raises
    ------
    InvalidInput
        A name is neither a task nor a file, a file is empty, or a task has no files here.
    """
    slices: list[TextSlice] = []
    for word in (tasks or ",".join(TASKS)).split(","):
        name = word.strip()
        slices.extend(_of_task(name) if name in TASKS else [_of_file(Path(name))])
    return tuple(slices)


def passages(stretches: tuple[Stretch, ...], *, count: int, length_bytes: int, seed: int) -> list[str]:
    """`count` texts of about `length_bytes`, spread evenly over all stretches with a seeded shift.

    They overlap when there is less text than that.
    """
    sizes = np.array([max(0, stretch.end - stretch.first) for stretch in stretches], dtype=np.int64)
    ends = sizes.cumsum()
    shift = Streams(seed).get("passages").random()
    texts: list[str] = []
    for number in range(count):
        place = (number + shift) / count * int(ends[-1])
        index = int(np.searchsorted(ends, place, side="right"))
        stretch = stretches[index]
        latest = max(stretch.first, stretch.end - length_bytes)
        start = min(stretch.first + int(place - ends[index] + sizes[index]), latest)
        texts.append(stretch.text(start, length_bytes))
    return texts


def _of_file(path: Path) -> TextSlice:
    if not path.is_file():
        raise InvalidInput(
            f"--tasks: {str(path)!r} is neither a task ({', '.join(TASKS)}) nor a file; give one of them"
        )
    if not path.stat().st_size:
        raise InvalidInput(f"{path} is empty; give a file with some thousand words, or leave it out of --tasks")
    return TextSlice(path.name, path.stem, (path,), "your own")


def _of_task(task: str) -> list[TextSlice]:
    found = [each for each in _own_slices() if each.task == task and each.files]
    if not found:
        raise InvalidInput(f"--tasks: this Python installation has no files for {task!r}; name files of your own")
    return found


def _own_slices() -> list[TextSlice]:
    """What an installation holds, but its licences: they are copies of few texts, so no split keeps them apart."""
    paths = sysconfig.get_paths()
    library, packages = Path(paths["stdlib"]), Path(paths["purelib"])
    models = Path(__file__).parents[2] / "roofline" / "catalog" / "models"

    def files(folder: Path, *patterns: str) -> tuple[Path, ...]:
        found = {
            path
            for pattern in patterns
            for path in folder.glob(pattern)
            if path.is_file() and path.stat().st_size >= MIN_BYTES
        }
        return tuple(sorted(found)[:MAX_FILES])

    return [
        TextSlice("python-library", "code", files(library, "*.py"), "PSF-2.0"),
        TextSlice(
            "python-numeric", "code", files(packages / "numpy", "lib/*.py", "ma/*.py", "linalg/*.py"), "BSD-3-Clause"
        ),
        TextSlice(
            "c-headers", "code", files(packages, "numpy/_core/include/numpy/*.h", "torch/include/ATen/*.h"), "BSD"
        ),
        TextSlice("model-configs", "json", files(models, "*.json"), "of each model; see SOURCES.toml"),
        TextSlice("measured-tables", "json", files(models.parent / "calibrations", "*.json"), "Apache-2.0"),
        TextSlice("language-reference", "prose", files(library / "pydoc_data", "topics.py"), "PSF-2.0"),
        TextSlice("package-readmes", "prose", files(packages, "*.dist-info/METADATA"), "of each package"),
        TextSlice("stories", "prose", files(SMALL_TEXTS / "story", "*.txt"), "Apache-2.0"),
        TextSlice("conversations", "chat", files(SMALL_TEXTS / "chat", "*.txt"), "Apache-2.0"),
        TextSlice("shell-sessions", "agent", files(SMALL_TEXTS / "agent", "*.txt"), "Apache-2.0"),
    ]


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
