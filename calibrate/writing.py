"""Files of a run, written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path

from roofline.errors import InvalidInput


def make_folder(folder: Path) -> None:
    """Make the folder of a run, parents included.

    Raises
    ------
    InvalidInput
        It cannot be made, or is a file.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{folder}: the folder cannot be made ({error.strerror}); give another --out that you may write to"
        ) from error


def write_text_at_once(path: Path, text: str) -> None:
    """Write through a file beside it, so that no reader ever sees half of it.

    Raises
    ------
    InvalidInput
        The folder is missing or may not be written to.
    """
    write_bytes_at_once(path, text.encode("utf-8"))


def write_bytes_at_once(path: Path, content: bytes) -> None:
    """The same for bytes."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> InvalidInput:
    """The sentence for a file that cannot be written."""
    return InvalidInput(f"{path} cannot be written ({error.strerror}); give a folder that you may write to")
